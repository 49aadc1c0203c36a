"""The forms of answers and errors: JSON-RPC, the form of internal endpoints, or plain."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Any, assert_never

from fastapi import Response

from .bodies import (
    InternalToolFailure,
    MCPErrorResponse,
    RPCErrorData,
    RPCErrorObject,
    RPCErrorResponse,
    TextContent,
)

if TYPE_CHECKING:
    from pydantic import BaseModel

    from .errors import MCPError
    from .observability import RequestRecord


class Envelope(Enum):
    """The envelope of an endpoint's answers."""

    JSON_RPC = "JSON-RPC"
    INTERNAL = "internal"
    PLAIN = "plain"


def answer(body: BaseModel, *, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    """The HTTP response with this body as JSON."""
    return Response(
        body.model_dump_json(by_alias=True), status, headers=headers, media_type="application/json"
    )


def failure(error: MCPError, envelope: Envelope, record: RequestRecord) -> Response:
    """The HTTP response for an error, in the envelope of the endpoint."""
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
                id=record.answered_id,
                error=RPCErrorObject(code=error.code, message=text, data=data),
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
