"""An execution of the Replayer: from its input table to its output tables, with its own journal."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from ..audit.calls_table import TableError
from ..audit.journal import SUFFIX, new_run_id
from ..runs.definitions import Pinning
from ..runs.replay_decision import routes_of
from ..runs.replaying import Replayer, ReplaySummary, recording_of, replay_table
from ..tools.caller.execution import JOURNALS
from ..tools.node_settings.connection import find_credential
from ..tools.views.replay_page import ShownCalls
from ..types.columns import ROW_ID
from ..types.errors import Canceled, MCPError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from ..runs.recorded_calls import ReplayedCall
    from ..runs.replay_decision import ReplayOptions
    from ..runs.replaying import Recording
    from ..tools.caller.execution import Sessions

_ROWS_PER_PIECE: Final = 512


def recording_of_input(calls: Any, tool_column: str, head: str) -> Recording:
    """Reads the input of the node; `head` is the expected head hash, or empty.

    Raises:
        MCPError: The table holds no calls, or a cell cannot be read.
    """
    from ..types.columns import read_tools, tool_column_names

    schema = calls.schema
    names = tool_column_names(schema, tool_column)
    tools = read_tools(calls, tool_column) if names else None
    # KNIME's own Python cannot read a missing tool cell as a value.
    others = [column.name for column in schema if column.name not in names]
    arrow = calls[others].get().to_pyarrow()
    try:
        return recording_of(
            arrow.drop_columns([arrow.column_names[0]]),
            tools,
            arrow.column(0).to_pylist(),
            head=head.strip() or None,
        )
    except TableError as error:
        raise MCPError(str(error), fix="Look at the table of the node before this one") from None


def passwords(ctx: Any, secrets: Iterable[Any]) -> dict[str, str]:
    """Looks up the passwords of the credentials that the setting ``secrets`` names, by credential name.

    Raises:
        SettingInvalid: No credential has this name.
    """
    by_name: dict[str, str] = {}
    for pair in secrets:
        credential = find_credential(ctx, pair.credential.strip() or None)
        if credential is not None:
            by_name[credential.name] = credential.password
    return by_name


@dataclass(slots=True, kw_only=True)
class ReplayRun:
    """One execution of the Replayer.

    Attributes:
        recording: The calls to replay.
        options: The user's options.
        sessions: The sessions with the servers.
        folder: The workflow's data area.
        summary: The counts.
        shown: The calls that the view shows.
        run_id: Id of the run in the journal.
        head: Hash of the last call, "" if no call was made.
    """

    recording: Recording
    options: ReplayOptions
    sessions: Sessions
    folder: Path
    summary: ReplaySummary = field(init=False)
    shown: ShownCalls = field(init=False)
    run_id: str = field(init=False, default_factory=new_run_id)
    head: str = field(init=False, default="")

    def __post_init__(self) -> None:
        self.summary = ReplaySummary(self.recording.verification)
        self.shown = ShownCalls(ignore=self.options.ignore)

    def run(
        self,
        write: Callable[[Any], None],
        *,
        is_canceled: Callable[[], bool],
        on_finished: Callable[[int, int], None],
    ) -> None:
        """Replays all calls.

        Args:
            write: Called with the table *Replay* piece by piece; the first column holds the RowIDs.
            is_canceled: Called in the calling thread.
            on_finished: Called with the number of finished calls and the number of all calls.

        Raises:
            Canceled: The replay was canceled; the message names the journal with the calls that were made.
            MCPError: The journal cannot be written.
        """
        calls = self.recording.calls
        # In KNIME's thread, before calls run in other threads.
        self.sessions.know(*routes_of(calls, self.options))
        dispatcher = self.sessions.dispatcher(
            self.run_id, Pinning.IGNORE, lambda _call, _number, _data, _kind: ""
        )
        # Images are compared by their description in the result's text; they are not saved a second time.
        dispatcher.save_blob = None
        journal = dispatcher.open_journal(
            self.folder / JOURNALS / f"{self.run_id}{SUFFIX}", about="tool_call_replayer"
        )
        replayer = Replayer(
            dispatcher=dispatcher,
            options=self.options,
            is_canceled=is_canceled,
            on_cancel=self.sessions.stop.set,
        )
        with journal:
            pending: list[ReplayedCall] = []
            try:
                for done, call in enumerate(replayer.replay(calls), start=1):
                    self.summary.add(call)
                    self.shown.add(call)
                    pending.append(call)
                    if len(pending) == _ROWS_PER_PIECE:
                        write(_piece(pending))
                        pending = []
                    on_finished(done, len(calls))
            except Canceled:
                journal.close("canceled")
                raise Canceled(
                    f"The replay was canceled after {self.summary.counts.total()} of {len(calls)} calls",
                    fix=f"The calls that were made are kept in {journal.path}",
                ) from None
            if pending or not calls:
                write(_piece(pending))
            self.head = journal.head


def _piece(calls: list[ReplayedCall]) -> Any:
    import pyarrow as pa

    table = replay_table(calls)
    row_ids = [call.recorded.row_id or f"Row{call.recorded.place - 1}" for call in calls]
    return table.add_column(0, ROW_ID, pa.array(row_ids, pa.string()))
