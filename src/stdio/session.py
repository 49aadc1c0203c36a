"""Sessions over standard input and output: with ``initialize`` first, or, as of 2026-07-28, with any request.

The SDK could serve them as well, but takes longer to load than everything else together. The rules:
https://modelcontextprotocol.io/specification/2025-11-25/basic/lifecycle and
https://modelcontextprotocol.io/specification/2026-07-28/basic
"""

from __future__ import annotations

import json
import math
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol, cast

import anyio

if TYPE_CHECKING:
    from .pipes import Incoming, OutputPipe

Report = Callable[[float, float | None, str | None], Awaitable[None]]
"""Receives progress: done, total, text."""

_REVISIONS: Final = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
_MODERN: Final = "2026-07-28"
_MODERN_KEY: Final = "io.modelcontextprotocol/protocolVersion"
_CAPABILITIES_KEY: Final = "io.modelcontextprotocol/clientCapabilities"
_SERVER_KEY: Final = "io.modelcontextprotocol/serverInfo"
_SAME_FOR_MS: Final = 3_600_000
"""Time to live of results that never change, for clients of 2026-07-28."""

_GRACE_SECONDS: Final = 1.0
"""Time for calls to finish after the end of the input, as with ``printf … | mcpgraph``. Clients wait two
seconds before they end the process: https://modelcontextprotocol.io/specification/2025-11-25/basic/lifecycle
leaves the time to them."""
_UNSUPPORTED: Final = -32022
_NOT_JSON: Final = -32700
_INVALID_REQUEST: Final = -32600
_METHOD_NOT_FOUND: Final = -32601
_INTERNAL_ERROR: Final = -32603
INVALID_PARAMS: Final = -32602
_NO_MESSAGE: Final = "This is no message of JSON-RPC 2.0"
_to_json: Final = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


class Refused(Exception):  # noqa: N818 - the request is at fault
    """A request that cannot be answered: JSON-RPC's code, the reason, and data for programs."""

    def __init__(self, code: int, why: str, **data: Any) -> None:
        super().__init__(why)
        self.code = code
        self.data = data


@dataclass(frozen=True, slots=True, kw_only=True)
class Info:
    """See ``serverInfo``."""

    name: str
    title: str | None
    version: str
    instructions: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestedCall:
    """A call that a client requests."""

    tool: str
    arguments: Mapping[str, Any] | None
    meta: Mapping[str, Any]  # the request's ``_meta``
    any_json: bool


class Service(Protocol):
    """A provider of tools."""

    @property
    def info(self) -> Info: ...

    async def tools(self, *, any_json: bool) -> list[dict[str, Any]]:
        """As MCP lists them."""
        ...

    async def call(self, asked: RequestedCall, report: Report | None = None) -> dict[str, Any]:
        """Runs a tool; canceling the coroutine ends the run. The result may be that of a call that failed.

        Raises `Refused` if there is no such tool, and the server does not report that in a result.
        """
        ...


TOOLS_CHANGED: Final = "notifications/tools/list_changed"


def is_handshake(line: bytes) -> bool:
    """Whether a line is the request that opens a session that `StdioSession` serves."""
    message = _parsed(line)
    return isinstance(message, dict) and cast("dict[str, Any]", message).get("method") == "initialize"


class StdioSession:
    """Serves one client.

    With `list_changes`, `tell_of_change` may be called. Then the session has to open with ``initialize``, as
    only the SDK has the subscriptions of 2026-07-28.
    """

    def __init__(
        self, service: Service, incoming: Incoming, outgoing: OutputPipe, *, list_changes: bool = False
    ) -> None:
        self._service = service
        self._incoming = incoming
        self._outgoing = outgoing
        self._is_open = False
        self._is_modern = False
        self._running: dict[str, anyio.CancelScope] = {}
        self._deadline = math.inf
        self._list_changes = list_changes

    async def run(self) -> None:
        """Answers until the input ends; calls that still run a moment later are canceled."""
        async with anyio.create_task_group() as calls:
            async for line in self._incoming:
                match _parsed(line):
                    # It may wait for others, and the next request is not to wait for it.
                    case {"method": "tools/call"} as found:
                        calls.start_soon(self._answer, found)
                    case [_, *_] as found:
                        calls.start_soon(self._answer, found)
                    case found:
                        await self._answer(found)
            self._deadline = anyio.current_time() + _GRACE_SECONDS
            for scope in self._running.values():
                scope.deadline = self._deadline

    async def _answer(self, message_or_batch: Any) -> None:
        """Answers a message, or a batch of messages (2025-03-26)."""
        batch = (
            cast("list[Any]", message_or_batch)
            if isinstance(message_or_batch, list) and message_or_batch
            else None
        )
        answers = [reply for message in batch or [message_or_batch] if (reply := await self._reply(message))]
        if answers:  # in one piece, also after the end of the input
            await self._send(answers[0] if batch is None else answers)

    async def _reply(self, message: Any) -> dict[str, Any] | None:
        match message:
            case {"jsonrpc": "2.0", "id": number, "method": str() as method, **rest} if _is_id(number):
                return await self._reply_to(number, method, rest.get("params"))
            case {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": number}}:
                # By its JSON text, as 1 and "1" are two ids.
                if (scope := self._running.get(_to_json(number))) is not None:
                    scope.cancel()
            case {"jsonrpc": "2.0", "id": _, "result": _} | {"jsonrpc": "2.0", "error": _}:
                pass  # an answer to nothing that was asked
            case {"jsonrpc": "2.0", "method": str()} if "id" not in message:
                pass  # a notification
            case Refused():
                return _failed(None, message)
            case {"id": number} if _is_id(number):
                return _failed(number, Refused(_INVALID_REQUEST, _NO_MESSAGE))
            case _:
                return _failed(None, Refused(_INVALID_REQUEST, _NO_MESSAGE))
        return None

    async def _reply_to(self, number: str | float, method: str, params: Any) -> dict[str, Any] | None:
        reply: dict[str, Any] | None = None
        key = _to_json(number)
        with anyio.CancelScope(deadline=self._deadline) as self._running[key]:
            try:
                result = await self._result(method, _object(params))
                reply = {"jsonrpc": "2.0", "id": number, "result": result}
            except Refused as refused:
                reply = _failed(number, refused)
        self._running.pop(key, None)
        return reply

    async def _result(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        meta = _object(params.get("_meta"))
        begins = not self._is_open and not self._list_changes and method != "initialize"
        if self._is_modern or (begins and _MODERN_KEY in meta):
            return await self._modern_result(method, params, meta)
        if method == "initialize":
            return self._welcome(params)
        if method == "ping":
            return {}
        if method not in {"tools/list", "tools/call"}:
            raise Refused(_METHOD_NOT_FOUND, f"Method not found: {method}")
        if not self._is_open:
            raise Refused(_INVALID_REQUEST, "Send 'initialize' first")
        if _MODERN_KEY in meta:
            what = "This connection began with a handshake; requests of 2026-07-28 are not accepted on it"
            raise Refused(_INVALID_REQUEST, what)
        if method == "tools/list":
            return {"tools": await self._service.tools(any_json=False)}
        return await self._call(params, meta)

    async def _modern_result(
        self, method: str, params: dict[str, Any], meta: dict[str, Any]
    ) -> dict[str, Any]:
        """The result of a request of 2026-07-28, which needs no handshake."""
        version = params.get("protocolVersion") if method == "initialize" else meta.get(_MODERN_KEY)
        if isinstance(version, str) and (version != _MODERN or method == "initialize"):
            what = f"This connection is served as of {_MODERN}"
            raise Refused(_UNSUPPORTED, what, supported=[_MODERN], requested=version)
        if version is None or _CAPABILITIES_KEY not in meta:
            raise Refused(INVALID_PARAMS, f"'_meta' must have '{_MODERN_KEY}' and '{_CAPABILITIES_KEY}'")
        # The first request decides for the whole connection.
        self._is_modern = True
        info = self._service.info
        same: dict[str, Any] = {"ttlMs": _SAME_FOR_MS, "cacheScope": "public"}
        result: dict[str, Any]
        match method:
            case "server/discover":
                result = same | {"supportedVersions": [_MODERN], "capabilities": self._capabilities}
                result |= {} if info.instructions is None else {"instructions": info.instructions}
            case "tools/list":
                result = same | {"tools": await self._service.tools(any_json=True)}
            case "tools/call":
                result = await self._call(params, meta)
            case _:
                raise Refused(_METHOD_NOT_FOUND, f"Method not found: {method}")
        meta_out = {**result.get("_meta", {}), _SERVER_KEY: _described(info)}
        return {**result, "resultType": "complete", "_meta": meta_out}

    @property
    def _capabilities(self) -> dict[str, Any]:
        return {"tools": {"listChanged": self._list_changes}}

    def _welcome(self, params: dict[str, Any]) -> dict[str, Any]:
        asked = params.get("protocolVersion")
        if not isinstance(asked, str):
            raise Refused(INVALID_PARAMS, "'protocolVersion' must be text")
        self._is_open = True
        info = self._service.info
        welcome: dict[str, Any] = {
            # https://modelcontextprotocol.io/specification/2025-11-25/basic/lifecycle#version-negotiation:
            # otherwise the latest one that the server supports.
            "protocolVersion": asked if asked in _REVISIONS else _REVISIONS[-1],
            "capabilities": self._capabilities,
            "serverInfo": _described(info),
        }
        return welcome if info.instructions is None else {**welcome, "instructions": info.instructions}

    async def _call(self, params: dict[str, Any], meta: dict[str, Any]) -> dict[str, Any]:
        tool = params.get("name")
        if not isinstance(tool, str):
            raise Refused(INVALID_PARAMS, "'name' must be text")
        asked = RequestedCall(
            tool=tool,
            arguments=_object(params.get("arguments")),
            meta=meta,
            any_json=self._is_modern,
        )
        return await self._service.call(asked, self._report(meta.get("progressToken")))

    async def tell(self, method: str, params: Mapping[str, Any]) -> None:
        """Sends a notification."""
        await self._send({"jsonrpc": "2.0", "method": method, "params": params})

    def _report(self, token: Any) -> Report | None:
        async def report(done: float, total: float | None, text: str | None) -> None:
            params = {"progressToken": token, "progress": done, "total": total, "message": text}
            said = {name: value for name, value in params.items() if value is not None}
            await self.tell("notifications/progress", said)

        return None if token is None else report

    async def tell_of_change(self) -> None:
        """The list of tools has changed."""
        if self._is_open:
            await self._send({"jsonrpc": "2.0", "method": TOOLS_CHANGED})

    async def _send(self, message: Any) -> None:
        with suppress(anyio.BrokenResourceError):  # the client is gone, so `run` ends
            await self._outgoing.send(_to_json(message))


def _parsed(line: bytes) -> Any:
    """The JSON in a line, or the error for a line that is not JSON."""
    try:
        # Programs on Windows may write a byte order mark first.
        return json.loads(line.decode("utf-8-sig", "replace"), parse_constant=_no_constant)
    except (ValueError, RecursionError):
        return Refused(_NOT_JSON, "This line is no JSON")


def _no_constant(name: str) -> None:
    raise ValueError(name)  # NaN and Infinity are not JSON


def _is_id(value: Any) -> bool:
    """Whether a value is a valid request id; 1e400 is not, because it cannot be sent back."""
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) != math.inf
    return is_number or isinstance(value, str)


def _failed(number: str | float | None, refused: Refused) -> dict[str, Any]:
    error: dict[str, Any] = {"code": refused.code, "message": str(refused)}
    return {"jsonrpc": "2.0", "id": number, "error": error | ({"data": refused.data} if refused.data else {})}


def _described(info: Info) -> dict[str, Any]:
    return {"name": info.name, "title": info.title, "version": info.version}


def _object(value: Any) -> dict[str, Any]:
    """The value as an object; an empty one if it is missing."""
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise Refused(INVALID_PARAMS, "'params', 'arguments' and '_meta' must be objects")
    return cast("dict[str, Any]", value)
