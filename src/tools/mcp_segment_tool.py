"""The hidden node *MCP Tool (in a segment)*: one call of one tool, for KNIME's own agents.

It stands in the workflow of a tool's cell (`tool_segment.py`), which KNIME runs like any workflow tool. What
goes wrong is told to the model: an agent reads the first cell of the table *Message*.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final

import knime.extension as knext

from ..types.columns import ROW_ID
from ..types.errors import AuthError, Canceled, MCPError, SettingInvalid, ToolFormatError
from .node_settings import shared_parameters
from .node_settings.connection import (
    KEYRING_SERVICE,
    find_credential,
    keyring_credential,
    timeouts_from_settings,
)
from .tool_segment import NODE_ID, NODE_NAME

if TYPE_CHECKING:
    from pathlib import Path

    import pyarrow as pa

    from ..client.authorization import Authorization
    from ..runs.call_values import CallOutcome
    from ..runs.engine import Run
    from ..types.routing import ServerRoute
    from ..types.tool import MCPTool
    from .node_settings.connection import Credential

MESSAGE: Final = "Message"
AGENT_SUFFIX: Final = ".agent.jsonl"
"""The end of the names of journals that calls for KNIME's own agents write."""

_OPEN_FOR: Final = 900  # seconds without a call after which a journal is that of an earlier agent


@knext.node(
    name=NODE_NAME,
    node_type=knext.NodeType.OTHER,
    icon_path="icons/caller.png",
    category="/community/mcp",
    id=NODE_ID,
    is_hidden=True,
)
@knext.output_table("Message", "One cell: what the model reads, the text of the result or an error in words.")
@knext.output_table("Records", "The list of records in the result, as a table; empty without one.")
class MCPToolInSegment:
    """Calls one tool of an MCP server for an agent of KNIME.

    *MCP Tool Provider* puts this node into the tool cells that it makes. KNIME's *Agent Prompter* and *Agent
    Chat Widget* run them as workflow tools: their arguments come as flow variables. The call is checked and
    recorded as by *MCP Tool Caller*, in the data area of the workflow with the agent.
    """

    tool = knext.MultilineStringParameter(
        "Tool", "The tool's definition and its server, as JSON.", default_value=""
    )
    refusal = knext.StringParameter(
        "Refusal", "Why the tool is not called for agents of KNIME; empty to call it.", default_value=""
    )
    connect_timeout = shared_parameters.connect_timeout()
    idle_timeout = shared_parameters.idle_timeout()
    total_timeout = shared_parameters.total_timeout()

    def configure(self, ctx: Any) -> tuple[Any, Any]:  # noqa: ARG002
        return knext.Schema.from_columns([knext.Column(knext.string(), MESSAGE)]), None

    def execute(self, ctx: Any) -> tuple[Any, Any]:
        message, records = f"Error: {self.refusal}.", None
        if not self.refusal:
            try:
                route, outcome = self._called(ctx)
            except Canceled:
                raise
            except MCPError as error:  # before the call, such as a data area that cannot be written
                message = f"Error: {error}"
            else:
                message, records = _message(outcome, route), _records(outcome)
        return _table({MESSAGE: [message]}), _table(records)

    def _called(self, ctx: Any) -> tuple[ServerRoute, CallOutcome]:
        from ..runs.call_values import PlannedCall
        from ..runs.saved_files import BlobStore
        from ..types.tool import MCPTool, from_json_text
        from .agent_parameters import agent_parameters, arguments_given
        from .node_settings.connection import JOURNALS, Sessions, data_area

        tool = from_json_text(self.tool)
        if not isinstance(tool, MCPTool):
            raise ToolFormatError(
                "This segment holds no MCP tool", field="tool", fix="Execute the MCP Tool Provider again"
            )
        folder = data_area(ctx)
        with Sessions(
            ctx,
            None,
            timeouts_from_settings(self),
            pinning="fail",  # an agent that asks nobody calls what a person saw, and nothing else
            find=lambda name: _credential(ctx, name),
            login=_login,
        ) as sessions:
            run = sessions.run
            sessions.know(tool.route)
            run.is_canceled = ctx.is_canceled
            run.save_blob = BlobStore(folder, run.id).save
            _open_journal(run, folder / JOURNALS, tool)
            try:
                arguments = arguments_given(agent_parameters(tool), ctx.flow_variables)
            except MCPError as error:
                return tool.route, run.not_made(PlannedCall(tool=tool), error)
            outcome = run.call(PlannedCall(tool=tool, arguments=arguments))
        if isinstance(outcome.error, Canceled):
            raise outcome.error
        return tool.route, outcome


def _credential(ctx: Any, name: str) -> Credential | None:
    try:
        return find_credential(ctx, name)
    except MCPError:
        # An agent's segment runs in a workflow of its own,
        # which has no credentials but those of its own variables.
        found = keyring_credential(name)
    if found is None:
        raise SettingInvalid(
            f"There is no credential '{name}' for this tool",
            setting="credentials",
            fix=f"Give the workflow a credential of that name (in its context menu: Workflow Credentials)."
            " Credentials of Configuration nodes do not reach the tools of KNIME's agents, and those of the"
            f" workflow not the Agent Chat Widget: for that, type in a terminal: keyring set"
            f" {KEYRING_SERVICE}:{name} USER, which asks for the password",
        ) from None
    return found


def _login(route: ServerRoute) -> Authorization | None:
    """The login of ``knime-mcp login``, as no credential is named."""
    from ..client.oauth.oauth import stored_login

    return stored_login(route.url)


def _open_journal(run: Run, folder: Path, tool: MCPTool) -> None:
    """Opens the journal of the agent's run: the last one in the host workflow, if it was written just now.

    Each call is a process of its own, which does not learn who asks for it. Two agents that run at the same
    time share a journal, or where they call at the same moment, the second one has its own.
    """
    from ..audit.journal import JournalWriteError
    from ..types.texts import canonical_json

    about = canonical_json({"node": NODE_ID, "server": tool.route.url})
    before = max(folder.glob(f"*{AGENT_SUFFIX}"), key=lambda file: file.name, default=None)
    try:
        # KNIME starts this node anew for each call and does not say of which agent: calls shortly after
        # each other are taken for one run.
        if before is not None and time.time() - before.stat().st_mtime < _OPEN_FOR:
            run.open_journal(before, about=about, append=True)
            return
    except (OSError, ValueError, JournalWriteError):
        pass  # somebody else writes it, or it cannot be read
    run.open_journal(folder / f"{run.id}{AGENT_SUFFIX}", about=about)


def _message(outcome: CallOutcome, route: ServerRoute) -> str:
    """What the model reads: the result's text and where its files are, or what went wrong."""
    from ..audit.record import CallStatus

    record = outcome.record
    if record.status is not CallStatus.OK:
        lead = "the tool failed: " if record.status is CallStatus.TOOL_ERROR else ""
        said = f"Error: {lead}{record.error or record.status.value}"
        if isinstance(outcome.error, AuthError) and route.credential is None:
            said += f" Or log in, in a terminal: knime-mcp login {route.url}"
        return said
    parts = [record.result or "(no text)"]
    parts += [f"Files: {', '.join(record.files)}"] if record.files else []
    parts += [f"Note: {outcome.note}"] if outcome.note else []
    return "\n\n".join(parts)


def _records(outcome: CallOutcome) -> pa.Table | None:
    from ..audit.record import CallStatus
    from ..client.protocol.tools import ABSENT
    from ..runs.result_records import find_records, records_table

    answer = outcome.answer
    if outcome.record.status is not CallStatus.OK or answer is None or answer.structured is ABSENT:
        return None
    found = [records for _, records in find_records(answer.structured)]
    return records_table(found[0]) if len(found) == 1 else None


def _table(columns: Any) -> Any:
    import pyarrow as pa

    made = columns if isinstance(columns, pa.Table) else pa.table(columns or {})
    ids = pa.array([f"Row{number}" for number in range(made.num_rows)], pa.string())
    return knext.Table.from_pyarrow(made.add_column(0, ROW_ID, ids))
