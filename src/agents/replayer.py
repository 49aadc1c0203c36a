"""The node *Tool Call Replayer*: makes recorded calls again and compares.

Here are only the dialog, the ports, and the calls of the modules that do the work. The node keeps no state
between KNIME's calls, and loads heavy imports only in `execute`.
"""

from __future__ import annotations

from typing import Any

import knime.extension as knext

from ..tools.audit_workflow import save_after_run
from ..tools.node_settings import (
    connection,
    shared_parameters,
)
from ..types.errors import MCPError
from . import replayer_settings as settings


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
    "Calls on record: the *Tool calls* of an agent, the *Results* of an *MCP Tool Caller*, or a CSV or"
    " Parquet file with one of them. Rows may be filtered and sorted. *Tool name* and *Arguments* are needed;"
    " without a tool column also *Server*, and *Digest* to notice changed tools.",
)
@knext.input_port(
    "Credential",
    "Optional: who you are, from a node such as *OAuth2 Authenticator* or *Secrets Retriever*. Its token is"
    " sent as Bearer token to the server whose tools name no credential of their own.",
    knext.PortType.CREDENTIAL,
    optional=True,
)
@knext.output_table(
    "Replay",
    "One row per call, in recorded order: the *Verdict* and its *Reason*, the result on record and the new"
    " one, and as *Patch* what turns the one into the other (JSON patch, RFC 6902).",
)
@knext.output_table(
    "Summary",
    "How many calls have which verdict, with the reasons. The last row, `records`, says whether the records"
    " are what was written: *intact*, *rows missing* (a Row Filter does that), or *altered*.",
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
    - What differs each time, such as times and ids, goes into *Ignore*.

    **Secrets**

    Credentials are looked up by the names that the tools have; connect the nodes that provide them. Arguments
    that were secret are not on record, and their calls are skipped unless you say under *Secret arguments*
    where to find them.
    """

    also_call = settings.also_call
    rows = settings.rows
    servers = settings.servers
    ignore = settings.ignore
    stop_at_first_difference = settings.stop_at_first_difference

    dry_run = settings.dry_run
    call_changed = settings.call_changed
    tool_mapping = settings.tool_mapping
    credential_mapping = settings.credential_mapping
    secrets = settings.secrets
    expected_head = settings.expected_head
    tool_column = shared_parameters.tool_column(
        0,
        "Which column holds the tools. `<auto>` takes the one that there is. A table that has lost it, as CSV"
        " files do, is replayed from *Tool name*, *Server*, *Arguments* and *Digest*.",
    )
    concurrency = settings.concurrency
    save_audit_workflow_to = shared_parameters.save_audit_workflow_to()
    connect_timeout = shared_parameters.connect_timeout()
    idle_timeout = shared_parameters.idle_timeout()
    total_timeout = shared_parameters.total_timeout()

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
        from ..tools.caller.execution import Sessions, data_area
        from ..tools.views.replay_page import replay_page
        from .replay_run import ReplayRun, passwords, recording_of_input

        recording = recording_of_input(calls, self.tool_column, self.expected_head)
        output = knext.BatchOutputTable.create(row_ids="keep")
        with Sessions(ctx, credential, connection.timeouts_from_settings(self)) as sessions:
            options = settings.options_of(self, passwords(ctx, self.secrets))
            run = ReplayRun(recording=recording, options=options, sessions=sessions, folder=data_area(ctx))
            run.run(
                output.append,
                is_canceled=ctx.is_canceled,
                on_finished=lambda done, total: ctx.set_progress(done / total, f"call {done} of {total}"),
            )
        ctx.flow_variables["mcp_audit_head"] = run.head
        records = [call.record for call in recording.calls]
        unsaved = save_after_run(records, self.save_audit_workflow_to, run.folder, run.run_id)
        warnings = [settings.nothing_to_compare(calls.schema), run.summary.warning(), unsaved]
        if any(warnings):
            ctx.set_warning(" ".join(filter(None, warnings)))
        view = knext.view_html(replay_page("Tool Call Replayer", run.summary, run.shown))
        return output, knext.Table.from_pyarrow(run.summary.table(), row_ids="keep"), view
