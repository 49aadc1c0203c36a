"""Runs a model's tool calls: checks, executes and records them, and makes replies. Implements `Toolbox`."""

from __future__ import annotations

import itertools
import threading
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, assert_never, cast

from ...audit.record import CallStatus
from ...runs.one_call import Call
from ...types.errors import ArgumentsInvalid, Canceled, MCPError
from ...types.tool import MCPTool, WorkflowTool
from .approval import ApprovalPolicy
from .built_ins import BuiltIns
from .calls_under_way import CallsUnderWay
from .data_registry import DataRegistry
from .large_results import LargeResults
from .replies import ReplyMaker, origin_of
from .tool_errors import failure_text, unknown_tool, unreadable_arguments
from .tool_threads import nobody_waits
from .toolbox import ToolReply, ToolRequest
from .workflow_calls import workflow_arguments

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from ...audit.record import CallRecord
    from ...runs.one_call import CallOutcome, Dispatcher
    from ...types.tool import Tool
    from .toolset import BoundTool, Toolset

_POLL_SECONDS: Final = 0.2  # between two checks whether the run was canceled


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolOptions:
    """The options for offering and running tools.

    Attributes:
        stop_on_error: Whether the run ends when a tool, its server or its workflow fails. Errors that a model
            can correct do not count: invalid arguments, an unknown name, a call that is not allowed.
        approval: The rules for allowed calls.
        longest_result: The most characters of one result in a message to the model. In the agent's loop a
            built-in tool reads on.
        search_above: Estimated tokens of all functions above which the model has to search for tools; None
            always binds all tools.
    """

    stop_on_error: bool = False
    approval: ApprovalPolicy = field(default_factory=ApprovalPolicy)
    longest_result: int = 20_000
    search_above: int | None = None


class ToolExecutor:
    """Runs the tools of one run. Safe to use from several threads.

    Workflows run one at a time, MCP tools in parallel.

    Args:
        toolset: The tools.
        dispatcher: The sessions, secrets and workflow runner that the calls of the run share.
        on_record: Called with the record of each finished call, in any thread; returns the record as kept.
        under_way: Holds the calls while they run; the run waits for them at its end.
        registry: The data of the run. Without one, data are kept only if some tool takes or gives tables.
        options: The options for offering and running tools.
        earlier: The servers that wrote the tool results in the history, "" for an unknown server.

    Attributes:
        registry: The data of the run.
        notes: Remarks for the user, such as tools that changed since they were chosen.
    """

    def __init__(
        self,
        toolset: Toolset,
        dispatcher: Dispatcher,
        *,
        on_record: Callable[[CallRecord], CallRecord] = lambda record: record,
        under_way: CallsUnderWay | None = None,
        registry: DataRegistry | None = None,
        options: ToolOptions | None = None,
        earlier: Iterable[str] = (),
    ) -> None:
        options = options or ToolOptions()
        self.registry = DataRegistry() if registry is None else registry
        self.notes: dict[str, None] = {}
        self._toolset = toolset
        self._dispatcher = dispatcher
        self._on_record = on_record
        self._under_way = under_way or CallsUnderWay()
        self._options = options
        large = LargeResults(options.longest_result, toolset.free_name("read_result"))
        keeps_data = registry is not None or toolset.has_data
        self._replies = ReplyMaker(
            registry=self.registry if keeps_data else None, large=large, notes=self.notes
        )
        self._built_ins = BuiltIns(toolset, large, search_above=options.search_above)
        self._workflow_lock = threading.Lock()
        self._outer_calls = itertools.count(1)  # each call from outside the agent's loop counts as a turn
        trusted = all(options.approval.trusts(server) for server in earlier)
        self._untrusted_since = None if trusted else 0  # turn of the first answer of an untrusted server

    def definitions(self) -> Sequence[Mapping[str, Any]]:
        """The functions to bind to the model in the next turn."""
        return self._built_ins.definitions()

    def shown_name(self, name: str) -> str:
        """The name that people see for a bound name; an unknown name is returned unchanged."""
        return self._toolset.shown_name(name)

    def run(self, request: ToolRequest, *, is_canceled: Callable[[], bool]) -> ToolReply:
        """Runs one call, see `Toolbox.run`."""
        built_in = self._built_ins.run(request)
        if built_in is not None:
            return built_in
        bound = self._toolset.find(request.name)
        if bound is None or request.arguments is None or request.error is not None:
            return self._refused(request, bound)
        return self._execute(bound, request, is_canceled)

    # The source document's names; for agents of others, whose calls come through LangChain's tools.
    def _execute_mcp_tool(self, mcp_tool: MCPTool, params: Mapping[str, Any], /) -> ToolReply:
        return self._execute_for_others(mcp_tool, params)

    def _execute_workflow_tool(self, workflow_tool: WorkflowTool, params: Mapping[str, Any], /) -> ToolReply:
        return self._execute_for_others(workflow_tool, params)

    def _execute_for_others(self, tool: Tool, params: Mapping[str, Any]) -> ToolReply:
        bound = self._toolset.of(tool)
        request = ToolRequest(id="", name=bound.name, arguments=params, iteration=next(self._outer_calls))
        return self._execute(bound, request, nobody_waits(), reads_on=False)

    def _execute(  # @ToolTypeDispatch
        self,
        bound: BoundTool,
        request: ToolRequest,
        is_canceled: Callable[[], bool],
        *,
        reads_on: bool = True,
    ) -> ToolReply:
        """Runs one call of a real tool.

        Args:
            bound: The tool.
            request: The request; its arguments could be read. For a workflow they are ``configuration``, and
                ``data_inputs`` from the registry.
            is_canceled: Returns whether the call should end.
            reads_on: Whether the model has the tool that reads on in long results, as in the agent's loop.

        Raises:
            Canceled: The run was canceled.
        """
        denied = self._denial(bound, request.iteration)
        call = Call(
            tool=bound.tool,
            arguments=request.arguments,
            iteration=request.iteration,
            error=denied,
            denied=denied is not None,
        )
        match bound.tool:
            case MCPTool():
                outcome = self._record(call, is_canceled)
            case WorkflowTool():
                outcome = self._record_workflow(bound.tool, bound.name, call, is_canceled)
                # LangGraph saves replies in its checkpoints, which cannot hold a value of KNIME's.
                bound = replace(bound, tool=replace(bound.tool, native=None))
            case _:
                assert_never(bound.tool)
        return self._reply(bound, request, outcome, reads_on=reads_on)

    def _record_workflow(
        self, tool: WorkflowTool, name: str, call: Call, is_canceled: Callable[[], bool]
    ) -> CallOutcome:
        """Runs a workflow in the host, one at a time."""
        given = cast("Mapping[str, Any]", call.arguments)
        call = replace(call, arguments=self._toolset.marked(name, given, self._dispatcher.secrets))
        if not call.denied:
            try:
                arguments, data = workflow_arguments(tool, given, self.registry)
                call = replace(call, arguments=arguments, data=data)
            except ArgumentsInvalid as invalid:
                call = replace(call, error=invalid)
        while not self._workflow_lock.acquire(timeout=_POLL_SECONDS):
            if is_canceled():
                canceled = Canceled("The run was canceled before the workflow began")
                return self._record(replace(call, error=canceled), is_canceled)
        try:
            return self._record(call, is_canceled)
        finally:
            self._workflow_lock.release()

    def _denial(self, bound: BoundTool, iteration: int) -> MCPError | None:
        since = self._untrusted_since
        rule = self._options.approval.denial(
            bound.tool, bound.shown_name, after_untrusted=since is not None and iteration > since
        )
        if rule is None:
            return None
        return MCPError(
            f"Calls of this tool are not allowed here (rule: {rule})",
            fix="Go on without it, and say in your answer what could not be done",
        )

    def _refused(self, request: ToolRequest, bound: BoundTool | None) -> ToolReply:
        """Answers a request with an unknown tool name or unreadable arguments."""
        if bound is None:
            names = [other.name for other in self._toolset.bound]
            similar = self._toolset.similar(request.name)
            error: MCPError = unknown_tool(request.name, similar, names, self._built_ins.finder)
        else:
            # Secrets cannot be marked in arguments that cannot be read.
            written = "" if self._toolset.has_secrets(bound.name) else request.written
            error = unreadable_arguments(request.error, written)
        call = Call(
            tool=None if bound is None else bound.tool,
            arguments=self._toolset.marked(request.name, request.arguments, self._dispatcher.secrets),
            name=request.name,
            iteration=request.iteration,
            error=error,
        )
        return self._reply(bound, request, self._record(call, lambda: False), reads_on=True)

    def _record(self, call: Call, is_canceled: Callable[[], bool]) -> CallOutcome:
        """Makes and records one call: the only place that knows the engine behind it."""
        run_is_canceled = self._dispatcher.is_canceled

        def either_is_canceled() -> bool:
            return is_canceled() or (run_is_canceled is not None and run_is_canceled())

        dispatcher = replace(self._dispatcher, is_canceled=either_is_canceled)
        return self._under_way.run(call, dispatcher, self._on_record)

    def _reply(
        self, bound: BoundTool | None, request: ToolRequest, outcome: CallOutcome, *, reads_on: bool
    ) -> ToolReply:
        record = outcome.record
        if record.status is CallStatus.CANCELED:
            raise outcome.error if isinstance(outcome.error, Canceled) else Canceled("The run was canceled")
        if outcome.note is not None:
            self.notes[outcome.note] = None
        failed = record.status is not CallStatus.OK
        content: str | list[dict[str, Any]]
        if bound is not None and outcome.answer is not None and not failed:
            content = self._replies.content(bound, outcome.answer, reads_on=reads_on)
        else:
            text = failure_text(outcome, bound)
            called = None if record.started_at is None else bound
            content = self._replies.failure(called, text, outcome.answer, reads_on=reads_on)
        origin = "" if bound is None or outcome.answer is None else origin_of(bound.tool)
        if origin and self._untrusted_since is None and not self._options.approval.trusts(origin):
            self._untrusted_since = request.iteration
        return ToolReply(
            request=request,
            content=content,
            record=record,
            tool=None if bound is None else bound.tool,
            origin=origin,
            failed=failed,
            stop=self._options.stop_on_error and _has_failed(record),
        )


def _has_failed(record: CallRecord) -> bool:
    """Returns whether a tool failed, or its server does not have it any more."""
    gone = record.status is CallStatus.NOT_FOUND and record.tool is not None
    return gone or record.status in {CallStatus.TOOL_ERROR, CallStatus.FAILED}
