"""What a caller of the gateway is told when something fails: one of six types, as in the gateway's design.

Every error has two texts. `message` is for whoever runs the gateway, and goes to the log. `user_message` is
for the caller, and never names hosts, files, keys or what was sent.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Any, Final

from ...types.errors import MCPError as BaseError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ..errors import CatalogueError


class MCPErrorType(Enum):
    """What kind of error it is."""

    VALIDATION_ERROR = "VALIDATION_ERROR"
    """The request itself: not JSON, a field missing, too large, no key, no scope, too many of them."""
    TOOL_NOT_FOUND = "TOOL_NOT_FOUND"
    PARAMETER_ERROR = "PARAMETER_ERROR"
    """The arguments do not fit the tool's schema."""
    SERVICE_ERROR = "SERVICE_ERROR"
    """The tool, or a service behind it, failed."""
    DATABASE_ERROR = "DATABASE_ERROR"
    """The catalogue, or a database behind a tool, failed."""
    INTERNAL_ERROR = "INTERNAL_ERROR"
    """The gateway itself failed."""


_STATUS: Final[Mapping[MCPErrorType, int]] = {
    MCPErrorType.VALIDATION_ERROR: 400,
    MCPErrorType.TOOL_NOT_FOUND: 404,
    MCPErrorType.PARAMETER_ERROR: 400,
    MCPErrorType.SERVICE_ERROR: 500,
    MCPErrorType.DATABASE_ERROR: 500,
    MCPErrorType.INTERNAL_ERROR: 500,
}

NOT_FOUND: Final = 404
"""HTTP status where arguments name something that is not there."""

UNAVAILABLE: Final = 503
"""HTTP status where a service outside does not answer."""

_RPC_CODES: Final[Mapping[MCPErrorType, int]] = {
    MCPErrorType.VALIDATION_ERROR: -32600,
    MCPErrorType.TOOL_NOT_FOUND: -32602,
    MCPErrorType.PARAMETER_ERROR: -32602,
    MCPErrorType.SERVICE_ERROR: -32603,
    MCPErrorType.DATABASE_ERROR: -32603,
    MCPErrorType.INTERNAL_ERROR: -32603,
}
"""https://www.jsonrpc.org/specification#error_object; an unknown tool is -32602 in MCP."""

NOT_JSON: Final = -32700


class MCPError(BaseError):
    """An error that a caller is told about.

    Args:
        error_type: Its type.
        message: What happened, for the log. Holds no secrets and nothing that was sent.
        user_message: What happened and what to do, for the caller.
        status: HTTP status, where it is not the type's.
        code: JSON-RPC code, where it is not the type's.
        details: More for programs: ``pointer``, ``suggestions``, ``allowed``.
        headers: HTTP headers of the answer.

    Attributes:
        error_type: Its type.
        message: For the log.
        user_message: For the caller.
        status: HTTP status.
        code: JSON-RPC code.
        details: More for programs.
        headers: HTTP headers of the answer.
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
        self.error_type = error_type
        self.message = message
        self.user_message = user_message
        self.status = _STATUS[error_type] if status is None else status
        self.code = _RPC_CODES[error_type] if code is None else code
        self.details = dict(details or {})
        self.headers = dict(headers or {})

    @property
    def of_tool(self) -> bool:
        """Whether a tool was run and failed, and not what was asked."""
        return self.code == _RPC_CODES[MCPErrorType.INTERNAL_ERROR]


def invalid_request(user_message: str, *, status: int = 400, **more: Any) -> MCPError:
    """A request that is wrong in itself.

    Args:
        user_message: What is wrong and what to send instead.
        status: HTTP status.
        **more: See `MCPError`.
    """
    return MCPError(MCPErrorType.VALIDATION_ERROR, user_message, user_message, status=status, **more)


def unavailable(message: str, user_message: str) -> MCPError:
    """A service outside that does not answer."""
    return MCPError(MCPErrorType.SERVICE_ERROR, message, user_message, status=UNAVAILABLE)


def catalogue_failed(error: CatalogueError) -> MCPError:
    """What a caller is told where the node catalogue cannot be read."""
    return MCPError(
        MCPErrorType.DATABASE_ERROR,
        str(error),
        "The node catalogue cannot be read. Whoever runs this gateway has to build it again.",
    )


def unforeseen(error: BaseException) -> MCPError:
    """What a caller is told about an error that nobody thought of.

    Its text is kept out of log and answer: it may quote what was sent.
    """
    return MCPError(
        MCPErrorType.INTERNAL_ERROR,
        f"Unexpected {type(error).__name__}",
        "Something went wrong in the gateway. Its log says more under this request id.",
    )
