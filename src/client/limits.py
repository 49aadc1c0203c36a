"""Limits of a conversation with a server: times, sizes and numbers."""

import os
import re
from dataclasses import dataclass, fields
from functools import lru_cache
from typing import Final

from ..types.errors import ResultTooLarge, SettingInvalid

_MIB: Final = 1024 * 1024
# Characters of a server's texts for people: what stands further behind is not scanned, and models must not
# read it.
LONGEST_NAME: Final = 10_000
LONGEST_TEXT: Final = 200_000
VARIABLE: Final = "KNIME_MCP_LIMITS"
_NUMBER: Final = re.compile(r"([1-9][0-9_]{0,17})\s*(MiB)?", re.IGNORECASE)


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
    """The contract: what a server can make the client read, hold, follow or repeat (docs/limits.md).

    No honest server meets these. ``KNIME_MCP_LIMITS`` in the environment raises them for nodes, commands,
    agents and graphs, such as ``values=5000000, result_bytes=256 MiB``.

    Attributes:
        result_bytes: Bytes of one reply after decompression.
        values: Values (lists, objects and what is in them) of one reply, and of one listing. Each takes up
            to 200 bytes of memory and may be less than one byte on the wire, compressed.
        blocks: Content blocks of one result, as each has its own record and digest.
        large_bytes: Replies that grow beyond this are read and decoded one at a time, so that calls in flight
            share the memory of one of them.
        event_bytes: Bytes of one server-sent event, or one line of a stdio server; a larger one fails
            its call.
        events: Other messages than the reply on the stream of one call (progress, logging, requests), and
            messages in a minute on a stream of the server's own.
        pages: Pages of one listing.
        tools: Entries of one listing: tools, resources, templates or prompts.
        listing_bytes: JSON text of all pages of one listing together.
        schema_bytes: JSON text of one schema that is compiled for validation, and of a tool's definition.
        schema_depth: Levels of nesting of such a schema.
        schema_expansion: Estimated steps of validating one value, in addition to 200 for each of its parts.
        redirects: Redirects followed for one request (same origin only).
        attempts: Attempts of a request that may be repeated safely.
        input_rounds: Rounds of ``input_required`` for one call.
    """

    result_bytes: int = 64 * _MIB
    values: int = 2_000_000
    blocks: int = 100_000
    large_bytes: int = 4 * _MIB
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

    @staticmethod
    def usual() -> "Limits":
        """The limits of a client that is told none: those of the environment."""
        return _written(os.environ.get(VARIABLE, ""))


@lru_cache(maxsize=8)
def _written(text: str) -> Limits:
    names = {entry.name for entry in fields(Limits)}
    values: dict[str, int] = {}
    for part in filter(str.strip, text.split(",")):
        name, _, value = (word.strip() for word in part.partition("="))
        number = _NUMBER.fullmatch(value)
        if name not in names or number is None:
            raise SettingInvalid(
                f"The environment variable {VARIABLE} has '{part.strip()[:80]}', which is no limit",
                setting="limits",
                fix=f"Write name=number; names are {', '.join(sorted(names))}",
            )
        values[name] = int(number[1].replace("_", "")) * (_MIB if number[2] else 1)
    return Limits(**values)


def exceeded(name: str, limit: int, what: str) -> ResultTooLarge:
    """The error for what a server sent beyond a limit: what it sent, and how to raise the limit."""
    raised = f"{2 * limit // _MIB} MiB" if name.endswith("_bytes") and limit >= _MIB else f"{2 * limit}"
    return ResultTooLarge(
        what,
        limit=limit,
        fix=f"Ask the server for less at once, or raise the limit: {VARIABLE}='{name}={raised}' in the"
        f" environment, or Limits({name}=…) in Python",
    )
