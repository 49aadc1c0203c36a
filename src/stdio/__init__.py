"""Shared parts of servers on standard input and output: pipes without threads, sessions without the SDK."""
