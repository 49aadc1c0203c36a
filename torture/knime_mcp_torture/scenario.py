"""What a scenario is, and the few words that scenarios are written in."""

import json
import struct
import zlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from tests.support.scripted_server import ScriptedServer, http, legacy, rpc, text, tool

SPECIFICATION = "https://modelcontextprotocol.io/specification/2025-11-25/"
OK_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
EVENTS_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
TOOLS = [tool("bad", annotations={"readOnlyHint": True}), tool("good", annotations={"readOnlyHint": True})]


@dataclass(frozen=True, kw_only=True)
class Scenario:
    """One server, what a client does with it (connects, lists, calls `bad`, then `good`), and what must come of it.

    Attributes:
        number: Group, and place in the group: ``3.7``.
        title: What the server does.
        rule: What is asked of a client, in our words.
        section: The part of the specification, or of another standard, that it follows from.
        expects: ``works``: the call of `bad` gives the result `value`. ``fails``: it ends in an error. ``ends``:
            either, as long as it ends. ``refuses``: connecting or listing ends in an error. ``lists``: the list
            has the tools `value`.
        value: See `expects`; for ``works`` None accepts any result.
        script: The server, by method; None for a stdio server.
        command: The habit of the stdio server of `stdio_server.py`.
        then: Whether `good` must work afterwards, in the same session.
        memory: MiB that the process of the client may grow by.
        check: What the server saw, as a complaint; None if all is well.
        foreign: A second server, to which the first one points; it must be asked for nothing.
    """

    number: str
    title: str
    rule: str
    section: str
    expects: str
    value: Any = None
    script: Callable[[str], dict[str, Any]] | None = None
    command: str | None = None
    then: bool = True
    memory: int = 200
    check: Callable[[ScriptedServer], str | None] | None = None
    foreign: bool = False

    @property
    def must(self) -> str:
        return {
            "works": f"give the result {self.value!r}" if self.value is not None else "give a result",
            "fails": "end the call with an error",
            "ends": "end the call, with a result or an error",
            "refuses": "say that it cannot connect or list",
            "lists": f"list {', '.join(self.value or ())}",
        }[self.expects] + (", and make the next call as if nothing had been" if self.then else "")

    @property
    def must_not(self) -> str:
        no = "ask the other server" if self.foreign else "wait beyond its clock"
        return f"{no}, end the program, or take more than {self.memory} MiB"


Reply = Any


def server(bad: Reply = None, **replies: Any) -> Callable[[str], dict[str, Any]]:
    """A server of revision 2025-11-25 whose tool `bad` gives that reply; `good` always works."""

    def script(_foreign: str) -> dict[str, Any]:
        def call(request: Any) -> Any:
            reply = good if request.params["name"] == "good" or bad is None else bad
            return reply(request) if callable(reply) else reply

        listing = rpc({"tools": TOOLS})
        return legacy(**{"tools__list": listing, "tools__call": call, "GET": http(405), **replies})

    return script


good = rpc(text("good"))


def group(number: int, section: str, rows: Iterable[tuple[Any, ...]]) -> list[Scenario]:
    """The scenarios of a group, from rows of title, rule, reply or script, what is expected, and more."""
    found: list[Scenario] = []
    for place, (title, rule, reply, expects, *rest) in enumerate(rows, 1):
        more: dict[str, Any] = dict(rest[0]) if rest else {}
        kind, _, value = expects.partition(":")
        if kind == "lists":
            more["value"] = tuple(value.split(","))
        elif value:
            more["value"] = value
        if isinstance(reply, str):
            more["command"] = reply
        else:
            more["script"] = reply if getattr(reply, "__name__", "") == "script" else server(reply)
        found.append(
            Scenario(
                number=f"{number}.{place}",
                title=title,
                rule=rule,
                section=more.pop("section", section),
                expects=kind,
                **more,
            )
        )
    return found


def result(body: str) -> Reply:
    """A JSON reply whose result is the text."""
    return lambda r: http(200, f'{{"jsonrpc": "2.0", "id": {json.dumps(r.json["id"])}, "result": {body}}}')


def reply_text(form: str) -> Reply:
    """A JSON reply that is the text, with the id for @."""
    return lambda r: http(200, form.replace("@", json.dumps(r.json["id"])))


def packed(beginning: bytes, unit: bytes, times: int, end: bytes = b"") -> bytes:
    """One gzip member of the beginning, a unit so many times, and the end; packs the unit only once."""
    packer = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    body = [packer.compress(beginning) + packer.flush(zlib.Z_FULL_FLUSH)]
    body += [packer.compress(unit) + packer.flush(zlib.Z_FULL_FLUSH)] * times  # a flushed block stands alone
    body.append(packer.compress(end) + packer.flush())
    checksum = zlib.crc32(beginning)
    for _ in range(times):
        checksum = zlib.crc32(unit, checksum)
    size = len(beginning) + len(unit) * times + len(end)
    trailer = struct.pack("<II", zlib.crc32(end, checksum), size & 0xFFFFFFFF)
    return b"\x1f\x8b\x08\0\0\0\0\0\0\xff" + b"".join(body) + trailer


def bomb(beginning: bytes, unit: bytes, times: int, end: bytes, *, kind: str = "application/json") -> Reply:
    """A compressed reply: what its result begins with, 100,000 units so many times, and the end."""

    def reply(request: Any) -> Any:
        before = b"data: " if kind == "text/event-stream" else b""
        head = b'%s{"jsonrpc": "2.0", "id": %d, "result": %s' % (before, request.json["id"], beginning)
        body = packed(head, unit * 100_000, times, end)
        return http(200, body, content_type=kind, headers={"Content-Encoding": "gzip"})

    return reply


def drip(head: bytes, piece: bytes, pause: float = 0.05) -> Reply:
    """The head at once, the rest in drops, for longer than any clock of the suite."""
    return [head, *([piece, pause] * 600)]


@dataclass
class Outcome:
    """What a client said of one scenario, and what that cost."""

    connect: dict[str, Any] = field(default_factory=dict[str, Any])
    tools: list[str] | None = None
    calls: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    seconds: float = 0.0
    memory: int = 0
    end: str = ""  # "hang" or "crash", if the program gave no answer
