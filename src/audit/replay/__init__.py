"""Replay: recorded calls are made again, as far as they may be, and what comes back is compared."""
