"""Runs a model's tool calls: checks, executes and records them, and makes replies. Implements `Toolbox`."""

from __future__ import annotations

import itertools
import threading
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, cast

from ...audit.call import Call
from ...audit.record import CallStatus
from ...types.errors import ArgumentsInvalid, Canceled, MCPError
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

    from langchain_core.tools import StructuredTool

    from ...audit.call import CallOutcome, DataInput, Dispatcher
    from ...audit.record import CallRecord
    from ...types.tool import MCPTool, Tool, WorkflowTool
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


@dataclass(frozen=True, slots=True, kw_only=True)
class _Running:
    """A call on its way through LangChain's tool.

    Attributes:
        executor: The executor of the tool.
        request: The model's request.
        is_canceled: Returns whether the call should end.
        reads_on: Whether the model has the tool that reads on in long results, as in the agent's loop.
    """

    executor: ToolExecutor
    request: ToolRequest
    is_canceled: Callable[[], bool]
    reads_on: bool = True


_running: ContextVar[_Running | None] = ContextVar("running", default=None)


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
        self._structured: dict[str, StructuredTool] = {}

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
        call = {"type": "tool_call", "id": request.id, "name": request.name, "args": dict(request.arguments)}
        before = _running.set(_Running(executor=self, request=request, is_canceled=is_canceled))
        try:
            return cast("ToolReply", self.langchain_tool(request.name).invoke(call).artifact)
        finally:
            _running.reset(before)

    def langchain_tool(self, name: str) -> StructuredTool:
        """Returns a tool in LangChain's form, which runs through this executor.

        Raises:
            KeyError: No tool has this bound name.
        """
        tool = self._structured.get(name)
        if tool is None:
            from .._tool import LangchainToolConverter

            bound = self._toolset.find(name)
            if bound is None:
                raise KeyError(name)
            tool = LangchainToolConverter(self).to_langchain_tool(bound.tool, name)
            self._structured[name] = tool
        return tool

    def _execute_mcp_tool(self, mcp_tool: MCPTool, params: Mapping[str, Any], /) -> ToolReply:
        """Runs a tool on an MCP server through the run's sessions.

        Raises:
            Canceled: The run was canceled.
        """
        bound, running = self._running_call(mcp_tool, params)
        denied = self._denial(bound, running.request.iteration)
        call = Call(
            tool=mcp_tool,
            arguments=params,
            iteration=running.request.iteration,
            error=denied,
            denied=denied is not None,
        )
        return self._reply(bound, running, self._record(call, running))

    def _execute_workflow_tool(self, workflow_tool: WorkflowTool, params: Mapping[str, Any], /) -> ToolReply:
        """Runs a workflow in the host; `params` are ``configuration``, and ``data_inputs`` from the registry.

        Raises:
            Canceled: The run was canceled.
        """
        bound, running = self._running_call(workflow_tool, params)
        # LangGraph saves replies in its checkpoints, which cannot hold a value of KNIME's.
        bound = replace(bound, tool=replace(workflow_tool, native=None))
        error: MCPError | None = self._denial(bound, running.request.iteration)
        denied, data = error is not None, cast("tuple[DataInput, ...]", ())
        arguments = self._toolset.marked(bound.name, params, self._dispatcher.secrets)
        if error is None:
            try:
                arguments, data = workflow_arguments(workflow_tool, params, self.registry)
            except ArgumentsInvalid as invalid:
                error = invalid
        call = Call(
            tool=workflow_tool,
            arguments=arguments,
            iteration=running.request.iteration,
            error=error,
            denied=denied,
            data=data,
        )
        while not self._workflow_lock.acquire(timeout=_POLL_SECONDS):
            if running.is_canceled():
                break
        else:
            try:
                return self._reply(bound, running, self._record(call, running))
            finally:
                self._workflow_lock.release()
        canceled = Canceled("The run was canceled before the workflow began")
        return self._reply(bound, running, self._record(replace(call, error=canceled), running))

    def _running_call(self, tool: Tool, params: Mapping[str, Any]) -> tuple[BoundTool, _Running]:
        bound, running = self._toolset.of(tool), _running.get()
        if running is None or running.executor is not self:  # the call comes from outside the agent's loop
            request = ToolRequest(id="", name=bound.name, arguments=params, iteration=next(self._outer_calls))
            running = _Running(executor=self, request=request, is_canceled=nobody_waits(), reads_on=False)
        return bound, running

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
        running = _Running(executor=self, request=request, is_canceled=lambda: False)
        return self._reply(bound, running, self._record(call, running))

    def _record(self, call: Call, running: _Running) -> CallOutcome:
        before = self._dispatcher.is_canceled

        def is_canceled() -> bool:
            return running.is_canceled() or (before is not None and before())

        return self._under_way.run(call, replace(self._dispatcher, is_canceled=is_canceled), self._on_record)

    def _reply(self, bound: BoundTool | None, running: _Running, outcome: CallOutcome) -> ToolReply:
        record = outcome.record
        if record.status is CallStatus.CANCELED:
            raise outcome.error if isinstance(outcome.error, Canceled) else Canceled("The run was canceled")
        if outcome.note is not None:
            self.notes[outcome.note] = None
        failed = record.status is not CallStatus.OK
        content: str | list[dict[str, Any]]
        if bound is not None and outcome.answer is not None and not failed:
            content = self._replies.content(bound, outcome.answer, reads_on=running.reads_on)
        else:
            text = failure_text(outcome, bound)
            called = None if record.started_at is None else bound
            content = self._replies.failure(called, text, outcome.answer, reads_on=running.reads_on)
        origin = "" if bound is None or outcome.answer is None else origin_of(bound.tool)
        if origin and self._untrusted_since is None and not self._options.approval.trusts(origin):
            self._untrusted_since = running.request.iteration
        return ToolReply(
            request=running.request,
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
