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
from ..tools.node_settings.connection import find_credential
from ..types.errors import Canceled, InputInvalid, MCPError, SettingInvalid

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ..runs.recorded_calls import ReplayedCall
    from ..runs.replay_decision import ReplayOptions
    from ..runs.replay_rules import ReplayRules
    from ..runs.replaying import Recording


@knext.parameter_group(label="Server")
class ServerPair:
    """A server and the one to call instead."""

    recorded = knext.StringParameter(
        "On record",
        "The server as the column *Server* has it, or the beginning of its URL.",
        default_value="",
    )
    new = knext.StringParameter(
        "Call instead",
        "URL of the server to call. A credential follows only to the same origin; for another one, or another"
        " credential, write `https://host/mcp#credential=name`.",
        default_value="",
    )


@knext.parameter_group(label="Tool")
class ToolPair:
    """A tool and what it is called now."""

    recorded = knext.StringParameter("On record", "Name of the tool in the table.", default_value="")
    new = knext.StringParameter("Now", "Name under which the server knows it now.", default_value="")


@knext.parameter_group(label="Secret")
class SecretPair:
    """A mark in recorded arguments, and the credential whose password it stands for."""

    digest = knext.StringParameter(
        "Mark", "The twelve digits in the mark that stands for the secret.", default_value=""
    )
    credential = knext.StringParameter(
        "Credential",
        "Name of the credential whose password is the secret; connect a *Credentials Configuration* node.",
        default_value="",
    )


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

    servers = knext.ParameterArray(
        label="Other servers",
        description="Servers to call instead of those on record, for instance a test system.",
        parameters=ServerPair(),
        layout_direction=knext.LayoutDirection.HORIZONTAL,
        button_text="Add server",
        array_title="Server",
    )

    also_call = knext.MultilineStringParameter(
        "Also call",
        "Tools to call although they are not declared as read-only, one name per line, with `*` for any text:"
        " `create_draft` or `test_*`. **Each of them does again what it did.** Workflows run only if they are"
        " named here. All other tools that may change something get a dry run.",
        default_value="",
        number_of_lines=3,
    )
    call_changed = knext.BoolParameter(
        "Call changed tools",
        "A tool whose definition is not the one on record is not called. Switch this on to call it"
        " nevertheless and compare the results, after you have read its new definition.",
        default_value=False,
        is_advanced=True,
    )
    tool_mapping = knext.ParameterArray(
        label="Renamed tools",
        description="Tools that the server calls something else now. The new name is no change of the tool;"
        " everything else still is.",
        parameters=ToolPair(),
        layout_direction=knext.LayoutDirection.HORIZONTAL,
        button_text="Add tool",
        array_title="Tool",
        is_advanced=True,
    )

    secrets = knext.ParameterArray(
        label="Secret arguments",
        description="Secrets are not on record: a mark with twelve digits stands in their place, and the call"
        " is skipped. Say here which credential's password a mark stands for.",
        parameters=SecretPair(),
        layout_direction=knext.LayoutDirection.HORIZONTAL,
        button_text="Add secret",
        array_title="Secret",
        is_advanced=True,
    )

    ignore = knext.MultilineStringParameter(
        "Ignore",
        "What may differ, one rule per line. A JSON pointer with `*` for any member:"
        " `/structured_result/time` as in the column *Patch*, or `/items/*/id` within the result. Anything"
        r" else is a regular expression, and what it matches is ignored: `\d\d:\d\d:\d\d`.",
        default_value="",
        number_of_lines=3,
    )
    twice = knext.BoolParameter(
        "Call twice",
        "Makes each read-only call twice, a moment apart. What differs between the two differs by itself, and"
        " may differ from the record. *Summary* and view name each rule that is learned; the flow variable"
        " `mcp_replay_rules` has all rules.",
        default_value=False,
        is_advanced=True,
    )
    rules = knext.MultilineStringParameter(
        "Rules",
        "Further rules as JSON, also about lists in another order and numbers with another rounding: the"
        " content of a file of `knime-mcp replay --write-rules`, or the flow variable `mcp_replay_rules` of"
        " another Replayer.",
        default_value="",
        number_of_lines=3,
        is_advanced=True,
    )

    expected_head = knext.StringParameter(
        "Expected head hash",
        "The flow variable `mcp_audit_head` of the run on record. With it the *Summary* also tells whether"
        " calls are missing at the end of the table.",
        default_value="",
        is_advanced=True,
    )
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
            _check(self, calls)
        except MCPError as error:
            raise connection.as_setting_error(error) from None
        promised = (REPLAY_COLUMNS, SUMMARY_COLUMNS)
        return tuple(knext.Schema.from_columns(knime_columns(columns)) for columns in promised)

    def execute(self, ctx: Any, calls: Any, credential: Any) -> tuple[Any, Any, Any]:
        """Makes the calls."""
        from ..audit.journal import SUFFIX
        from ..runs.replay_decision import routes_of
        from ..runs.replaying import Replayer
        from ..tools.node_settings.connection import JOURNALS, Sessions, data_area
        from ..tools.views.replay_page import replay_page, replay_step
        from ..tools.views.run_page import Steps

        recording = recording_of_input(calls, self.expected_head)
        count = len(recording.calls)
        output = knext.BatchOutputTable.create(row_ids="keep")
        folder = data_area(ctx)
        with Sessions(ctx, credential, connection.timeouts_from_settings(self)) as sessions:
            options = options_of(self, passwords(ctx, self.secrets))
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
        warnings = [nothing_to_compare(calls.schema), summary.warning(), unsaved]
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


def _check(node: Any, schema: Any) -> None:
    """Checks the settings of a node with the parameters of this module; makes no connection."""
    options_of(node, {})
    names = [column.name for column in schema]
    missing = [name for name in ("Tool name", "Arguments") if name not in names]
    if missing:
        raise SettingInvalid(
            f"The table has no column {' and no column '.join(missing)}: it holds no calls",
            setting="also_call",
            fix="Connect the Tool calls output of an agent, the Results of an MCP Tool Caller, or a file with"
            " one of them",
        )


def nothing_to_compare(schema: Any) -> str | None:
    """The warning for an input without results, whose calls have nothing to be compared with."""
    if {"Result", "Structured result"} & {column.name for column in schema}:
        return None
    return "The table has no column Result, so there was nothing to compare with what tools answer now."


def options_of(node: Any, passwords: dict[str, str]) -> ReplayOptions:
    """Reads the settings; `passwords` are those of the credentials that ``secrets`` names, by name."""
    from ..runs.replay_decision import ReplayOptions, pairs
    from ..types.routing import ServerRoute

    servers = pairs(((pair.recorded, pair.new) for pair in node.servers), "servers")
    # Read here only to have `configure` refuse what cannot be a server, before anything is called.
    for new in servers.values():
        ServerRoute.parse(new)
    marks = pairs(((pair.digest, pair.credential) for pair in node.secrets), "secrets")
    return ReplayOptions(
        also_call=tuple(filter(None, (line.strip() for line in node.also_call.splitlines()))),
        call_changed=node.call_changed,
        servers=servers,
        tools=pairs(((pair.recorded, pair.new) for pair in node.tool_mapping), "tool_mapping"),
        # In `configure` there are none yet.
        secrets={digest: passwords[name] for digest, name in marks.items() if name in passwords},
        rules=_rules(node),
        twice=node.twice,
    )


def _rules(node: Any) -> ReplayRules:
    from ..runs.replay_rules import ReplayRules

    own = ReplayRules.parse(node.ignore.splitlines())
    return own.and_(
        ReplayRules.of_json(node.rules, "The setting 'Rules'").rules if node.rules.strip() else ()
    )


def recording_of_input(calls: Any, head: str) -> Recording:
    """Reads the node's input; `head` is the expected head hash, or empty. `InputInvalid` for no records."""
    from ..audit.table_formats import TableError
    from ..runs.replaying import recording_of
    from ..types.columns import read_tools, tool_column_names

    schema = calls.schema
    names = tool_column_names(schema)
    tools = read_tools(calls) if names else None
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
        raise InputInvalid(str(error), fix="Look at the table of the node before this one") from None


def passwords(ctx: Any, secrets: Iterable[Any]) -> dict[str, str]:
    """The passwords of the credentials that the setting ``secrets`` names, by credential name."""
    by_name: dict[str, str] = {}
    for pair in secrets:
        credential = find_credential(ctx, pair.credential.strip() or None)
        if credential is not None:
            by_name[credential.name] = credential.password
    return by_name
