"""Routers whose endpoints check the key first, and answer every error in their envelope."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from fastapi import APIRouter, Request, Response, Security
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from fastapi.security import APIKeyHeader
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from .admission import KEY_HEADER, admit, read_body
from .bodies import InternalToolFailure, MCPErrorResponse, RPCErrorResponse
from .envelope import Envelope, failure
from .errors import NOT_JSON, as_mcp_error, invalid_request
from .middleware import gateway_of, record_of
from .observability import LEFT

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine, Sequence

    from .errors import MCPError
    from .keys import Scope

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


def router(envelope: Envelope, tag: str, *, scope: Scope | None, errors: Sequence[int] = ()) -> APIRouter:
    """Makes a router for endpoints of one kind.

    Args:
        envelope: The envelope of errors.
        tag: The tag of the endpoints in the OpenAPI document.
        scope: The scope that a key must have; None if no key is needed.
        errors: HTTP statuses of errors, for the OpenAPI document; with a scope, 401, 403 and 429 are added.
    """
    statuses = {*errors, *((401, 403, 429) if scope else ()), 500}
    document: dict[int | str, dict[str, Any]] = {
        status: {"description": _WHAT[status], "model": _MODELS[envelope]} for status in sorted(statuses)
    }

    async def enter(request: Request) -> None:
        if scope is not None:
            admit(request, scope)
        if request.method == "POST":
            await read_body(request, kind="application/json")

    def fail(request: Request, error: MCPError) -> Response:
        return failure(error, envelope, record_of(request))

    # This only documents the header in OpenAPI; `admit` checks the key before the body is read.
    header = APIKeyHeader(name=KEY_HEADER, auto_error=False, scheme_name="ApiKey")
    return APIRouter(
        route_class=guarded(enter, fail),
        tags=[tag],
        responses=document,
        dependencies=[Security(header, scopes=[scope.value])] if scope else None,
    )


def guarded(
    enter: Callable[[Request], Awaitable[None]], fail: Callable[[Request, MCPError], Response]
) -> type[APIRoute]:
    """Makes a route class that answers every error.

    Args:
        enter: Checks a request before its endpoint runs; raises an error to refuse the request.
        fail: Makes the answer to an error.
    """

    class Guarded(APIRoute):
        def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
            handle = super().get_route_handler()

            async def handler(request: Request) -> Response:
                try:
                    await enter(request)
                    return await handle(request)
                except ClientDisconnect:
                    return Response(status_code=LEFT)  # for the log only, as the client is gone
                except Exception as error:
                    if isinstance(error, RequestValidationError):
                        record_of(request).rpc_id = _rpc_id(error.body)
                    return fail(request, noted(request, _as_endpoint_error(error)))

            return handler

    return Guarded


def noted(request: Request, error: MCPError) -> MCPError:
    """Returns the error after adding it to the record of the request and to the metrics."""
    record = record_of(request)
    record.error_type, record.error = error.error_type.value, error.message
    gateway_of(request).metrics.error(error.error_type.value)
    return error


def _as_endpoint_error(error: Exception) -> MCPError:
    """The gateway's error for any exception of an endpoint."""
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
