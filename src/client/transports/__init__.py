"""The transports of messages, one per module, all behind `base.Transport`."""
