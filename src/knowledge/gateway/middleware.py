"""Middleware that adds an id, a span, a log line, metrics, and headers for browsers to every request."""

from __future__ import annotations

import re
import uuid
from typing import TYPE_CHECKING, Any, Final, cast

from starlette.datastructures import Headers, MutableHeaders

from .envelope import Envelope, failure
from .errors import as_mcp_error
from .observability import RequestRecord, log_request

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from .gateway import Gateway

REQUEST_ID: Final = "X-Request-ID"
_RECORD: Final = "knime_mcp.record"
_GOOD_ID: Final = re.compile(r"[A-Za-z0-9._:-]{1,64}")
_METHODS: Final = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "CONNECT"})


def gateway_of(request: Request) -> Gateway:
    """The gateway of a request."""
    return cast("Gateway", request.app.state.gateway)


def record_of(request: Request) -> RequestRecord:
    """The record of a request."""
    return cast("RequestRecord", request.scope[_RECORD])


class Observed:
    """ASGI middleware that observes requests.

    Args:
        app: The application that answers the requests.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers a request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        given = headers.get(REQUEST_ID, "")
        record = RequestRecord(request_id=given if _GOOD_ID.fullmatch(given) else uuid.uuid4().hex)
        scope[_RECORD] = record
        method = scope["method"] if scope["method"] in _METHODS else "OTHER"
        if method == "HEAD":
            # GET endpoints answer HEAD requests, too; uvicorn leaves the body out.
            scope = {**scope, "method": "GET"}
        begun = finished = False

        def finish() -> None:
            nonlocal finished
            if not finished:
                finished = True
                self._record_end(scope, record, method, span)

        async def observed(message: Message) -> None:
            nonlocal begun
            if message["type"] == "http.response.start":
                begun = True
                record.status = message["status"]
                headers = MutableHeaders(scope=message)
                headers[REQUEST_ID] = record.request_id
                headers["X-Content-Type-Options"] = "nosniff"
                headers.setdefault("Cache-Control", "no-store")
            elif message["type"] == "http.response.body" and not message.get("more_body"):
                # Done before the last part is sent, so that every answered request is in the log.
                finish()
            await send(message)

        gateway: Gateway = scope["app"].state.gateway
        with gateway.spans.request(method, headers) as span:
            try:
                await self._app(scope, receive, observed)
            except Exception as error:
                mcp_error = as_mcp_error(error)
                if not begun:
                    record.error_type, record.error = mcp_error.error_type.value, mcp_error.message
                    await failure(mcp_error, Envelope.PLAIN, record)(scope, receive, observed)
            finally:
                finish()

    def _record_end(self, scope: Scope, record: RequestRecord, method: str, span: Any) -> None:
        """Records the end of a request in its span, the metrics and the log."""
        # The template of the path, as the path itself has parts that clients choose.
        route: str = getattr(scope.get("route"), "path", "unmatched")
        gateway: Gateway = scope["app"].state.gateway
        listener: str = scope["app"].state.listener
        gateway.spans.answered(span, record, method=method, route=route)
        gateway.metrics.request(
            listener=listener,
            route=route,
            method=method,
            status=record.status,
            seconds=record.elapsed_ms / 1000,
        )
        log_request(record, listener=listener, method=method, route=route)
