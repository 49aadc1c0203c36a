"""What the nodes *MCP Resource Reader* and *MCP Prompt* share: one server, a journal, an error per row."""

from __future__ import annotations

from collections import Counter
from hashlib import sha256
from itertools import count
from typing import TYPE_CHECKING, Any, Final, Literal, Self

import knime.extension as knext

from ..types.errors import Canceled, MCPError, ToolChanged
from ..types.texts import canonical_json, counted, visible
from .node_settings import connection
from .node_settings.shared_parameters import OnError

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

    from ..client.mcp_client import MCPClient

INPUT_ROW: Final = "Input row"


class IfChanged(knext.EnumParameterOptions):
    warn = ("Warn", "Take it as it is now, and say on the node that it changed.")
    fail = ("Do not take it", "It becomes an error.")
    ignore = ("Do not compare", "Take it as it is now.")


def if_changed(description: str) -> Any:
    return knext.EnumParameter(
        "If it has changed",
        description,
        default_value=IfChanged.warn.name,
        enum=IfChanged,
        style=knext.EnumParameter.Style.VALUE_SWITCH,
        is_advanced=True,
    )


def check_connection(node: Any, ctx: Any) -> None:
    """Checks the settings of the connection; contacts nobody."""
    route = connection.route_from_settings(node, _options(node))
    connection.refuse_commands(route)
    connection.find_credential(ctx, route.credential)


def _options(node: Any) -> connection.ConnectionSettings:
    names = (*connection.OF_SERVER, *connection.OF_CALLS)
    return connection.ConnectionSettings.parse(node.connection_options, names=names)


def digest_of(raw: Any) -> str:
    return f"sha256:{sha256(canonical_json(raw).encode()).hexdigest()}"


def texts_of_rows(parameters: Any) -> list[tuple[str, dict[str, str | None]]]:
    """RowID and cells of each row, as texts by column name; a column of what has no text form is left out."""
    from ..audit.arrow_cells import Unreadable
    from ..runs.parameter_rows import values_of

    arrow = parameters.to_pyarrow()
    columns: dict[str, list[str | None]] = {}
    for name, column in zip(arrow.column_names[1:], arrow.columns[1:], strict=True):
        cells = values_of(column)
        if not any(isinstance(cell, dict | list | Unreadable) for cell in cells):
            columns[name] = [None if cell is None else _text(cell) for cell in cells]
    rows = enumerate(map(str, arrow.column(0).to_pylist()))
    return [(row, {name: cells[place] for name, cells in columns.items()}) for place, row in rows]


def _text(cell: Any) -> str:
    if isinstance(cell, bool):
        return str(cell).lower()
    # Columns of decimals hold whole numbers as 5.0, which is not what a URI or a prompt means.
    return str(int(cell)) if isinstance(cell, float) and cell.is_integer() else str(cell)


class Reading:
    """One execution: the session with the server, its journal, and what became of each request.

    `warnings` are for the node; the journal gets a line for each answer, with secrets marked.
    """

    def __init__(self, node: Any, ctx: Any, port: Any, what: Literal["resource", "prompt"]) -> None:
        from ..audit.journal import SUFFIX
        from ..runs.saved_files import FILES
        from .node_settings.connection import JOURNALS, Sessions, data_area

        self.what: Final = what
        self._ctx = ctx
        self._fails = node.on_error == OnError.fail.name
        self._if_changed: str = node.if_changed
        self._failed: list[MCPError] = []
        self._hidden = Counter[str]()
        self.warnings: list[str] = []
        options = _options(node)
        self.route = connection.route_from_settings(node, options)
        connection.refuse_commands(self.route)
        folder = data_area(ctx)
        self._sessions = Sessions(ctx, port, options.timeouts)
        self._sessions.know(self.route)
        self.run = self._sessions.run
        self._files = folder / FILES / self.run.id
        self._numbers = count(1)
        about = canonical_json({"node": f"mcp_{what}", "server": self.route.url})
        journal = folder / JOURNALS / f"{self.run.id}{SUFFIX}"
        self.run.open_journal(journal, about=about, what={"kind": what, "server": self.route.url})

    @property
    def client(self) -> MCPClient:
        return self.run.pool.client(self.route)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            # First, as it writes the journal's last line, whose hash is the head.
            self._sessions.__exit__(kind, error, trace)
        finally:
            journal = self.run.journal
            self._ctx.flow_variables["mcp_audit_head"] = "" if journal is None else journal.anchor

    def ask(
        self,
        name: str,
        row: str | None,
        get: Callable[[], dict[str, Any]],
        arguments: dict[str, str] | None = None,
    ) -> tuple[dict[str, Any], MCPError | None]:
        """Makes a request, and writes what came of it into the journal; gives the answer or the error."""
        raw: dict[str, Any] = {}
        problem: MCPError | None = None
        try:
            # Before anything is kept of it: journal, table and files get the answer without secrets.
            raw = self.run.secrets.data(get(), self._hidden)
        except Canceled:
            raise
        except MCPError as error:
            problem = error.at(row=row)
        noted = {
            "what": self.what,
            "server": self.route.url,
            "name": name,
            "arguments": arguments,
            "row": row,
            "digest": None if problem else digest_of(raw),
            "error": None if problem is None else str(problem),
        }
        self.run.note("read", {key: value for key, value in noted.items() if value is not None})
        if problem is not None:
            self.failed(problem)
        return raw, problem

    def save(self, data: bytes, media_type: str) -> str:
        """Saves what is no text in the workflow's data area, and gives its path."""
        from ..runs.saved_files import save_blob

        fix = "Make room, or save the workflow elsewhere"
        return save_blob(self._files, f"{next(self._numbers):06d}", data, media_type, fix=fix)

    def failed(self, error: MCPError) -> None:
        """Counts an error, which ends the node if the settings say so."""
        if self._fails:
            raise error
        self._failed.append(error)

    def changed(self, name: str, before: str, now: str, row: str | None) -> MCPError | None:
        """Compares a digest with the one that a person saw; gives the error if it must not be taken."""
        if not before or before == now or self._if_changed == IfChanged.ignore.name:
            return None
        text = f"The {self.what} '{visible(name)}' is not the one that was seen before ({before[:19]}…)"
        if self._if_changed == IfChanged.warn.name:
            self.warnings.append(f"{text}.")
            return None
        error = ToolChanged(text, row=row, fix="Look at it again, and take its present digest if it is right")
        self.failed(error)
        return error

    def progress(self, done: int, total: int) -> None:
        if self._ctx.is_canceled():
            raise Canceled(f"Canceled after {done} of {total}")
        self._ctx.set_progress(done / max(1, total), f"{done} of {total}")

    def tell(self, total: int) -> None:
        """Sets the node's one warning."""
        texts = list(dict.fromkeys(self.warnings))
        if self._failed:
            texts.insert(
                0, f"{len(self._failed)} of {counted(total, self.what)} failed; first: {self._failed[0]}"
            )
        if hidden := sum(self._hidden.values()):
            texts.append(
                f"The server repeated a secret {counted(hidden, 'time')}; a mark stands in its place."
            )
        if texts:
            self._ctx.set_warning(visible(" ".join(texts)))
