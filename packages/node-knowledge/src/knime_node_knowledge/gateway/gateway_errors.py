"""The gateway's errors, six types as in the design documents, and the forms in which they are answered.

Every error has two texts. `message` goes to the log. `user_message` goes to the caller, and never contains
hosts, files, keys or parts of the request.
"""

from __future__ import annotations

import logging
from enum import Enum
from typing import TYPE_CHECKING, Any, Final, assert_never

from fastapi import Response

from knime_mcp.types.errors import ArgumentsInvalid
from knime_mcp.types.errors import MCPError as BaseError

from ..catalogue_file import CatalogueError
from .api_keys import KeyStoreError
from .gateway_bodies import (
    InternalToolFailure,
    MCPErrorResponse,
    RPCErrorData,
    RPCErrorObject,
    RPCErrorResponse,
    TextContent,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pydantic import BaseModel

    from .observing import RequestRecord


_log = logging.getLogger("knime_node_knowledge.gateway")

_FAILED: Final = -32603
NOT_JSON: Final = -32700
UNAVAILABLE: Final = 503
"""HTTP status for a service behind the gateway that does not answer."""


class MCPErrorType(Enum):
    VALIDATION_ERROR = "VALIDATION_ERROR"
    """The request itself: not JSON (-32700), a missing field, size, no key, no scope, rate; 4xx as usual."""
    TOOL_NOT_FOUND = "TOOL_NOT_FOUND"
    """There is no such tool; the nearest are named."""
    PARAMETER_ERROR = "PARAMETER_ERROR"
    """Arguments do not fit the tool's schema, with a JSON pointer; or name what is not there (404)."""
    SERVICE_ERROR = "SERVICE_ERROR"
    """The tool failed; 503 if a service outside does not answer."""
    DATABASE_ERROR = "DATABASE_ERROR"
    """The catalogue, or a database behind a tool, failed."""
    INTERNAL_ERROR = "INTERNAL_ERROR"
    """The gateway itself failed."""


CODES: Final[Mapping[MCPErrorType, tuple[int, int]]] = {
    MCPErrorType.VALIDATION_ERROR: (400, -32600),
    MCPErrorType.TOOL_NOT_FOUND: (404, -32602),
    MCPErrorType.PARAMETER_ERROR: (400, -32602),
    MCPErrorType.SERVICE_ERROR: (500, _FAILED),
    MCPErrorType.DATABASE_ERROR: (500, _FAILED),
    MCPErrorType.INTERNAL_ERROR: (500, _FAILED),
}
"""HTTP status and JSON-RPC code (https://www.jsonrpc.org/specification#error_object), used as in MCP."""


class MCPError(BaseError):
    """An error that is reported to the caller; status and code are by default those of its type.

    The `message` is for the log, without secrets and without parts of the request. Details are for programs,
    such as ``pointer``, ``suggestions`` and ``allowed``.
    """

    def __init__(
        self,
        error_type: MCPErrorType,
        message: str,
        user_message: str,
        *,
        status: int | None = None,
        code: int | None = None,
        details: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        usual_status, usual_code = CODES[error_type]
        self.error_type = error_type
        self.message = message
        self.user_message = user_message
        self.status = usual_status if status is None else status
        self.code = usual_code if code is None else code
        self.details = dict(details or {})
        self.headers = dict(headers or {})

    @property
    def of_tool(self) -> bool:
        """True if the tool or the gateway failed, not the request."""
        return self.code == _FAILED


def invalid_request(user_message: str, *, status: int = 400, **more: Any) -> MCPError:
    """The error for a wrong request, with advice for the caller; further arguments as for `MCPError`."""
    return MCPError(MCPErrorType.VALIDATION_ERROR, user_message, user_message, status=status, **more)


def unavailable(message: str, user_message: str) -> MCPError:
    return MCPError(MCPErrorType.SERVICE_ERROR, message, user_message, status=UNAVAILABLE)


def as_mcp_error(error: Exception) -> MCPError:
    """The gateway's error for any exception: of a tool, of the catalogue, or unexpected."""
    match error:
        case MCPError():
            return error
        case CatalogueError():
            what = "The node catalogue cannot be read. Whoever runs this gateway has to build it again."
            return MCPError(MCPErrorType.DATABASE_ERROR, str(error), what)
        case KeyStoreError():
            what = "Keys cannot be looked up at the moment."
            return MCPError(MCPErrorType.DATABASE_ERROR, str(error), what)
        case ArgumentsInvalid():
            # The arguments fit the schema, but the catalogue does not have this node, type or page.
            return MCPError(
                MCPErrorType.PARAMETER_ERROR,
                "Arguments name something that is not there",
                f"{error.what}. {error.fix}" if error.fix else error.what,
                status=404,
                details={"pointer": error.pointer},
            )
        case BaseError():
            return MCPError(MCPErrorType.SERVICE_ERROR, error.sentence, error.what)
        case TimeoutError():
            return unavailable("The tool took longer than GATEWAY_TOOL_TIMEOUT", "The tool took too long.")
        case _:
            _log_place(error)
            return MCPError(
                MCPErrorType.INTERNAL_ERROR,
                f"Unexpected {type(error).__name__}",
                "Something went wrong in the gateway. Its log says more under this request id.",
            )


def _log_place(error: BaseException) -> None:
    """Logs the place of an unexpected error, without its message, which may quote the request."""
    trace, places = error.__traceback__, list[str]()
    while trace is not None:
        code = trace.tb_frame.f_code
        places.append(f"{code.co_filename}:{trace.tb_lineno} {code.co_name}")
        trace = trace.tb_next
    _log.error("Unexpected %s at %s", type(error).__name__, " < ".join(reversed(places[-8:])))


class Envelope(Enum):
    JSON_RPC = "JSON-RPC"
    INTERNAL = "internal"
    PLAIN = "plain"


def answer(body: BaseModel, *, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    return Response(
        body.model_dump_json(by_alias=True), status, headers=headers, media_type="application/json"
    )


def failure(error: MCPError, envelope: Envelope, record: RequestRecord) -> Response:
    prefix = "Error: Tool execution failed: " if error.of_tool else "Error: "
    text = prefix + error.user_message
    shared: dict[str, Any] = {
        "content": [TextContent(text=text)],
        "_tool_name": record.tool,
        "_execution_time_ms": record.tool_ms,
        "_request_id": record.request_id,
        "error_type": error.error_type.value,
        "details": error.details or None,
    }
    body: BaseModel
    match envelope:
        case Envelope.JSON_RPC:
            data = RPCErrorData(**shared, user_message=error.user_message)
            body = RPCErrorResponse(
                id=record.answered_id, error=RPCErrorObject(code=error.code, message=text, data=data)
            )
        case Envelope.INTERNAL:
            body = InternalToolFailure(**shared)
        case Envelope.PLAIN:
            body = MCPErrorResponse(
                error=error.user_message,
                error_type=error.error_type.value,
                details={**error.details, "request_id": record.request_id},
            )
        case _:
            assert_never(envelope)
    return answer(body, status=error.status, headers=error.headers)
