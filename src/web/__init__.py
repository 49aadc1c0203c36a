"""Shared parts of the HTTP servers: sockets, the end by a signal, incomplete requests, tracing."""
