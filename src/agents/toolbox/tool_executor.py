"""Runs a model's tool calls: checks, executes and records them, and makes replies. Implements `Toolbox`."""

from __future__ import annotations

import itertools
import threading
from collections import Counter
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, Final, assert_never, cast

from ...audit.record import CallStatus
from ...client.clock import POLL_SECONDS
from ...client.protocol.tools import ResourceLink
from ...runs.call_values import Allow, DataInput, Deny, PlannedCall
from ...types.errors import ArgumentsInvalid, CallDenied, Canceled, MCPError, ProtocolError
from ...types.texts import compact_json, pointer_text
from ...types.tool import MCPTool, WorkflowTool
from .built_ins import (
    BuiltIns,
    planned_reading,
    reader_definition,
    reads_resources,
    remember,
)
from .call_rules import VERDICTS, CallLimits, CallRules
from .data_registry import DataRegistry
from .replies import (
    AGENT_ORIGIN,
    WORKFLOW_ORIGIN,
    LargeResults,
    ReplyMaker,
    ToolReply,
    ToolRequest,
    failure_text,
    origin_of,
    unknown_tool,
    unreadable_arguments,
)
from .tool_threads import nobody_waits
from .toolset import CONFIGURATION, DATA_INPUTS, arguments_schema, port_names

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from ...runs.call_values import CallOutcome, ToolAnswer, Verdict
    from ...runs.checked_calls import ArgumentValidator
    from ...runs.engine import Run
    from ...types.tool import Tool
    from .built_ins import Links
    from .toolset import BoundTool, Toolset


_ENOUGH: Final = "Give the best answer that you can from what you know by now, and say what is missing"
TOOL_TOKENS: Final = 20_000
"""So many tokens of definitions a model reads well; above, it searches for tools (see `ToolOptions`)."""
_MOST_IN_TURN: Final = 128  # more are a model that goes round in circles
_SAME_FAILURES: Final = 3
_PARTS: Final = {CONFIGURATION, DATA_INPUTS}


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolOptions:
    """How tools are offered and run.

    Attributes:
        rules: Which calls are allowed.
        longest_result: The most characters of one result in a message to the model. A built-in tool reads on.
        limits: How many calls are made.
        search_above: Estimated tokens of all functions above which the model has to search for tools; None
            always binds all tools.
    """

    rules: CallRules = field(default_factory=CallRules)
    longest_result: int = 20_000
    limits: CallLimits = field(default_factory=CallLimits)
    search_above: int | None = None


class ToolExecutor:
    """Runs the tools of one run. Safe to use from several threads.

    Workflows run one at a time, MCP tools in parallel. Rules and limits are hooks of the run. Without a
    registry, data are kept only if some tool takes or gives tables. ``earlier`` are the servers that wrote
    the tool results in the history, "" if that is not known, and ``first_result`` is the number of the first
    long result that is not in it. ``done`` gives the outcome of a call that an interrupted run has made,
    ``links`` are the resources to which results have linked before. `notes` are remarks for the user, such as
    tools that changed since they were chosen; `turn` is the model's last one.
    """

    def __init__(
        self,
        toolset: Toolset,
        run: Run,
        *,
        registry: DataRegistry | None = None,
        options: ToolOptions | None = None,
        earlier: Iterable[str] = (),
        first_result: int = 1,
        done: Callable[[PlannedCall, Run], CallOutcome | None] | None = None,
        links: Links | None = None,
    ) -> None:
        options = options or ToolOptions()
        self._done = done
        self.registry = DataRegistry() if registry is None else registry
        self.notes: dict[str, None] = dict.fromkeys(toolset.notes)
        self._toolset = toolset
        self._limits = _Limits(options.limits)
        # The same limits once more: what servers ask uses up none of the model's calls.
        self.question_hooks = (*run.hooks, _Limits(options.limits))
        rules = (_Rules(self),) if options.rules.rules else ()
        self.run_of_calls = replace(run, hooks=(*run.hooks, self._limits, *rules))
        self.turn: int | None = None
        self._options = options
        large = LargeResults(options.longest_result, toolset.free_name("read_result"), first=first_result)
        keeps_data = registry is not None or toolset.has_data
        self._large = large
        self._replies = ReplyMaker(
            registry=self.registry if keeps_data else None,
            large=large,
            takes_data=toolset.takes_data,
            notes=self.notes,
        )
        self._built_ins = BuiltIns(toolset, large, search_above=options.search_above)
        self._links: Links = {} if links is None else links
        self._reader = toolset.free_name("read_resource")
        self._workflow_lock = threading.Lock()
        self._outer_calls = itertools.count(1)  # each call from outside the agent's loop counts as a turn
        self._others_read_on = False
        trusted = all(map(self._trusts, earlier))
        self._untrusted_since = None if trusted else 0  # turn of the first answer of an untrusted server

    def definitions(self) -> Sequence[Mapping[str, Any]]:
        if not self._links:
            return self._built_ins.definitions()
        return [*self._built_ins.definitions(), reader_definition(self._reader)]

    def shown_name(self, name: str) -> str:
        return self._toolset.shown_name(name)

    def make_room(self, context: int | None) -> bool:
        searches = self._built_ins.search_within(context)
        return self._large.shorten(context) or searches

    def offer_at_most(self, count: int) -> bool:
        return self._built_ins.search_among(count - bool(self._links))

    def shortened(self, text: str, origin: str) -> str:
        return self._large.cut(text, origin=origin)

    def run(self, request: ToolRequest, *, is_canceled: Callable[[], bool]) -> ToolReply:
        """Runs one call, see `Toolbox.run`."""
        self.turn = request.iteration
        bound = self._toolset.by_name.get(request.name)
        # A built-in tool has no name of a real one; the finder also wants to know which tools are used.
        if bound is None or self._built_ins.finder is not None:
            built_in = self._built_ins.run(request)
            if built_in is not None:
                return built_in
        if request.name == self._reader and self._links:
            return self._read_resource(request, is_canceled)
        if bound is None or request.arguments is None or request.error is not None:
            return self._refused(request, bound)
        return self._execute(bound, request, is_canceled)

    def _read_resource(self, request: ToolRequest, is_canceled: Callable[[], bool]) -> ToolReply:
        try:
            if request.arguments is None or request.error is not None:
                raise unreadable_arguments(request.error, request.written)
            bound, call = planned_reading(self._links, request)
        except ArgumentsInvalid as error:
            return ToolReply(request=request, content=f"Error: {error.sentence}", failed=True)
        outcome = self._made(call, is_canceled, reads_resources(self.run_of_calls))
        return self._reply(bound, request, outcome, reads_on=True)

    # The source document's names; for agents of others, whose calls come through LangChain's tools.
    def _execute_mcp_tool(self, mcp_tool: MCPTool, params: Mapping[str, Any], /) -> ToolReply:
        return self._execute_for_others(mcp_tool, params)

    def _execute_workflow_tool(self, workflow_tool: WorkflowTool, params: Mapping[str, Any], /) -> ToolReply:
        return self._execute_for_others(workflow_tool, params)

    def _execute_for_others(self, tool: Tool, params: Mapping[str, Any]) -> ToolReply:
        bound = self._toolset.of(tool)
        request = self._outer_request(bound.name, params)
        return self._execute(bound, request, nobody_waits(), reads_on=self._others_read_on)

    def _outer_request(self, name: str, params: Mapping[str, Any]) -> ToolRequest:
        return ToolRequest(id="", name=name, arguments=params, iteration=next(self._outer_calls))

    def reader_for_others(self) -> Mapping[str, Any]:
        """The function of `read_on`, which agents of others have from now on."""
        self._others_read_on = True
        return self._built_ins.reader

    def read_on(self, params: Mapping[str, Any]) -> ToolReply:
        """Reads on in a result that was cut, for agents of others."""
        name = self._built_ins.reader["function"]["name"]
        return self._built_ins.read_on(self._outer_request(name, params))

    def _execute(  # @ToolTypeDispatch
        self,
        bound: BoundTool,
        request: ToolRequest,
        is_canceled: Callable[[], bool],
        *,
        reads_on: bool = True,
    ) -> ToolReply:
        """Runs one call of a real tool, whose arguments could be read. Raises `Canceled`.

        A workflow's arguments are ``configuration``, and ``data_inputs`` from the registry. `reads_on` says
        whether the model has the tool that reads on in long results, as in the agent's loop.
        """
        call = PlannedCall(tool=bound.tool, arguments=request.arguments, iteration=request.iteration)
        match bound.tool:
            case MCPTool():
                outcome = self._made(call, is_canceled)
            case WorkflowTool():
                outcome = self._workflow_call(bound.tool, bound.name, call, is_canceled)
                # LangGraph saves replies in its checkpoints, which cannot hold a value of KNIME's.
                bound = replace(bound, tool=replace(bound.tool, native=None))
            case _:
                assert_never(bound.tool)
        return self._reply(bound, request, outcome, reads_on=reads_on)

    def _workflow_call(
        self, tool: WorkflowTool, name: str, call: PlannedCall, is_canceled: Callable[[], bool]
    ) -> CallOutcome:
        given = cast("Mapping[str, Any]", call.arguments)
        schemas = self._toolset.schemas_for(name)  # of the arguments in the model's form
        # Decided in the model's form, which rules and people know; what is made of it is another form.
        call = self.run_of_calls.decided(replace(call, schemas=schemas))
        if not call.denied:
            try:
                arguments, data = workflow_arguments(tool, given, self.registry)
                call = replace(call, arguments=arguments, data=data, schemas=())
            except ArgumentsInvalid as invalid:
                call = replace(call, error=invalid)
        # Workflows run one after the other, in the one thread of KNIME's node;
        # waiting in slices sees a cancel.
        while not self._workflow_lock.acquire(timeout=POLL_SECONDS):
            if is_canceled():
                canceled = Canceled("The run was canceled before the workflow began")
                return self.run_of_calls.call(replace(call, error=canceled))
        try:
            return self._made(call, is_canceled)
        finally:
            self._workflow_lock.release()

    def _trusts(self, origin: str) -> bool:
        return origin in (WORKFLOW_ORIGIN, AGENT_ORIGIN) or self._options.rules.trusts(origin)

    def _made(
        self, call: PlannedCall, is_canceled: Callable[[], bool], run: Run | None = None
    ) -> CallOutcome:
        run = run or self.run_of_calls
        done = None if self._done is None else self._done(call, run)
        return run.call(call, is_canceled=is_canceled) if done is None else done

    def verdict(self, plan: PlannedCall) -> Verdict:
        """What the rules say of a call."""
        assert plan.tool is not None
        rule = self._options.rules.deciding(
            plan.tool,
            self._toolset.of(plan.tool).shown_name,
            after_untrusted=self._is_after_untrusted(plan),
            arguments=plan.arguments,
        )
        return Allow() if rule is None else VERDICTS[rule.verb](rule)

    def objection(self, plan: PlannedCall) -> Verdict | None:
        """What the rules have against a server's question. None can allow it: that is up to a person."""
        assert plan.tool is not None
        rule = self._options.rules.deciding(
            plan.tool,
            after_untrusted=self._is_after_untrusted(plan),
            arguments=plan.arguments,
            has_hints=False,
        )
        verdict = None if rule is None else VERDICTS[rule.verb](rule)
        return verdict if isinstance(verdict, Deny) else None

    def _is_after_untrusted(self, plan: PlannedCall) -> bool:
        since = self._untrusted_since
        return since is not None and (plan.iteration or 0) > since

    def _refused(self, request: ToolRequest, bound: BoundTool | None) -> ToolReply:
        """Answers a request with an unknown tool name or unreadable arguments."""
        if bound is None:
            names = [other.name for other in self._toolset.bound]
            similar = self._toolset.similar(request.name)
            error: MCPError = unknown_tool(request.name, similar, names, self._built_ins.finder)
        else:
            # Secrets cannot be marked in arguments that cannot be read.
            written, secrets = request.written, self.run_of_calls.secrets
            if self._toolset.has_secrets(bound.name, written, secrets):
                written = ""
            error = unreadable_arguments(request.error, written)
        call = PlannedCall(
            tool=None if bound is None else bound.tool,
            arguments=request.arguments,
            schemas=self._toolset.schemas_for(request.name),
            name=request.name,
            iteration=request.iteration,
            error=error,
        )
        return self._reply(bound, request, self.run_of_calls.call(call), reads_on=True)

    def _take_links(self, tool: MCPTool, answer: ToolAnswer) -> None:
        if any(isinstance(block, ResourceLink) for block in answer.blocks):
            remember(self._links, tool, answer.blocks)

    def _reply(
        self,
        bound: BoundTool | None,
        request: ToolRequest,
        outcome: CallOutcome,
        *,
        reads_on: bool,
    ) -> ToolReply:
        record = outcome.record
        if record.status is CallStatus.CANCELED:
            raise outcome.error if isinstance(outcome.error, Canceled) else Canceled("The run was canceled")
        if outcome.note is not None:
            self.notes[outcome.note] = None
        if outcome.coercions and bound is not None:
            self.notes[f"Arguments of '{bound.shown_name}' were converted: {outcome.coercions[0]}"] = None
        failed = record.status is not CallStatus.OK
        content: str | list[dict[str, Any]]
        if bound is not None and outcome.answer is not None and not failed:
            if isinstance(bound.tool, MCPTool):
                self._take_links(bound.tool, outcome.answer)
            content = self._replies.content(bound, outcome.answer, reads_on=reads_on)
        else:
            text = failure_text(outcome, bound)
            called = None if record.started_at is None else bound
            content = self._replies.failure(called, text, outcome.answer, reads_on=reads_on)
        # A server writes errors, too: those of the protocol, and the pages of a server that is no MCP server.
        is_ours = bound is None or record.started_at is None or _is_our_refusal(outcome)
        origin = AGENT_ORIGIN if is_ours or bound is None else origin_of(bound.tool)
        if self._untrusted_since is None and not self._trusts(origin):
            # By the turn and not the call: calls of one turn were asked for before the model read any of
            # their answers.
            self._untrusted_since = request.iteration
        return ToolReply(
            request=request,
            content=content,
            record=record,
            tool=None if bound is None else bound.tool,
            origin=origin,
            label="" if is_ours else self._toolset.labels.get(origin, ""),
            failed=failed,
        )


class _Limits:
    """Counts the calls of one run, and stops those beyond its limits, as a hook. Thread-safe."""

    def __init__(self, limits: CallLimits) -> None:
        self._limits = limits
        self._lock = threading.Lock()
        self._count = 0
        self._of_turn: Counter[int] = Counter()
        self._of_tool: Counter[str] = Counter()
        self._failures: Counter[str] = Counter()

    def before(self, plan: PlannedCall) -> Verdict:
        name, turn, limits = _name(plan), plan.iteration or 0, self._limits
        with self._lock:
            if self._failures_of(plan) >= _SAME_FAILURES:
                return _deny(
                    f"This call has failed {_SAME_FAILURES} times in the same way, so it is not made again",
                    "Change the arguments, take another tool, or answer without it",
                    "the loop guard",
                )
            if plan.decision is not None:  # counted before somebody edited it
                return Allow()
            if self._of_turn[turn] >= _MOST_IN_TURN:
                return _deny(
                    f"No more than {_MOST_IN_TURN} calls are made in one turn",
                    "Look at the results of the others first, and ask for fewer calls",
                    "the limit of calls per turn",
                )
            if limits.calls is not None and self._count >= limits.calls:
                return _deny(
                    f"All {limits.calls} calls of this run are used up", _ENOUGH, "the limit of calls"
                )
            for pattern, most in limits.per_tool:
                if fnmatchcase(name.casefold(), pattern.casefold()) and self._of_tool[name] >= most:
                    fix = f"Go on without this tool. {_ENOUGH}"
                    return _deny(f"All {most} calls of this tool are used up", fix, "the limit of this tool")
            self._count += 1
            self._of_turn[turn] += 1
            self._of_tool[name] += 1
        return Allow()

    def after(self, plan: PlannedCall, outcome: CallOutcome) -> None:
        with self._lock:
            if not outcome.record.ok and not plan.denied:  # only what was tried has failed
                self._failures[_key(plan)] += 1
            elif outcome.record.ok and self._failures:
                self._failures.pop(_key(plan), None)

    def _failures_of(self, plan: PlannedCall) -> int:
        # A key costs as much as the rest of a hook, and most runs have no failures.
        return self._failures[_key(plan)] if self._failures else 0


def _name(plan: PlannedCall) -> str:
    return plan.name or "" if plan.tool is None else plan.tool.name


def _key(plan: PlannedCall) -> str:
    arguments: Any = None if plan.arguments is None else dict(plan.arguments)
    if plan.data:  # as the model wrote them, see `_execute`
        arguments = {CONFIGURATION: arguments, DATA_INPUTS: {data.port: data.id for data in plan.data}}
    elif isinstance(plan.tool, WorkflowTool) and arguments and not arguments.keys() - _PARTS:
        arguments = arguments.get(CONFIGURATION, {}) if not arguments.get(DATA_INPUTS) else arguments
    try:
        return f"{_name(plan)} {compact_json(arguments)}"
    except (ValueError, TypeError, RecursionError):
        return f"{_name(plan)} {arguments!r}"


def _deny(what: str, fix: str, by: str) -> Deny:
    return Deny(CallDenied(what, fix=fix), by)


class _Rules:
    """The rules as a hook. They depend on what the executor knows of the conversation."""

    def __init__(self, executor: ToolExecutor) -> None:
        self.before = executor.verdict

    def after(self, plan: PlannedCall, outcome: CallOutcome) -> None:  # noqa: ARG002
        return None


def _is_our_refusal(outcome: CallOutcome) -> bool:
    """Whether the arguments were refused before anything was sent."""
    return isinstance(outcome.error, ArgumentsInvalid) and not outcome.record.attempts


def workflow_arguments(
    tool: WorkflowTool, arguments: Mapping[str, Any], registry: DataRegistry
) -> tuple[dict[str, Any], tuple[DataInput, ...]]:
    """Reads a model's arguments: the parameters, and a table per input in the order of the ports.

    Raises `ArgumentsInvalid` if one is missing, unknown or of the wrong type, or an id is unknown.
    """
    checked = _checked_arguments(tool, _with_text_ids(arguments))
    ids_by_port: dict[str, str] = checked.get(DATA_INPUTS, {})
    data: list[DataInput] = []
    for name in port_names(tool.input_ports):
        table = registry.table(ids_by_port[name], pointer=pointer_text((DATA_INPUTS, name)))
        data.append(DataInput(port=name, id=ids_by_port[name], table=table))
    return dict(checked.get(CONFIGURATION, {})), tuple(data)


def _checked_arguments(tool: WorkflowTool, arguments: dict[str, Any]) -> dict[str, Any]:
    schema = arguments_schema(tool)
    validator = _validator(schema)
    if validator is None:
        # KNIME's description of a parameter is no JSON Schema: only the outer structure is checked.
        loose = dict.fromkeys(tool.parameter_schema, cast("dict[str, Any]", {}))
        parts = schema["properties"]
        outer = {
            **schema,
            "properties": {**parts, CONFIGURATION: {**parts[CONFIGURATION], "properties": loose}},
        }
        validator = _validator(outer)
    return arguments if validator is None else validator.check(arguments)[0]


def _validator(schema: dict[str, Any]) -> ArgumentValidator | None:
    from ...runs.checked_calls import ArgumentValidator

    try:
        validator = ArgumentValidator.for_schema(compact_json(schema))
    except ProtocolError:
        return None
    return None if validator.fault is not None else validator


def _with_text_ids(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Turns ids that a model wrote as numbers into texts."""
    ids_by_port = arguments.get(DATA_INPUTS)
    if not isinstance(ids_by_port, dict):
        return dict(arguments)
    ids = {
        name: str(value) if isinstance(value, int) and not isinstance(value, bool) else value
        for name, value in cast("dict[str, Any]", ids_by_port).items()
    }
    return {**arguments, DATA_INPUTS: ids}
