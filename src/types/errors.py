"""The one exception tree of the project.

Everything that can go wrong with a server, a tool, a cell or a setting is an `MCPError`, so that one
``except`` catches it all, and every one of them says what happened, where, and what to do next::

    MCPError
    ├── ConnectError        phase       no connection; the phase that failed
    ├── VersionError        supported   no protocol revision in common
    ├── AuthError           status      401 or 403
    ├── SessionLost                     the server no longer knows the session
    ├── ProtocolError                   the server said something that MCP does not allow
    ├── ServerError         code, data  a JSON-RPC error
    ├── ToolNotFound        suggestions no such tool
    ├── ArgumentsInvalid    pointer     arguments that violate the tool's schema
    ├── ResultInvalid       pointer     a result that violates the tool's output schema, and that result
    ├── ResultTooLarge      limit       more bytes than allowed
    ├── ToolChanged         changes     the definition is not the one that was pinned
    ├── TimedOut            kind        one of the three clocks ran out
    ├── Canceled                        the person stopped it
    ├── SettingInvalid      setting     a setting that cannot work
    └── ToolFormatError     field       a tool cell that cannot be decoded

Messages never hold secrets: a server is named by origin and path only. Where a cause could hold one, raise
with ``from None``.
"""

from __future__ import annotations

from typing import Any, Literal, Self, TypedDict, TypeVar, Unpack
from urllib.parse import urlsplit, urlunsplit

ConnectPhase = Literal["dns", "tcp", "tls", "proxy", "http", "process", "auth", "protocol", "tools"]
ClockKind = Literal["connect", "idle", "total"]
_E = TypeVar("_E", bound="MCPError")


class Place(TypedDict, total=False):
    """Where an error happened and what to do about it: the keyword arguments of every error.

    Attributes:
        server: URL or ``stdio:<name>``; only origin and path are kept.
        tool: Name of the tool.
        row: RowID, or position in the table.
        fix: What the person should do next, as one or more sentences.
    """

    server: str | None
    tool: str | None
    row: str | None
    fix: str | None


class MCPError(Exception):
    """Something went wrong; the base of all errors, which take what they add as keyword arguments.

    Args:
        what: What happened, as a sentence.
        **place: Where it happened and what to do next, see `Place`.

    Attributes:
        what: What happened, without the final full stop.
        server: Origin and path of the server, or None.
        tool: Name of the tool, or None.
        row: The row, or None.
        fix: What to do next, or None.
    """

    def __init__(self, what: str, **place: Unpack[Place]) -> None:
        super().__init__(what)
        server = place.get("server")
        self.what = what.rstrip().removesuffix(".")
        self.server = origin_and_path(server) if server else None
        self.tool = place.get("tool")
        self.row = place.get("row")
        self.fix = place.get("fix")

    def __str__(self) -> str:
        places = {"server": self.server, "tool": self.tool, "row": self.row}
        named = ", ".join(f"{kind} {name}" for kind, name in places.items() if name is not None)
        sentence = _sentence(f"{self.what} ({named})" if named else self.what)
        return f"{sentence} {_sentence(self.fix)}" if self.fix else sentence

    def at(self, *, server: str | None = None, tool: str | None = None, row: str | None = None) -> Self:
        """Adds where the error happened, for the parts that are not set yet.

        One error may be reported for many rows (a connection that all of them share), hence a copy: of the
        same class, with the same attributes and traceback. The places are those of `Place`.
        """
        error = _rebuild(type(self), self.args, self.__dict__)
        error.server = self.server or (origin_and_path(server) if server else None)
        error.tool = tool if self.tool is None else self.tool
        error.row = row if self.row is None else self.row
        return error.with_traceback(self.__traceback__)

    def __reduce__(self) -> tuple[Any, ...]:
        # Exception's own way calls the class with positional arguments only; phase, status etc. are not.
        return _rebuild, (type(self), self.args, self.__dict__)


class ConnectError(MCPError):
    """No connection to the server.

    Attributes:
        phase: The step of connecting that failed.
    """

    def __init__(self, what: str, *, phase: ConnectPhase, **place: Unpack[Place]) -> None:
        super().__init__(what, **place)
        self.phase: ConnectPhase = phase


class VersionError(MCPError):
    """Server and client have no protocol revision in common.

    Attributes:
        supported: The revisions that the server offered, such as ``("2025-11-25",)``.
    """

    def __init__(self, what: str, *, supported: tuple[str, ...] = (), **place: Unpack[Place]) -> None:
        super().__init__(what, **place)
        self.supported = supported


class AuthError(MCPError):
    """The server does not let us in.

    Attributes:
        status: The HTTP status, 401 or 403.
    """

    def __init__(self, what: str, *, status: int, **place: Unpack[Place]) -> None:
        super().__init__(what, **place)
        self.status = status


class SessionLost(MCPError):  # noqa: N818 - the names of the tree are a contract
    """The server no longer knows the session; calling again opens a new one."""


class ProtocolError(MCPError):
    """The server said something that the protocol does not allow."""


class ServerError(MCPError):
    """The server answered with a JSON-RPC error.

    Attributes:
        code: The JSON-RPC error code, such as -32602.
        data: The error's data as the server sent it, or None.
    """

    def __init__(self, what: str, *, code: int, data: Any = None, **place: Unpack[Place]) -> None:
        super().__init__(what, **place)
        self.code = code
        self.data = data


class ToolNotFound(MCPError):  # noqa: N818
    """There is no such tool.

    Attributes:
        suggestions: Names that may have been meant, the most likely first.
    """

    def __init__(self, what: str, *, suggestions: tuple[str, ...] = (), **place: Unpack[Place]) -> None:
        super().__init__(what, **place)
        self.suggestions = suggestions


class _PointerError(MCPError):
    def __init__(self, what: str, *, pointer: str = "", **place: Unpack[Place]) -> None:
        super().__init__(what, **place)
        self.pointer = pointer


class ArgumentsInvalid(_PointerError):  # noqa: N818
    """Arguments violate the tool's schema; nothing was sent.

    Attributes:
        pointer: JSON pointer (RFC 6901) into the arguments; empty for the arguments as a whole.
    """


class ResultInvalid(_PointerError):  # noqa: N818
    """A result violates the tool's own output schema.

    Attributes:
        pointer: JSON pointer (RFC 6901) into the structured result; empty for the result as a whole.
        result: The client's `CallToolResult`, for whoever wants it all the same; None if only its structured
            part is known.
    """

    def __init__(self, what: str, *, pointer: str = "", result: Any = None, **place: Unpack[Place]) -> None:
        super().__init__(what, pointer=pointer, **place)
        self.result = result


class ResultTooLarge(MCPError):  # noqa: N818
    """A server sent more than is allowed.

    Attributes:
        limit: The limit in bytes.
    """

    def __init__(self, what: str, *, limit: int, **place: Unpack[Place]) -> None:
        super().__init__(what, **place)
        self.limit = limit


class ToolChanged(MCPError):  # noqa: N818
    """The server's definition of a tool is not the one that was pinned.

    Attributes:
        changes: The parts that differ, such as ``("description", "input schema")``.
    """

    def __init__(self, what: str, *, changes: tuple[str, ...] = (), **place: Unpack[Place]) -> None:
        super().__init__(what, **place)
        self.changes = changes


class TimedOut(MCPError):  # noqa: N818
    """One of the three clocks ran out.

    Attributes:
        kind: ``connect``, ``idle`` (no progress) or ``total``.
    """

    def __init__(self, what: str, *, kind: ClockKind, **place: Unpack[Place]) -> None:
        super().__init__(what, **place)
        self.kind: ClockKind = kind


class Canceled(MCPError):  # noqa: N818
    """The person stopped it."""


class SettingInvalid(MCPError):  # noqa: N818
    """A setting that cannot work: an empty or malformed URL, a secret in a URL, malformed JSON.

    Attributes:
        setting: The setting's key, such as ``server_url``.
    """

    def __init__(self, what: str, *, setting: str, **place: Unpack[Place]) -> None:
        super().__init__(what, **place)
        self.setting = setting


class ToolFormatError(MCPError):
    """A tool cell, or the bytes or text of a tool, that cannot be decoded.

    Attributes:
        field: The field of the tool, such as ``parameter_schema``.
    """

    def __init__(self, what: str, *, field: str, **place: Unpack[Place]) -> None:
        super().__init__(what, **place)
        self.field = field


def origin_and_path(server: str) -> str:
    """A URL or ``stdio:<name>`` without what could be secret: user information, query and fragment."""
    try:
        parts = urlsplit(server)
    except ValueError:
        return "<malformed URL>"
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))


def kind_and_place(error: BaseException) -> str:
    """Says what an error is and where it was raised, for logs: what it says may hold arguments or secrets.

    Such as ``KeyError at /a/b.py:12 < /a/c.py:40``, the innermost place first.
    """
    places: list[str] = []
    trace = error.__traceback__
    while trace is not None:
        places.append(f"{trace.tb_frame.f_code.co_filename}:{trace.tb_lineno}")
        trace = trace.tb_next
    return f"{type(error).__name__} at {' < '.join(places[::-1])}"


def _rebuild(kind: type[_E], args: tuple[Any, ...], attributes: dict[str, Any]) -> _E:
    error = kind.__new__(kind, *args)
    error.__dict__.update(attributes)
    return error


def _sentence(text: str) -> str:
    text = text.strip()
    return text if text.endswith((".", "!", "?")) else f"{text}."
