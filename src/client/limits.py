"""Limits of a conversation with a server: times, sizes and numbers."""

from dataclasses import dataclass
from typing import Final

_MIB = 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeouts:
    """The three clocks of the client, in seconds.

    Attributes:
        connect: Time for connecting: name look-up, TCP, TLS, proxy, and the first event of an SSE stream.
        idle: Longest silence while waiting for a reply. A progress notification, another message about the
            call, or bytes of the reply restart this clock; keep-alive comments do not.
        total: Time for the whole call. Progress does not extend it.
    """

    connect: float = 10.0
    idle: float = 60.0
    total: float = 300.0


LISTENING: Final = Timeouts(idle=1e9, total=1e9)
"""The clocks of a stream that stays open until it is closed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The limits on what a server can make the client read, hold, follow or repeat.

    Attributes:
        result_bytes: Bytes of one reply after decompression.
        values: Values (lists, objects and what is in them) of one reply. Each takes some 70 bytes of memory
            and may be less than one byte on the wire, compressed.
        event_bytes: Bytes of one server-sent event.
        events: Other messages than the reply on the stream of one call (progress, logging, requests).
        pages: Pages of one listing.
        tools: Tools of one listing.
        listing_bytes: JSON text of all pages of one listing together.
        schema_bytes: JSON text of one schema that is compiled for validation.
        schema_depth: Levels of nesting of such a schema.
        schema_expansion: Estimated steps of validating one value, in addition to 200 for each of its parts.
        redirects: Redirects followed for one request (same origin only).
        attempts: Attempts of a request that may be repeated safely.
        input_rounds: Rounds of ``input_required`` for one call.
    """

    result_bytes: int = 64 * _MIB
    values: int = 2_000_000
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
