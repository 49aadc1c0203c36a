"""Replay: makes recorded calls again, as far as that is allowed, and compares the results."""
