"""Sessions over standard input and output that open with ``initialize``, as nearly all clients open them.

The SDK serves them, too, but takes longer to load than everything else together. The rules:
https://modelcontextprotocol.io/specification/2025-11-25/basic/lifecycle
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol, cast

import anyio

if TYPE_CHECKING:
    from .pipes import Incoming, Outgoing

Report = Callable[[float, float | None, str | None], Awaitable[None]]
"""Told how far a call is: done, of how much, in words."""

_REVISIONS: Final = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
_MODERN_KEY: Final = "io.modelcontextprotocol/protocolVersion"
_INVALID_REQUEST: Final = -32600
_METHOD_NOT_FOUND: Final = -32601
INVALID_PARAMS: Final = -32602
_to_json: Final = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


class Refused(Exception):  # noqa: N818 - the request is at fault
    """A request that cannot be answered: JSON-RPC's code, and why."""

    def __init__(self, code: int, why: str) -> None:
        super().__init__(why)
        self.code = code


@dataclass(frozen=True, slots=True, kw_only=True)
class Info:
    """What a server says about itself; see ``serverInfo``."""

    name: str
    title: str | None
    version: str
    instructions: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What a client wants to have run.

    Attributes:
        tool: Name of the tool.
        arguments: Its arguments, JSON.
        meta: What the request says in ``_meta``.
        any_json: Whether the client takes results that are no objects, too.
    """

    tool: str
    arguments: Mapping[str, Any] | None
    meta: Mapping[str, Any]
    any_json: bool


class Service(Protocol):
    """What has tools."""

    @property
    def info(self) -> Info:
        """What the server says about itself."""
        ...

    def tools(self, *, any_json: bool) -> list[dict[str, Any]]:
        """The tools, as MCP lists them.

        Args:
            any_json: Whether the client takes results that are no objects, too.
        """
        ...

    async def call(self, asked: Asked, report: Report | None = None) -> dict[str, Any]:
        """Runs a tool; who cancels this ends the run.

        Args:
            asked: What is called.
            report: Told how far it is; None: nobody wants to know.

        Returns:
            What MCP has as the result of a call, also where it says why it failed.

        Raises:
            Refused: There is no such tool, where the server does not say so in a result.
        """
        ...


def is_handshake(line: bytes) -> bool:
    """Whether a line is the request that opens such a session."""
    return _message(line).get("method") == "initialize"


class HandshakeSession:
    """Serves one client.

    Args:
        service: Lists and runs the tools.
        incoming: What the client sends.
        outgoing: Where answers go.
        list_changes: Whether `tell_of_change` will ever be called.
    """

    def __init__(
        self, service: Service, incoming: Incoming, outgoing: Outgoing, *, list_changes: bool = False
    ) -> None:
        self._service = service
        self._incoming = incoming
        self._outgoing = outgoing
        self._is_open = False
        self._running: dict[str, anyio.CancelScope] = {}
        self._list_changes = list_changes

    async def run(self) -> None:
        """Answers until the client sends no more; calls that still run then are ended."""
        async with anyio.create_task_group() as calls:
            async for line in self._incoming:
                match _message(line):
                    case {"id": str() | int() as number, "method": "tools/call", **rest}:
                        calls.start_soon(self._answer, number, "tools/call", rest.get("params"))
                    case {"id": str() | int() as number, "method": str() as method, **rest}:
                        await self._answer(number, method, rest.get("params"))
                    case {"method": "notifications/cancelled", "params": {"requestId": number}}:
                        if (scope := self._running.get(str(number))) is not None:
                            scope.cancel()
                    case _:
                        pass  # nothing that wants an answer
            await anyio.sleep(0)  # what only computes is still answered
            for scope in self._running.values():
                scope.cancel()

    async def _answer(self, number: str | int, method: str, params: Any) -> None:
        answer: dict[str, Any] = {}
        with anyio.CancelScope() as self._running[str(number)]:
            try:
                answer = {"result": await self._result(method, _object(params))}
            except Refused as refused:
                answer = {"error": {"code": refused.code, "message": str(refused)}}
        self._running.pop(str(number), None)
        if answer:  # whole, however slowly it is read, also when nothing more comes in
            await self._send(id=number, **answer)

    async def _result(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        if method == "initialize":
            return self._welcome(params)
        if method == "ping":
            return {}
        if method not in {"tools/list", "tools/call"}:
            raise Refused(_METHOD_NOT_FOUND, f"Method not found: {method}")
        meta = _object(params.get("_meta"))
        if not self._is_open:
            raise Refused(_INVALID_REQUEST, "Send 'initialize' first")
        if _MODERN_KEY in meta:
            what = "This connection began with a handshake; requests of 2026-07-28 are not accepted on it"
            raise Refused(_INVALID_REQUEST, what)
        if method == "tools/list":
            return {"tools": self._service.tools(any_json=False)}
        return await self._call(params, meta)

    def _welcome(self, params: dict[str, Any]) -> dict[str, Any]:
        asked = params.get("protocolVersion")
        if not isinstance(asked, str):
            raise Refused(INVALID_PARAMS, "'protocolVersion' must be text")
        self._is_open = True
        info = self._service.info
        found: dict[str, Any] = {
            "protocolVersion": asked if asked in _REVISIONS else _REVISIONS[-1],
            "capabilities": {"tools": {"listChanged": self._list_changes}},
            "serverInfo": {"name": info.name, "title": info.title, "version": info.version},
        }
        return found if info.instructions is None else {**found, "instructions": info.instructions}

    async def _call(self, params: dict[str, Any], meta: dict[str, Any]) -> dict[str, Any]:
        tool = params.get("name")
        if not isinstance(tool, str):
            raise Refused(INVALID_PARAMS, "'name' must be text")
        asked = Asked(
            tool=tool,
            arguments=_object(params.get("arguments")),
            meta=meta,
            any_json=False,
        )
        return await self._service.call(asked, self._report(meta.get("progressToken")))

    def _report(self, token: Any) -> Report | None:
        async def report(done: float, _total: float | None, text: str | None) -> None:
            params = {"progressToken": token, "progress": done, "message": text}
            await self._send(method="notifications/progress", params=params)

        return None if token is None else report

    async def tell_of_change(self) -> None:
        """Tells the client that the list of tools is another one."""
        if self._is_open:
            await self._send(method="notifications/tools/list_changed")

    async def _send(self, **message: Any) -> None:
        with suppress(anyio.BrokenResourceError):  # who reads no more sends no more either: `run` ends
            await self._outgoing.send(_to_json({"jsonrpc": "2.0", **message}))


def _message(line: bytes) -> dict[str, Any]:
    """A message of JSON-RPC; empty if the line is none."""
    try:
        found = json.loads(line.decode("utf-8", "replace"))
    except (ValueError, RecursionError):
        return {}
    is_message = isinstance(found, dict) and cast("dict[str, Any]", found).get("jsonrpc") == "2.0"
    return cast("dict[str, Any]", found) if is_message else {}


def _object(value: Any) -> dict[str, Any]:
    """An object that may be left out.

    Raises:
        Refused: It is something else.
    """
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise Refused(INVALID_PARAMS, "'params', 'arguments' and '_meta' must be objects")
    return cast("dict[str, Any]", value)
