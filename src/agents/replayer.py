"""The node *Tool Call Replayer*: makes recorded calls again and compares.

Here are only the dialog, the ports, and the calls of the modules that do the work. The node keeps no state
between KNIME's calls, and loads heavy imports only in `execute`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import knime.extension as knext

from ..client.limits import Timeouts
from ..tools.audit_workflow import save_after_run
from ..tools.node_settings import connection, shared_parameters
from ..types.errors import Canceled, MCPError
from . import replayer_settings as settings

if TYPE_CHECKING:
    from ..runs.replaying import ReplayedCall


@knext.node(
    name="Tool Call Replayer",
    node_type=knext.NodeType.MANIPULATOR,
    icon_path="icons/replayer.png",
    category="/community/mcp",
    id="tool_call_replayer",
    after="mcp_tool_caller",
    keywords=["MCP", "Model Context Protocol", "audit", "replay", "compare", "agent", "regression", "test"],
)
@knext.input_table(
    "Tool calls",
    "Calls on record: the *Tool calls* of an agent, the *Results* of an *MCP Tool Caller*, or a file"
    " with one of them. Rows may be filtered and sorted. *Tool name* and *Arguments* are needed;"
    " without a tool column also *Server*, and *Digest* to notice changed tools.",
)
@shared_parameters.credential_port("the server whose tools name no credential of their own.")
@knext.output_table(
    "Replay",
    "One row per call, in recorded order: the *Verdict* and its *Reason*, the result on record and the new"
    " one, and as *Patch* what turns the one into the other (JSON patch, RFC 6902).",
)
@knext.output_table(
    "Summary",
    "How many calls have which verdict, with the reasons. The last row, `records`, says whether the records"
    " are what was written: *written by NAME's key, unchanged*; *complete in itself, but nobody vouches for"
    " it*; *rows missing* (a Row Filter does that); or *changed at calls …*.",
)
@knext.output_view("Differences", "The verdicts, and every difference side by side.")
class ToolCallReplayer:
    """Makes recorded tool calls again and says what is different now.

    Takes the calls of an agent or an *MCP Tool Caller* and makes them once more, in recorded order. Each gets
    a verdict:

    - **same**: the result is the one on record
    - **different**: it is not; *Patch* says what changed
    - **tool changed**: the server has changed the tool's description, parameters or annotations since then;
      it was not called
    - **tool missing**: the server has no such tool any more
    - **skipped**: not called, because that might change something, or because you said so
    - **failed**: it could not be called, so that there is nothing to compare

    **What is called**

    Only tools that their server declares as read-only, and whose definition is the one on record. All others
    get a dry run: their arguments are checked against the tool as it is now, and nothing is sent. Name the
    tools that you want to call nevertheless under *Also call*. Workflows run only if they are named there.

    **How to use it**

    - To prove what an agent did: connect its *Tool calls*, and enter its flow variable `mcp_audit_head` under
      *Expected head hash*.
    - To test a new version of a server: enter it under *Other servers*, and switch on *Call changed tools*.
    - What differs each time, such as times and ids, goes into *Ignore*; *Call twice* finds it. It also
      learns that lists have another order and numbers another rounding (*Rules*). What rules left out is
      said with each call and in *Summary*.

    **Secrets**

    Credentials are looked up by the names that the tools have; connect the nodes that provide them. Arguments
    that were secret are not on record, and their calls are skipped unless you say under *Secret arguments*
    where to find them.
    """

    servers = settings.servers

    also_call = settings.also_call
    call_changed = settings.call_changed
    tool_mapping = settings.tool_mapping

    secrets = settings.secrets

    ignore = settings.ignore
    twice = settings.twice
    rules = settings.rules

    expected_head = settings.expected_head
    save_audit_workflow_to = shared_parameters.save_audit_workflow_to()

    connect_timeout = Timeouts().connect
    idle_timeout = shared_parameters.idle_timeout()
    total_timeout = shared_parameters.total_timeout()

    shared_parameters.headings(
        Tools=[also_call],
        Comparison=[ignore],
        Audit=[expected_head],
        Advanced=[idle_timeout],
    )

    def configure(self, ctx: Any, calls: Any, credential: Any) -> Any:  # noqa: ARG002
        """Checks the settings and promises the columns; makes no connection."""
        from ..runs.replaying import REPLAY_COLUMNS, SUMMARY_COLUMNS
        from ..types.columns import knime_columns

        try:
            settings.check(self, calls)
        except MCPError as error:
            raise connection.as_setting_error(error) from None
        promised = (REPLAY_COLUMNS, SUMMARY_COLUMNS)
        return tuple(knext.Schema.from_columns(knime_columns(columns)) for columns in promised)

    def execute(self, ctx: Any, calls: Any, credential: Any) -> tuple[Any, Any, Any]:
        """Makes the calls."""
        from ..audit.journal_reading import SUFFIX
        from ..runs.replaying import Replayer, routes_of
        from ..tools.node_settings.connection import JOURNALS, Sessions, data_area
        from ..tools.views.replay_page import replay_page, replay_step
        from ..tools.views.run_page import Steps

        recording = settings.recording_of_input(calls, self.expected_head)
        count = len(recording.calls)
        output = knext.BatchOutputTable.create(row_ids="keep")
        folder = data_area(ctx)
        with Sessions(ctx, credential, connection.timeouts_from_settings(self)) as sessions:
            options = settings.options_of(self, settings.passwords(ctx, self.secrets))
            # In KNIME's thread, before calls run in other threads.
            sessions.know(*routes_of(recording.calls, options))
            # Images are compared by their description in the result's text; they are not saved a second time.
            run = sessions.run
            file = folder / JOURNALS / f"{run.id}{SUFFIX}"
            run.open_journal(file, about="tool_call_replayer", what={"kind": "replay"})
            shown = Steps()

            def take(call: ReplayedCall) -> None:
                shown.add(replay_step(call))

            replayer = Replayer(run, options, is_canceled=ctx.is_canceled, on_cancel=sessions.stop.set)
            summary = replayer.replay_all(
                recording,
                take=take,
                write=lambda piece: output.append(_rows(piece)),
                on_finished=lambda done: ctx.set_progress(done / count, f"call {done} of {count}"),
            )
        if summary.canceled:
            raise Canceled(
                f"The replay was canceled after {summary.counts.total()} of {count} calls",
                fix=f"The calls that were made are kept in {file}",
            )
        ctx.flow_variables["mcp_audit_head"] = "" if run.journal is None else run.journal.anchor
        if rules := options.rules.and_(summary.learned.rules):
            ctx.flow_variables["mcp_replay_rules"] = rules.to_json()
        records = [call.record for call in recording.calls]
        unsaved = save_after_run(records, self.save_audit_workflow_to, folder, run.id)
        warnings = [settings.nothing_to_compare(calls.schema), summary.warning(), unsaved]
        if any(warnings):
            ctx.set_warning(" ".join(filter(None, warnings)))
        view = knext.view_html(replay_page("Tool Call Replayer", summary, shown))
        return output, knext.Table.from_pyarrow(summary.table(), row_ids="keep"), view


def _rows(calls: list[ReplayedCall]) -> Any:
    """Rows of the table *Replay*, with RowIDs as the first column."""
    import pyarrow as pa

    from ..runs.replaying import replay_table
    from ..types.columns import ROW_ID

    table = replay_table(calls)
    row_ids = [call.recorded.row_id or f"Row{call.recorded.place - 1}" for call in calls]
    return table.add_column(0, ROW_ID, pa.array(row_ids, pa.string()))
