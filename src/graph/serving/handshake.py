"""Sessions over standard input and output that open with ``initialize``, as nearly all clients open them.

The SDK serves them, too, but takes longer to load than everything else together. The rules:
https://modelcontextprotocol.io/specification/2025-11-25/basic/lifecycle
"""

from __future__ import annotations

import json
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, cast

import anyio

from .service import HISTORY_KEY, Asked

if TYPE_CHECKING:
    from .pipes import Incoming, Outgoing
    from .service import GraphService, Report

_REVISIONS: Final = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
_MODERN_KEY: Final = "io.modelcontextprotocol/protocolVersion"
_INVALID_REQUEST: Final = -32600
_METHOD_NOT_FOUND: Final = -32601
_INVALID_PARAMS: Final = -32602
_to_json: Final = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


class _Refused(Exception):  # noqa: N818 - the request is at fault
    """A request that cannot be answered: JSON-RPC's code, and why."""

    def __init__(self, code: int, why: str) -> None:
        super().__init__(why)
        self.code = code


def is_handshake(line: bytes) -> bool:
    """Whether a line is the request that opens such a session."""
    return _message(line).get("method") == "initialize"


class HandshakeSession:
    """Serves one client.

    Args:
        service: Lists and runs the tools.
        incoming: What the client sends.
        outgoing: Where answers go.
    """

    def __init__(self, service: GraphService, incoming: Incoming, outgoing: Outgoing) -> None:
        self._service = service
        self._incoming = incoming
        self._outgoing = outgoing
        self._is_open = False
        self._running: dict[str, anyio.CancelScope] = {}
        service.on_change = self._tell_of_change

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
            calls.cancel_scope.cancel()

    async def _answer(self, number: str | int, method: str, params: Any) -> None:
        with anyio.CancelScope() as self._running[str(number)]:
            try:
                result = await self._result(method, _object(params))
            except _Refused as refused:
                await self._send(id=number, error={"code": refused.code, "message": str(refused)})
            else:
                await self._send(id=number, result=result)
        self._running.pop(str(number), None)

    async def _result(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        if method == "initialize":
            return self._welcome(params)
        if method == "ping":
            return {}
        if method not in {"tools/list", "tools/call"}:
            raise _Refused(_METHOD_NOT_FOUND, f"Method not found: {method}")
        meta = _object(params.get("_meta"))
        if not self._is_open:
            raise _Refused(_INVALID_REQUEST, "Send 'initialize' first")
        if _MODERN_KEY in meta:
            what = "This connection began with a handshake; requests of 2026-07-28 are not accepted on it"
            raise _Refused(_INVALID_REQUEST, what)
        if method == "tools/list":
            return {"tools": self._service.tools(any_json=False)}
        return await self._call(params, meta)

    def _welcome(self, params: dict[str, Any]) -> dict[str, Any]:
        asked = params.get("protocolVersion")
        if not isinstance(asked, str):
            raise _Refused(_INVALID_PARAMS, "'protocolVersion' must be text")
        self._is_open = True
        info = self._service.info
        found: dict[str, Any] = {
            "protocolVersion": asked if asked in _REVISIONS else _REVISIONS[-1],
            "capabilities": {"tools": {"listChanged": True}},
            "serverInfo": {"name": info.name, "title": info.title, "version": info.version},
        }
        return found if info.instructions is None else {**found, "instructions": info.instructions}

    async def _call(self, params: dict[str, Any], meta: dict[str, Any]) -> dict[str, Any]:
        tool = params.get("name")
        if not isinstance(tool, str):
            raise _Refused(_INVALID_PARAMS, "'name' must be text")
        asked = Asked(
            tool=tool,
            arguments=_object(params.get("arguments")),
            wants_history=meta.get(HISTORY_KEY) is True,
            any_json=False,
        )
        return await self._service.call(asked, self._report(meta.get("progressToken")))

    def _report(self, token: Any) -> Report | None:
        async def report(done: float, _total: float | None, text: str | None) -> None:
            params = {"progressToken": token, "progress": done, "message": text}
            await self._send(method="notifications/progress", params=params)

        return None if token is None else report

    async def _tell_of_change(self) -> None:
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
        _Refused: It is something else.
    """
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise _Refused(_INVALID_PARAMS, "'params', 'arguments' and '_meta' must be objects")
    return cast("dict[str, Any]", value)
