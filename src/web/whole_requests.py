"""Keeps incomplete requests, and those with an invalid id, from the SDK's server."""

from __future__ import annotations

import json
import logging
import re
from typing import TYPE_CHECKING, Any, Final, cast

from mcp.server.transport_security import DEFAULT_MAX_REQUEST_BODY_SIZE

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

_log = logging.getLogger(__name__)
_MAYBE_NO_ID: Final = re.compile(rb'"id"\s*:\s*(?:[\[{ntf]|-?[0-9]+[.eE])')
_ERROR: Final = {"code": -32600, "message": "An id is text or a whole number"}
_REFUSAL: Final = json.dumps({"jsonrpc": "2.0", "id": None, "error": _ERROR}).encode()


class WholeRequests:
    """ASGI middleware that passes on a request when its body is complete; clients may leave before.

    A request whose id is null, true or 1.5, for example, is refused: the SDK treats it as a notification.

    Args:
        app: The application; it limits the size of bodies.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers a request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        parts: list[Message] = []
        size = 0
        while not parts or (parts[-1].get("more_body") and size <= DEFAULT_MAX_REQUEST_BODY_SIZE):
            parts.append(await receive())
            if parts[-1]["type"] == "http.disconnect":
                _log.info("A client left before its request was complete")
                return
            size += len(parts[-1].get("body", b""))
        if _has_no_id(b"".join(part.get("body", b"") for part in parts)):
            headers = [(b"content-type", b"application/json")]
            await send({"type": "http.response.start", "status": 400, "headers": headers})
            await send({"type": "http.response.body", "body": _REFUSAL})
            return
        begun = iter(parts)

        async def again() -> Message:
            return next(begun, None) or await receive()

        await self._app(scope, again, send)


def _has_no_id(body: bytes) -> bool:
    """Returns whether a body is a request whose id is invalid."""
    if _MAYBE_NO_ID.search(body) is None:
        return False
    try:
        parsed = json.loads(body)
    except (ValueError, RecursionError):
        return False  # the SDK reports it
    message = cast("dict[str, Any]", parsed) if isinstance(parsed, dict) else {}
    number = message.get("id", "")
    return "method" in message and (isinstance(number, bool) or not isinstance(number, str | int))
