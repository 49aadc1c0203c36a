"""The Model Context Protocol as pure functions: bytes and values in, values out, no I/O."""
