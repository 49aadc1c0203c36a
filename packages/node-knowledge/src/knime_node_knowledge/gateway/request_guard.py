"""What every request passes: admission by key, scope and rate before its body is read, and limits for that.

Routers made here answer every error in the envelope of their endpoints.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, cast

import anyio
from fastapi import APIRouter, Request, Response, Security
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from fastapi.security import APIKeyHeader
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from .api_keys import KEY_PREFIX
from .gateway_bodies import InternalToolFailure, MCPErrorResponse, RPCErrorResponse
from .gateway_errors import NOT_JSON, Envelope, as_mcp_error, failure, invalid_request
from .observing import LEFT, gateway_of, record_of

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine, Sequence

    from starlette.types import Message

    from .api_keys import ApiKey, Caller, Scope
    from .gateway_errors import MCPError


KEY_HEADER: Final = "X-API-Key"
_JSON: Final = "application/json"
_CHALLENGE: Final = {"WWW-Authenticate": f'ApiKey header="{KEY_HEADER}"'}

_MODELS = {
    Envelope.JSON_RPC: RPCErrorResponse,
    Envelope.INTERNAL: InternalToolFailure,
    Envelope.PLAIN: MCPErrorResponse,
}
_WHAT = {
    400: "The request or its arguments are wrong.",
    401: "No key, or none that works.",
    403: "The key lacks the scope.",
    404: "There is no such tool.",
    408: "The body came too slowly.",
    413: "The body is too large.",
    415: "The body is not JSON.",
    429: "The key has sent too many requests.",
    500: "The tool or the gateway failed.",
    503: "A service behind the tool does not answer, or the tools are switched off.",
}
_ALTERNATIVES = frozenset({"bare", "rpc", "str", "int"})
"""The names of alternatives that pydantic adds to the path of a field."""

LISTING = (503,)
"""HTTP statuses of errors of endpoints that list tools."""

CALLING = (400, 404, 408, 413, 415, 503)
"""HTTP statuses of errors of endpoints that call a tool."""


async def admit(request: Request, scope: Scope) -> None:
    """Admits a request by its key or token (401, 429, 403). The body is not read."""
    caller = await caller_of(request)
    admit_caller(request, caller)
    require(request, caller, scope)


async def caller_of(request: Request) -> Caller:
    """Who presents a key, as ``X-API-Key`` or as a bearer token, or a token of the provider (401)."""
    sent = request.headers.getlist(KEY_HEADER)
    kind, _, token = request.headers.get("authorization", "").partition(" ")
    if sent or kind.lower() != "bearer":
        return _presented_key(request, sent)
    token, tokens = token.strip(), gateway_of(request).tokens
    if tokens is None or token.startswith(f"{KEY_PREFIX}_"):
        return _presented_key(request, [token])
    caller = await tokens.caller(token)
    if caller is None:
        gateway_of(request).metrics.refused.labels("token").inc()
        raise _not_let_in(request, "This token is expired, or not one for this server. Log in again.", token)
    return caller


def _presented_key(request: Request, sent: list[str]) -> ApiKey:
    """The key that a client presents; an error (401) if it is not valid, or not one."""
    gateway = gateway_of(request)
    key = gateway.keys.verify(sent[0]) if len(sent) == 1 else None
    if key is not None:
        return key
    gateway.metrics.refused.labels("key").inc()
    if len(sent) == 1:
        raise _not_let_in(
            request, "This API key is unknown, expired or revoked. Ask for another one.", sent[0]
        )
    what = "Send an API key" if not sent else "Send one API key, not several,"
    raise _not_let_in(request, f"{what} in the header {KEY_HEADER}.")


def admit_caller(request: Request, caller: Caller) -> None:
    """Admits the request of a caller, if the rate allows (429), and notes whose it is."""
    gateway, record = gateway_of(request), record_of(request)
    record.client, record.key_id = caller.name, caller.id
    per_minute = gateway.settings.gateway_rate_limit if caller.rate_limit is None else caller.rate_limit
    wait = gateway.limiter.wait_for(caller.id, per_minute)
    if wait:
        gateway.metrics.refused.labels("rate").inc()
        raise invalid_request(
            f"This key may send {per_minute} requests per minute. Try again in {wait} s.",
            status=429,
            headers={"Retry-After": str(wait)},
            details={"retry_after_seconds": wait},
        )


def require(request: Request, caller: Caller, scope: Scope) -> None:
    """Refuses a request whose caller lacks the scope (403)."""
    if scope not in caller.scopes:
        gateway = gateway_of(request)
        gateway.metrics.refused.labels("scope").inc()
        raise invalid_request(
            f"This key lacks the scope {scope.value}. Ask for a key that has it.",
            status=403,
            details={"missing_scope": scope.value},
            # Clients that logged in ask for the scope then: RFC 6750, section 3.1
            headers=gateway.tokens and gateway.tokens.challenge("insufficient_scope", scope),
        )


def _not_let_in(request: Request, user_message: str, sent: str = "") -> MCPError:
    """The error for a key or token that was not sent, or does not work; it says how to get one."""
    tokens = gateway_of(request).tokens
    challenge = tokens.challenge("invalid_token" if sent else "") if tokens else _CHALLENGE
    return invalid_request(user_message, status=401, headers=challenge)


def from_elsewhere(request: Request) -> bool:
    """Returns whether a browser sends the request on behalf of a page of another origin.

    ``Sec-Fetch-Site`` says how that origin relates to this one (https://www.w3.org/TR/fetch-metadata/). On
    plain HTTP, browsers send only ``Origin``.
    """
    site = request.headers.get("sec-fetch-site")
    if site is not None:
        return site not in ("same-origin", "none")
    origin = request.headers.get("origin")
    return origin is not None and origin.rpartition("://")[2] != request.headers.get("host")


async def with_body(request: Request) -> Request:
    """Reads the JSON body of a request; returns the request with it (415, 413, 408)."""
    settings = gateway_of(request).settings
    most = settings.gateway_max_body_bytes
    declared = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if declared != _JSON:
        raise invalid_request(f"Send it with the header Content-Type: {_JSON}.", status=415)
    if request.headers.get("content-encoding", "identity").lower() != "identity":
        raise invalid_request("Send the body uncompressed.", status=415)
    body = bytearray()
    size = 0
    try:
        with anyio.fail_after(settings.gateway_request_timeout):
            async for part in request.stream():
                size += len(part)
                # Most clients read the answer only after sending the whole body: read on, up to a limit.
                if size > 8 * most:
                    break
                if size <= most:
                    body += part
    except TimeoutError:
        raise invalid_request(
            "The body of the request came too slowly.", status=408, headers={"Connection": "close"}
        ) from None
    if size > most:
        raise invalid_request(
            f"The body of the request is larger than {most} bytes. Ask for less at a time.",
            status=413,
            details={"max_bytes": most},
            headers={"Connection": "close"} if size > 8 * most else None,
        )

    return replayed(request, bytes(body))


def replayed(request: Request, body: bytes) -> Request:
    """The request with its body still to be read, and then whatever its client does."""
    whole: Message | None = {"type": "http.request", "body": body, "more_body": False}

    async def receive() -> Message:
        nonlocal whole
        message, whole = whole, None
        return message or await request.receive()

    return Request(request.scope, receive)


def router(envelope: Envelope, tag: str, *, scope: Scope | None, errors: Sequence[int] = ()) -> APIRouter:
    """Makes a router for endpoints of one kind; without a scope they need no key.

    `errors` are the HTTP statuses for the OpenAPI document; with a scope, 401, 403 and 429 are added.
    """
    statuses = {*errors, *((401, 403, 429) if scope else ()), 500}
    document: dict[int | str, dict[str, Any]] = {
        status: {"description": _WHAT[status], "model": _MODELS[envelope]} for status in sorted(statuses)
    }

    async def enter(request: Request) -> Request:
        if scope is not None:
            await admit(request, scope)
        if request.method == "POST":
            return await with_body(request)
        return request

    # This only documents the header in OpenAPI; `admit` checks the key before the body is read.
    header = APIKeyHeader(name=KEY_HEADER, auto_error=False, scheme_name="ApiKey")
    return APIRouter(
        route_class=_guarded(enter, envelope),
        tags=[tag],
        responses=document,
        dependencies=[Security(header, scopes=[scope.value])] if scope else None,
    )


def _guarded(enter: Callable[[Request], Awaitable[Request]], envelope: Envelope) -> type[APIRoute]:
    """Makes a route class that answers every error in this envelope.

    `enter` checks a request before its endpoint runs, and returns it with its body, or raises an error.
    """

    class Guarded(APIRoute):
        def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
            handle = super().get_route_handler()

            async def handler(request: Request) -> Response:
                try:
                    return await handle(await enter(request))
                except ClientDisconnect:
                    return Response(status_code=LEFT)  # for the log only, as the client is gone
                except Exception as error:
                    if isinstance(error, RequestValidationError):
                        record_of(request).rpc_id = _rpc_id(error.body)
                    refused = noted(request, _as_endpoint_error(error))
                    return failure(refused, envelope, record_of(request))

            return handler

    return Guarded


def noted(request: Request, error: MCPError) -> MCPError:
    record = record_of(request)
    record.error_type, record.error = error.error_type.value, error.message
    gateway_of(request).metrics.errors.labels(error.error_type.value).inc()
    return error


def _as_endpoint_error(error: Exception) -> MCPError:
    match error:
        case RequestValidationError():
            return _invalid(error)
        case HTTPException(status_code=400):
            # FastAPI raises this for bodies that are not UTF-8, or nested too deeply.
            return invalid_request("The body is not JSON in UTF-8.", code=NOT_JSON)
        case HTTPException():
            return invalid_request(str(error.detail), status=error.status_code)
        case _:
            return as_mcp_error(error)


def _rpc_id(body: Any) -> str | int | None:
    """The id of an invalid JSON-RPC request, for its answer; None without a usable id."""
    found = cast("dict[str, Any]", body).get("id") if isinstance(body, dict) and "jsonrpc" in body else None
    good = isinstance(found, int) or (isinstance(found, str) and found.isprintable())
    return found if good and not isinstance(found, bool) else None


def _invalid(error: RequestValidationError) -> MCPError:
    found = cast("list[dict[str, Any]]", list(error.errors()))
    if any(entry["type"] == "json_invalid" for entry in found):
        at = found[0]["loc"][-1]
        return invalid_request(
            f"The body is not JSON (character {at}).", code=NOT_JSON, details={"position": at}
        )
    places = [
        {
            "field": ".".join(str(part) for part in entry["loc"][1:] if part not in _ALTERNATIVES)[:200]
            or "body",
            "problem": entry["msg"],
        }
        for entry in found[:10]
    ]
    text = "; ".join(f"{place['field']}: {place['problem']}" for place in places[:3])
    failed = invalid_request(f"The request does not have the right form: {text}", details={"errors": places})
    # Names of fields come from the client, so they are not logged.
    failed.message = "The request does not have the right form"
    return failed
