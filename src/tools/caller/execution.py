"""An execution of the node *MCP Tool Caller*: its sessions, the tools by name, its calls, and their end.

Credentials are looked up once and in KNIME's own thread, before calls run in other threads.
"""

from __future__ import annotations

import dataclasses
import difflib
import threading
from contextlib import ExitStack
from functools import cached_property, partial
from hashlib import sha256
from itertools import islice
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, Literal, Self, assert_never

from ...audit.journal import SUFFIX
from ...runs.argument_sources import ParameterRows, PlannedCalls, parse_arguments_setting
from ...runs.checked_calls import Pinning, pinned_tool
from ...runs.engine import new_run
from ...runs.table_run import TableRun
from ...types.columns import knime_value, read_tools, tool_column_names
from ...types.errors import Canceled, MCPError, SettingInvalid, ToolFailed, ToolNotFound
from ...types.routing import qualified as qualified_name
from ...types.routing import server_labels
from ...types.texts import canonical_json, counted
from ...types.tool import MCPTool, WorkflowTool
from ..node_settings import connection
from ..node_settings.connection import (
    check_one_origin,
    client_for,
    credential_from_port,
    find_credential,
    refuse_commands,
)
from ..recorded_steps import workflow_digest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from types import TracebackType

    from ...client.authorization import Authorization
    from ...client.limits import Timeouts
    from ...client.mcp_client import MCPClient
    from ...runs.call_values import CallOutcome
    from ...runs.engine import WorkflowRunner
    from ...runs.server_questions import ServerQuestions
    from ...types.routing import ServerRoute
    from ...types.tool import Tool
    from ..node_settings.connection import Credential


_SUGGESTIONS: Final = 3
_SHOWN: Final = 10

WorkflowMode = Literal["DEFAULT", "DETACHED", "DEBUG"]
JOURNALS: Final = "mcp-audit"
"""The folder of the journals in the workflow's data area."""


class Sessions:
    """The sessions of one execution and its `run`, both ended on exit.

    `port` is the object at the credential port, None if the port is not connected. `find` looks up a
    credential by its name, and `login` gives what a person has logged in to; by default only KNIME's
    credentials are known. `questions` are those of servers, where somebody can be asked. Raises
    `SettingInvalid` if the port has no token that can be sent.
    """

    def __init__(
        self,
        ctx: Any,
        port: Any | None,
        timeouts: Timeouts,
        *,
        pinning: str = Pinning.IGNORE.value,
        workflow_mode: WorkflowMode = "DETACHED",
        secret_arguments: str = "",
        find: Callable[[str], Credential | None] | None = None,
        login: Callable[[ServerRoute], Authorization | None] | None = None,
        questions: ServerQuestions | None = None,
    ) -> None:
        self.questions = questions
        self._find = find or partial(find_credential, ctx)
        self._login = login
        self.stop = threading.Event()  # set to make calls in flight end
        self._timeouts = timeouts
        self._found: dict[str, Credential] = {}
        self._problems: dict[str, MCPError] = {}
        self.notes: list[str] = []  # what the node has to say beside what its calls say
        self._port = None if port is None else credential_from_port(port)
        named = filter(None, map(str.strip, secret_arguments.split(",")))
        self.run = new_run(self._connect, secrets=[self._port.password] if self._port else [], named=named)
        self.run.pinning = Pinning(pinning)
        self.run.run_workflow = workflow_runner(ctx, workflow_mode)
        self.run.workflow_digest = workflow_digest
        self.run.is_canceled = self.stop.is_set

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self.run.__exit__(kind, error, trace)
        finally:
            self.run.pool.close()

    def know(self, *routes: ServerRoute) -> None:
        """Looks up the credentials that routes name. An unknown name fails only the calls that need it.

        Raises `SettingInvalid` if the credential port's token would go to more than one server.
        """
        for name in {route.credential for route in routes if route.credential is not None}:
            try:
                credential = self._find(name)
            except MCPError as error:
                self._problems[name] = error
            else:
                if credential is not None:
                    self._found[name] = credential
                    self.run.secrets.learn([credential.password])
        if self._port is not None:
            check_one_origin([route.url for route in routes if route.credential is None])

    def _connect(self, route: ServerRoute) -> MCPClient:
        refuse_commands(route)
        if route.credential is None:
            login = None if self._login is None else self._login(route)
            return client_for(
                route, self._port, timeouts=self._timeouts, login=login, questions=self.questions
            )
        problem = self._problems.get(route.credential)
        if problem is not None:
            raise problem
        found = self._found[route.credential]
        return client_for(route, found, timeouts=self._timeouts, questions=self.questions)


def _pinned(tool: Tool, digest: str) -> Tool:  # @ToolTypeDispatch
    """Pins a tool to the digest of a definition; empty changes nothing. Workflows cannot be pinned."""
    match tool:
        case MCPTool() if digest.strip():
            route = dataclasses.replace(tool.route, tool=None, digest=digest.strip())
            return dataclasses.replace(tool, parameter_schema=tool.schema_json, server_uri=route.uri)
        case MCPTool() | WorkflowTool():
            return tool
        case _:
            assert_never(tool)


def routes_of(tools: list[Tool]) -> list[ServerRoute]:
    """The servers that the tools need, each once; workflows need no server."""
    return list(dict.fromkeys(tool.route for tool in tools if isinstance(tool, MCPTool)))


def data_area(ctx: Any) -> Path:
    """The workflow's data area, for the files of a run, with the folder of the journals in it."""
    folder = Path(ctx.get_workflow_data_area_dir())
    try:
        (folder / JOURNALS).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise MCPError(
            "The journal of the calls goes to the workflow's data area, where its folder cannot be made:"
            f" {folder / JOURNALS}: {error.strerror or error}",
            fix="Save the workflow where you may write, and see that nothing else has that name",
        ) from None
    return folder


def opening(ctx: Any) -> str:
    """Tells whether the workflow was closed, or its KNIME has died, since: a digest of its temporary folder.

    KNIME makes that folder anew when it opens a workflow, and has one for all its nodes and their executions.
    """
    return sha256(str(ctx.get_workflow_temp_dir()).encode()).hexdigest()[:16]


def place_in_workflow(ctx: Any) -> str:
    """The node's number in its workflow, such as 4:0:7 in a component: it tells equal nodes apart.

    KNIME says the node's name and its whole id. The first number there is the workflow's, and another one
    each time that it is opened.
    """
    _, _, whole = ctx._java_ctx.get_node_id().rpartition(" ")  # since KNIME 5.1
    return whole.partition(":")[2]


def workflow_runner(ctx: Any, mode: WorkflowMode) -> WorkflowRunner | None:
    """Runs workflow tools in KNIME, in the thread that calls it; None before KNIME 5.5, which cannot.

    ``DEFAULT`` keeps the output tables readable, ``DETACHED`` does not, ``DEBUG`` also shows each workflow as
    a metanode, which stays if it fails.
    """
    execute = getattr(ctx, "_execute_tool", None)
    if execute is None:
        return None

    def run(
        tool: WorkflowTool, arguments: dict[str, Any], tables: tuple[Any, ...]
    ) -> tuple[str, tuple[Any, ...]]:
        hints = {"execution-mode": mode, "with-view-nodes": "False"}
        # KNIME 5.5 returns two values, later versions return three.
        message, outputs, *_ = execute(knime_value(tool), arguments, list(tables), hints)
        return str(message or ""), tuple(outputs or ())

    return run


def run_calls(
    node: Any,
    ctx: Any,
    tools: Any,
    rows: Any,
    sessions: Sessions,
    folder: Path,
    take: Callable[[CallOutcome], None],
) -> TableRun:
    """Makes the calls of the node; ``take`` is called with each finished one, in the order of the rows.

    ``tools`` and ``rows`` are the tables *Tools* and *Parameters*, this one as Arrow table with RowIDs.
    ``folder`` is the workflow's data area. The message of an error that ends the run names the journal.
    """
    sessions.run.definitions.are_watched = rows is not None
    plan = _planned(node, ctx, tools, rows, sessions)
    about, journals, opened = _about(node, ctx, tools), folder / JOURNALS, opening(ctx)
    with ExitStack() as stack:
        earlier = None
        if node.resume:
            from ...runs.resuming import latest_to_resume, taken_as_complete

            earlier = stack.enter_context(latest_to_resume(journals, about, opened))
            if remark := taken_as_complete(earlier):
                sessions.notes.append(remark)
            sessions.run.repeat_unknown = node.repeat_unknown
        table_run = TableRun(
            plan=plan,
            run=sessions.run,
            stop=sessions.stop,
            concurrency=node.concurrency,
            fail=node.on_error == "fail",
            journal_file=journals / f"{sessions.run.id}{SUFFIX}",
            about=about,
            opened=opened,
            earlier=earlier,
        )
        ctx.set_progress(0.0, f"0 of {plan.total} calls")
        ending = table_run.make_calls(
            take,
            is_canceled=ctx.is_canceled,
            on_finished=lambda count: ctx.set_progress(count / plan.total, f"call {count} of {plan.total}"),
        )
    if table_run.failure is not None:
        raise _failure(table_run, table_run.failure)
    if ending == "canceled":
        raise Canceled(
            f"Canceled after {table_run.summary.finished} of {plan.total} calls",
            fix=f"The finished calls are kept in {table_run.journal_file}. Switch on"
            " 'Resume an interrupted run' and execute again to make only the others",
        )
    table_run.summary.unmatched = plan.unmatched
    table_run.summary.notes |= dict.fromkeys(sessions.notes)
    return table_run


def _failure(table_run: TableRun, outcome: CallOutcome) -> MCPError:
    record = outcome.record
    text = record.error or record.status.value
    if isinstance(outcome.error, MCPError):
        error = outcome.error.at()
        error.what = text  # already names the place and the advice
        error.server = error.tool = error.row = error.fix = None
    else:
        row = f" in row {record.input_row}" if record.input_row is not None else ""
        error = ToolFailed(f"Tool {record.tool_name or 'unknown'} failed{row}: {text}")
    journal = table_run.run.journal
    if table_run.plan.total != 1 and journal is not None:
        error.fix = (
            f"{journal.count} of {table_run.plan.total} calls are kept in {journal.path}. To go on with "
            "the others, correct the row or set 'If a call fails' to 'Make an error row', switch on 'Resume "
            "an interrupted run', and execute again"
        )
    return error


def _planned(node: Any, ctx: Any, tools: Any, rows: Any, sessions: Sessions) -> PlannedCalls:
    per_row = connection.chosen_column(node.tool_per_row_column)
    is_json = node.arguments_source == "json_column"
    lookup = ToolLookup((), ()) if tools is None else _lookup(tools, node.tool_column)
    if lookup.unreadable:
        rows_named = ", ".join(islice(lookup.unreadable, _SHOWN))
        sessions.notes.append(f"Tools that cannot be read were left out: row {rows_named}")
    tool, problem = None, None
    try:
        if tools is None:
            route, name, shown_name, digest = node.target(ctx.flow_variables)
            sessions.know(route)
            # From server and name only, as the error rows have it if its definition cannot be had.
            tool = MCPTool(shown_name, "", "", dataclasses.replace(route, tool=None).uri, name)
            definition = sessions.run.definitions.find(route, name, is_canceled=ctx.is_canceled)
            tool = _pinned(
                pinned_tool(definition, route, shown_name=shown_name), node.pinned_digest or digest
            )
        elif per_row is None:
            tool = _pinned(lookup.find(node.chosen_tool()), node.pinned_digest)
            sessions.know(*routes_of([tool]))
        else:
            sessions.know(*routes_of(lookup.tools))
    except (SettingInvalid, Canceled):
        raise
    except MCPError as error:
        problem = error  # fails every call: gives error rows or fails the node, as the settings say
    return PlannedCalls(
        find_tool=lambda name: _pinned(lookup.find(name), node.pinned_digest),
        tool=tool,
        problem=problem,
        values=parse_arguments_setting(node.arguments_json),
        pairs=[(pair.name, pair.value) for pair in node.arguments if pair.value or not node.omit_empty],
        parameters=None if rows is None else ParameterRows(table=rows),
        tool_column=per_row,
        json_column=connection.chosen_column(node.arguments_column) if is_json else None,
    )


def _lookup(tools: Any, column: str) -> ToolLookup:
    names = tool_column_names(tools.schema, column)
    row_ids = tools[names].get().to_pyarrow().column(0).to_pylist()
    unreadable: dict[str, MCPError] = {}
    return ToolLookup(read_tools(tools, column, unreadable=unreadable), row_ids, unreadable)


def _about(node: Any, ctx: Any, tools: Any) -> str:
    """Identifies this node's runs among the journals of a workflow."""
    server = None if tools is not None else node.target(ctx.flow_variables).route.url
    says = ("tool_column", "tool", "tool_name", "tool_per_row_column", "arguments_column")
    chosen = {name: getattr(node, name) for name in says}
    place = place_in_workflow(ctx)
    return canonical_json({"node": "mcp_tool_caller", "place": place, "server": server, **chosen})


class ToolLookup:
    """The tools of a table, one per row or None, by all their names and their RowIDs.

    `unreadable` are the errors of rows whose cells cannot be read. They are errors only of calls of tools
    that are not in the other rows.
    """

    def __init__(
        self,
        tools: Sequence[Tool | None],
        row_ids: Sequence[str],
        unreadable: Mapping[str, MCPError] = MappingProxyType({}),
    ) -> None:
        self.unreadable = unreadable
        present = [(tool, row_id) for tool, row_id in zip(tools, row_ids, strict=True) if tool is not None]
        self.tools = [tool for tool, _ in present]
        self._row_ids = {id(tool): row_id for tool, row_id in reversed(present)}
        self._by_name = _index((tool.name, tool) for tool in self.tools)
        self._by_row = _index((row_id, tool) for tool, row_id in present)
        self._by_remote = _index((tool.tool_name, tool) for tool in self.tools if isinstance(tool, MCPTool))

    def find(self, name: str) -> Tool:
        """Finds a tool by name. `ToolNotFound` says what to write instead.

        The first kind of name that fits counts: shown name, ``name @ server`` (host and port, or the whole
        URL), RowID, name on the server.
        """
        for wanted in dict.fromkeys((name, name.strip())):  # a server may put spaces around a name
            tools = self._find(wanted)
            if len(tools) == 1:
                return tools[0]
            if tools:
                raise self._ambiguous(wanted, tools)
        raise self._unknown(name.strip())

    def _find(self, wanted: str) -> list[Tool]:
        if wanted in self._by_name:
            return self._by_name[wanted]
        for index in (self._by_qualified, self._by_row, self._by_remote):
            if wanted in index:
                return index[wanted]
        return []

    # Most calls say no more than the name, and the servers of many tools take time to tell apart.
    @cached_property
    def _qualified(self) -> dict[int, list[str]]:
        return dict(zip(map(id, self.tools), _qualified_names(self.tools), strict=True))

    @cached_property
    def _by_qualified(self) -> dict[str, list[Tool]]:
        return _index((name, tool) for tool in self.tools for name in self._qualified[id(tool)])

    def _ambiguous(self, wanted: str, tools: list[Tool]) -> ToolNotFound:
        spellings = [self._spelling(tool) for tool in tools]
        return ToolNotFound(
            f"{len(tools)} of the tools are named {wanted!r}",
            suggestions=tuple(spellings),
            fix=f"Write {_listed(spellings)}",
        )

    def _spelling(self, tool: Tool) -> str:
        """The shortest name that only this tool has."""
        if len(self._by_name[tool.name]) == 1:
            return tool.name
        for name in self._qualified[id(tool)]:
            if len(self._by_qualified[name]) == 1:
                return name
        return self._row_ids[id(tool)]

    def _unknown(self, wanted: str) -> MCPError:
        if self.unreadable and (wanted in self.unreadable or not self.tools):
            return self.unreadable.get(wanted) or next(iter(self.unreadable.values()))
        if not self.tools:
            return ToolNotFound(
                f"There is no tool {wanted!r}: the Tools input has no tools",
                fix="Look at the table of the node before this one",
            )
        spellings: dict[str, list[str]] = {}
        for index in (self._by_name, self._by_remote):
            for name, tools in index.items():
                spellings.setdefault(name.casefold(), []).extend(map(self._spelling, tools))
        similar = difflib.get_close_matches(wanted.casefold(), spellings, n=_SUGGESTIONS, cutoff=0.5)
        close = dict.fromkeys(spelling for name in similar for spelling in spellings[name])
        suggestions = tuple(islice(close, _SUGGESTIONS))
        return ToolNotFound(
            f"There is no tool {wanted!r} in the Tools input, which has {counted(len(self.tools), 'tool')}"
            + (f" and {counted(len(self.unreadable), 'row')} that cannot be read" if self.unreadable else ""),
            suggestions=suggestions,
            fix=f"Did you mean {_listed(suggestions)}?"
            if suggestions
            else f"Choose {_listed(islice(self._by_name, _SHOWN))}",
        )


def _qualified_names(tools: Sequence[Tool]) -> list[list[str]]:  # @ToolTypeDispatch
    """The names of each tool with its server, as ``name @ server``; those of the shown name come first."""
    servers = [tool.route.url if isinstance(tool, MCPTool) else "" for tool in tools]
    labels = dict(zip(servers, server_labels(servers), strict=True))
    qualified: list[list[str]] = []
    for tool, server in zip(tools, servers, strict=True):
        match tool:
            case MCPTool():
                names = dict.fromkeys((tool.name, tool.tool_name))
                places = (labels[server], server)
                spellings = [qualified_name(name, place) for name in names for place in places]
                spellings += [qualified_name(name, server, tool.route.credential) for name in names]
                qualified.append(spellings)
            case WorkflowTool():
                qualified.append([f"{tool.name} @ workflow"])
            case _:
                assert_never(tool)
    return qualified


def _index(named: Iterable[tuple[str, Tool]]) -> dict[str, list[Tool]]:
    index: dict[str, list[Tool]] = {}
    for name, tool in named:
        tools = index.setdefault(name, [])
        if tool not in tools:  # the same tool in two rows is one tool
            tools.append(tool)
    return index


def _listed(names: Iterable[str]) -> str:
    return " or ".join(repr(name) for name in names)
