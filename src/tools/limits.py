"""Bounds of a conversation with a server: how long things may take and how large they may get."""

from dataclasses import dataclass
from typing import Final

_MIB = 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeouts:
    """The three clocks of the client, in seconds.

    Attributes:
        connect: Until a connection stands: name look-up, TCP, TLS, proxy, and the first event of an SSE
            stream.
        idle: Longest silence while a reply is awaited. A progress notification, any other message about the
            call, or bytes of the reply start it anew; keep-alive comments do not.
        total: The whole call, whatever happens. Progress never extends it.
    """

    connect: float = 10.0
    idle: float = 60.0
    total: float = 300.0


LISTENING: Final = Timeouts(idle=1e9, total=1e9)
"""For a stream that stays open until somebody ends it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What a server may make us read, hold, follow or repeat.

    Attributes:
        result_bytes: One reply after decompression, whatever it is made of.
        event_bytes: One server-sent event.
        events: Messages beside the reply on the stream of one call (progress, logging, requests).
        pages: Pages of one listing.
        tools: Tools of one listing.
        listing_bytes: JSON text of all pages of one listing together.
        schema_bytes: JSON text of one schema that is compiled for validation.
        schema_depth: Nesting of one such schema.
        schema_expansion: Looks of a validator at one value, beside 200 for each of its parts.
        redirects: Redirects followed for one request (same origin only).
        attempts: Times a request is sent at most when it may be repeated safely.
        input_rounds: Rounds of ``input_required`` for one call.
    """

    result_bytes: int = 64 * _MIB
    event_bytes: int = 64 * _MIB
    events: int = 100_000
    pages: int = 1000
    tools: int = 50_000
    listing_bytes: int = 128 * _MIB
    schema_bytes: int = 2 * _MIB
    schema_depth: int = 64
    schema_expansion: int = 100_000
    redirects: int = 5
    attempts: int = 3
    input_rounds: int = 10
