"""The exceptions of the project.

All errors of servers, tools, cells and settings are an `MCPError`, so that one ``except`` catches them, and
each says what happened, where, and what to do next.

Messages never hold secrets: a server is named by origin and path only. Where a cause could hold one, raise
with ``from None``.

The text of an error ends with its code, such as ``[KMCP-TIMEOUT-IDLE]``: wordings change, codes do not, so
that people can search for them, and filter rows by them. ``docs/errors.md`` lists them.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal, Self, TypedDict, TypeVar, Unpack

from .texts import origin_and_path, ours

if TYPE_CHECKING:
    from collections.abc import Callable

ConnectPhase = Literal["dns", "tcp", "tls", "proxy", "http", "process", "auth", "protocol", "tools"]
ClockKind = Literal["connect", "idle", "total"]
_E = TypeVar("_E", bound="MCPError")

_CODED: Final = re.compile(r"\[KMCP-[A-Z0-9-]+\]$")


def coded(text: str, code: str) -> str:
    """A text with the code at its end. One that ends with its cause's code keeps that, as it says more."""
    if _CODED.search(text):
        return text
    gap = "\n" if "\n" in text else " "
    return f"{text}{gap}[{code}]"


class Place(TypedDict, total=False):
    """The place of an error and what to do next: the keyword arguments of every error.

    Attributes:
        server: URL or ``stdio:<name>``; only origin and path are kept.
        tool: Name of the tool.
        row: RowID, or position in the table.
        fix: The next step for the user, as one or more sentences.
    """

    server: str | None
    tool: str | None
    row: str | None
    fix: str | None


class MCPError(Exception):
    """A failure without a code of its own; the base of all errors.

    Subclasses take their own attributes as keyword arguments.

    Args:
        what: The error, as a sentence.
        **place: The place and the next step, see `Place`.

    Attributes:
        what: The error, without the final full stop.
        server: Origin and path of the server, or None.
        tool: Name of the tool, or None.
        row: The row, or None.
        fix: The next step, or None.
        may_have_run: Whether the tool may have done its work, although there is no result. The table *Was it
            carried out?* in ``docs/errors.md`` says when.
    """

    CODE: ClassVar[str] = "KMCP-OTHER"
    may_have_run = False

    def __init__(self, what: str, **place: Unpack[Place]) -> None:
        super().__init__(ours(what))
        server = place.get("server")
        self.what = what
        self.server = origin_and_path(server) if server else None
        self.tool = place.get("tool")
        self.row = place.get("row")
        self.fix = place.get("fix")

    # What and fix are kept as they were written, with marks around quoted texts, see `texts.foreign`.

    @property
    def what(self) -> str:
        return ours(self._what).rstrip().removesuffix(".")

    @what.setter
    def what(self, text: str) -> None:
        # It becomes a part of other sentences, each of which has its own end.
        self._what = text.rstrip().removesuffix(".")

    @property
    def fix(self) -> str | None:
        return None if self._fix is None else ours(self._fix)

    @fix.setter
    def fix(self, text: str | None) -> None:
        self._fix = text

    def __str__(self) -> str:
        return coded(self.sentence, self.error_code)

    @property
    def error_code(self) -> str:
        """The code, as in ``docs/errors.md``."""
        return self.CODE

    @property
    def sentence(self) -> str:
        """The message without its code: for models and programs, and within other sentences."""
        return ours(self.quoting)

    @property
    def quoting(self) -> str:
        """The message with marks around the texts of others in it, see `texts.foreign`."""
        places = {"server": self.server, "tool": self.tool, "row": self.row}
        places_text = ", ".join(f"{kind} {name}" for kind, name in places.items() if name is not None)
        sentence = _sentence(f"{self._what} ({places_text})" if places_text else self._what)
        return f"{sentence} {_sentence(self._fix)}" if self._fix else sentence

    def rewrite(self, change: Callable[[str], str]) -> None:
        """Changes what and fix, in which texts of others are marked, see `texts.foreign`."""
        self._what = change(self._what)
        self._fix = self._fix and change(self._fix)
        self.args = (self.what, *self.args[1:])

    def at(self, *, server: str | None = None, tool: str | None = None, row: str | None = None) -> Self:
        """Returns a copy with the place of the error, for the parts that are not set yet.

        A copy, as one error may be reported for many rows (such as for a connection that they share). It has
        the same class, attributes and traceback. The arguments are those of `Place`.
        """
        error = _rebuild(type(self), self.args, self.__dict__)
        error.server = self.server or (origin_and_path(server) if server else None)
        error.tool = tool if self.tool is None else self.tool
        error.row = row if self.row is None else self.row
        return error.with_traceback(self.__traceback__)

    def __reduce__(self) -> tuple[Any, ...]:
        # By default unpickling passes positional arguments only, without keywords such as phase and status.
        return _rebuild, (type(self), self.args, self.__dict__)


class ConnectError(MCPError):
    """No connection to the server; the code names the step that failed.

    Attributes:
        phase: The step of connecting that failed.
    """

    CODE = "KMCP-CONNECT"

    def __init__(self, what: str, *, phase: ConnectPhase, **place: Unpack[Place]) -> None:
        super().__init__(what, **place)
        self.phase: ConnectPhase = phase

    @property
    def error_code(self) -> str:
        return f"{self.CODE}-{self.phase.upper()}"


class VersionError(MCPError):
    """Server and client have no protocol revision in common.

    Attributes:
        supported: The revisions that the server offered, such as ``("2025-11-25",)``.
    """

    CODE = "KMCP-VERSION"

    def __init__(self, what: str, *, supported: tuple[str, ...] = (), **place: Unpack[Place]) -> None:
        super().__init__(what, **place)
        self.supported = supported


class AuthError(MCPError):
    """The server wants a login: there is no credential, or it has expired (401).

    Attributes:
        status: The HTTP status, 401 or 403.
    """

    CODE = "KMCP-LOGIN"

    def __init__(self, what: str, *, status: int = 401, **place: Unpack[Place]) -> None:
        super().__init__(what, **place)
        self.status = status

    @property
    def error_code(self) -> str:
        """The server knows you, and does not allow this (403)."""
        return "KMCP-ACCESS" if self.status == 403 else self.CODE


class SessionLost(MCPError):  # noqa: N818 - the names of the tree are a contract
    """The server no longer knows the session; calling again opens a new one."""

    CODE = "KMCP-SESSION"


class ProtocolError(MCPError):
    """The server sent a message that the protocol does not allow."""

    CODE = "KMCP-PROTOCOL"


class ServerError(MCPError):
    """The server answered with a JSON-RPC error.

    Attributes:
        code: The JSON-RPC error code, such as -32602.
        data: The error's data as the server sent it, or None.
    """

    CODE = "KMCP-SERVER"

    def __init__(self, what: str, *, code: int, data: Any = None, **place: Unpack[Place]) -> None:
        super().__init__(what, **place)
        self.code = code
        self.data = data


class ToolNotFound(MCPError):  # noqa: N818
    """The tool does not exist.

    Attributes:
        suggestions: Names of similar tools, the most likely first.
    """

    CODE = "KMCP-NO-TOOL"

    def __init__(self, what: str, *, suggestions: tuple[str, ...] = (), **place: Unpack[Place]) -> None:
        super().__init__(what, **place)
        self.suggestions = suggestions


class _PointerError(MCPError):
    def __init__(self, what: str, *, pointer: str = "", **place: Unpack[Place]) -> None:
        super().__init__(what, **place)
        self.pointer = pointer


class CallDenied(MCPError):  # noqa: N818
    """A rule, a limit or a person does not allow the call; nothing was sent."""

    CODE = "KMCP-DENIED"


class OutcomeUnknown(MCPError):  # noqa: N818
    """The call was sent, and nobody knows whether it was carried out."""

    CODE = "KMCP-UNKNOWN"
    may_have_run = True


class ArgumentsInvalid(_PointerError):  # noqa: N818
    """Arguments violate the tool's schema; nothing was sent.

    Attributes:
        pointer: JSON pointer (RFC 6901) into the arguments; empty for the arguments as a whole.
    """

    CODE = "KMCP-ARGUMENTS"


class ResultInvalid(_PointerError):  # noqa: N818
    """A result violates the tool's own output schema.

    Attributes:
        pointer: JSON pointer (RFC 6901) into the structured result; empty for the result as a whole.
        result: The client's `CallToolResult`, for callers that accept it anyway; None if only its structured
            part is known.
    """

    CODE = "KMCP-RESULT"

    def __init__(self, what: str, *, pointer: str = "", result: Any = None, **place: Unpack[Place]) -> None:
        super().__init__(what, pointer=pointer, **place)
        self.result = result


class ResultTooLarge(MCPError):  # noqa: N818
    """A server sent more bytes than allowed.

    Attributes:
        limit: The limit in bytes.
    """

    CODE = "KMCP-TOO-LARGE"

    def __init__(self, what: str, *, limit: int, **place: Unpack[Place]) -> None:
        super().__init__(what, **place)
        self.limit = limit


class ToolFailed(MCPError):  # noqa: N818
    """The tool answered with an error, in its own words."""

    CODE = "KMCP-TOOL-FAILED"


class InputInvalid(MCPError):  # noqa: N818
    """A row of a table lacks what is needed, or cannot be read."""

    CODE = "KMCP-INPUT"


class ToolChanged(MCPError):  # noqa: N818
    """The tool is not defined as it was when it was listed.

    Attributes:
        changes: The parts that differ, such as ``("description", "input schema")``.
    """

    CODE = "KMCP-TOOL-CHANGED"

    def __init__(self, what: str, *, changes: tuple[str, ...] = (), **place: Unpack[Place]) -> None:
        super().__init__(what, **place)
        self.changes = changes


class FileFailed(MCPError):  # noqa: N818
    """A file or folder of a run or of settings cannot be written, or cannot be read."""

    CODE = "KMCP-FILE"


class NotRunHere(MCPError):  # noqa: N818
    """A workflow is to be run where only KNIME itself can."""

    CODE = "KMCP-WORKFLOW"


class Unexpected(MCPError):  # noqa: N818
    """An exception that nobody foresaw: a mistake of this program, not of its user."""

    CODE = "KMCP-UNEXPECTED"


class TimedOut(MCPError):  # noqa: N818
    """One of the three clocks ran out: connecting, silence, or the whole call.

    Attributes:
        kind: ``connect``, ``idle`` (no progress) or ``total``.
    """

    CODE = "KMCP-TIMEOUT"

    def __init__(self, what: str, *, kind: ClockKind, **place: Unpack[Place]) -> None:
        super().__init__(what, **place)
        self.kind: ClockKind = kind

    @property
    def error_code(self) -> str:
        return f"{self.CODE}-{self.kind.upper()}"


class Canceled(MCPError):  # noqa: N818
    """The user canceled the operation."""

    CODE = "KMCP-CANCELED"


class SettingInvalid(MCPError):  # noqa: N818
    """A setting that cannot work: an empty or malformed URL, a secret in a URL, malformed JSON.

    Attributes:
        setting: The setting's key, such as ``server_url``.
    """

    CODE = "KMCP-SETTING"

    def __init__(self, what: str, *, setting: str, **place: Unpack[Place]) -> None:
        super().__init__(what, **place)
        self.setting = setting


class ToolFormatError(MCPError):
    """A tool cell, or the bytes or text of a tool, that cannot be decoded.

    Attributes:
        field: The field of the tool, such as ``parameter_schema``.
    """

    CODE = "KMCP-TOOL-CELL"

    def __init__(self, what: str, *, field: str, **place: Unpack[Place]) -> None:
        super().__init__(what, **place)
        self.field = field


def kind_and_place(error: BaseException) -> str:
    """The class of an error and the place where it was raised, for logs; its message may hold secrets.

    An example is ``KeyError at /a/b.py:12 < /a/c.py:40``, the innermost place first.
    """
    places: list[str] = []
    trace = error.__traceback__
    while trace is not None:
        places.append(f"{trace.tb_frame.f_code.co_filename}:{trace.tb_lineno}")
        trace = trace.tb_next
    return f"{type(error).__name__} at {' < '.join(places[::-1])}"


def _rebuild(kind: type[_E], args: tuple[Any, ...], attributes: dict[str, Any]) -> _E:
    # Without `__init__`, whose keywords differ per class and would be lost in a pickle or a copy.
    error = kind.__new__(kind, *args)
    error.__dict__.update(attributes)
    return error


def _sentence(text: str) -> str:
    text = text.strip()
    return text if text.endswith((".", "!", "?")) or _CODED.search(text) else f"{text}."
