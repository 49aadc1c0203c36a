"""How messages travel: one module per transport, all behind `base.Transport`."""
