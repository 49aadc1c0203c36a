"""Tool calls: running them, recording them, and keeping, verifying and replaying the records."""
