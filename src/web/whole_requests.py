"""Requests of clients that leave before all of a body is there: not handed on, and no error."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from mcp.server.transport_security import DEFAULT_MAX_REQUEST_BODY_SIZE

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

_log = logging.getLogger(__name__)


class WholeRequests:
    """ASGI middleware that hands on a request when its body is there: who leaves before that is no error.

    Args:
        app: What answers; it says how large a body may be.
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
        begun = iter(parts)

        async def again() -> Message:
            return next(begun, None) or await receive()

        await self._app(scope, again, send)
