"""Cases of graphs: arguments, recorded replies of servers, and what has to come out.

A case runs without any server: each call is answered by the recorded reply to the same tool with the same
arguments. Calls that nobody recorded, and replies that nobody asked for, are failures, because a graph that
asks its servers something else has changed, even if its result has not.
"""

from __future__ import annotations

import json
import threading
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any, Final, cast

from knime_mcp.audit.secrets import marks_in
from knime_mcp.client.protocol.tools import CallToolResult
from knime_mcp.types.errors import ArgumentsInvalid, AuthError, MCPError, ServerError, SettingInvalid
from knime_mcp.types.texts import beginning, canonical_json, why_no_json
from knime_mcp.yaml_text import MAPPING, Findings, Hints, Severity, Yaml

from .executor import GraphExecutor
from .expressions import Bounds, ExpressionError, evaluate
from .expressions.engine import DEFAULT_SECONDS
from .expressions.javascript import UNDEFINED, json_value
from .nodes import CallingNode
from .run_control import RunError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from knime_mcp.audit.secrets import SecretMarker
    from knime_mcp.yaml_text import Fields

    from .graph_model import GraphDocument
    from .nodes import Node
    from .run_state import NodeRecord
    from .server_calls import CallTool, ServerCall


_LONGEST: Final = 200
_MOST_DIFFERENCES: Final = 5
_ANY: Final = object()


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedServerCall:
    """A call of a tool on a server, and its reply.

    Attributes:
        arguments: The arguments; `_ANY` answers calls with any.
        result: The result as the server sent it, or None if there was none.
        error: Instead of a result: ``message``, and ``code`` of an error of JSON-RPC.
    """

    server: str
    tool: str
    arguments: Any = field(default=_ANY)
    result: dict[str, Any] | None = None
    error: dict[str, Any] | None = None

    def to_json(self) -> dict[str, Any]:
        return _members(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphCase:
    """A case. What it does not expect is not compared.

    Attributes:
        path: Ids of the tool's own nodes in the order in which they ran, without those of branches.
        result: The result of the tool.
        error: A text in the message of the error with which the run ends.
        asserts: JSONata that has to give true; it sees the outputs of the nodes, and ``$result``.
    """

    name: str
    tool: str
    arguments: dict[str, Any] = field(default_factory=dict[str, Any])
    calls: tuple[RecordedServerCall, ...] = ()
    path: tuple[str, ...] | None = None
    result: Any = field(default=_ANY)
    error: str | None = None
    asserts: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        calls = {"calls": [call.to_json() for call in self.calls]} if self.calls else {}
        return _members(self) | calls


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseOutcome:
    """What became of a case: its failures, and the nodes that ran, each as its tool and id."""

    case: GraphCase
    failures: tuple[str, ...]
    nodes: frozenset[tuple[str, str]]


def cases_file(document: Path) -> Path:
    """The file of a document's cases, beside it."""
    return document.with_suffix(".tests.json")


def read_cases(parsed: Any, file: str) -> tuple[GraphCase, ...]:
    """The cases in a file of JSON, read strictly: a misspelt expectation would hold for ever.

    Raises:
        SettingInvalid: Says what is wrong, and where.
    """
    findings = Findings(Yaml(data=parsed), hints=Hints(unknown=Severity.ERROR))
    fields = findings.fields(parsed, ())
    cases = [] if fields is None else [_read_case(case) for case in fields.mappings("cases")]
    names = [case.name for case in cases]
    if fields is not None and fields.end() and (twice := [name for name in names if names.count(name) > 1]):
        fields.misfit(f"two cases are called '{twice[0]}'", ("cases",))
    for problem in findings.problems:
        place = problem.position.key_path if problem.position else ""
        raise SettingInvalid(
            f"{file}{f', {place}' if place else ''}: {problem.message}", setting="cases", fix=problem.fix
        )
    return tuple(cases)


def _read_case(fields: Fields) -> GraphCase:
    case = GraphCase(
        name=fields.text("name"),
        tool=fields.text("tool"),
        arguments=fields.mapping("arguments", default={}),
        calls=tuple(_read_call(call) for call in fields.mappings("calls", default=[])),
        path=tuple(fields.texts("path", default=None)) if "path" in fields else None,
        result=fields.get("result", default=_ANY),
        error=fields.optional_text("error"),
        asserts=tuple(fields.texts("asserts", default=[])),
    )
    fields.end()
    return case


def _read_call(fields: Fields) -> RecordedServerCall:
    call = RecordedServerCall(
        server=fields.text("server"),
        tool=fields.text("tool"),
        arguments=fields.get("arguments", MAPPING, default=_ANY),
        result=fields.get("result", MAPPING, default=None),
        error=fields.get("error", MAPPING, default=None),
    )
    if fields.end() and (call.result is None) == (call.error is None):
        fields.misfit("a call needs either 'result' or 'error'", fields.path)
    return call


def cases_in(file: Path) -> tuple[GraphCase, ...]:
    """The cases of a file; none if there is no such file.

    Raises:
        SettingInvalid: It cannot be read.
    """
    if not file.exists():
        return ()
    try:
        parsed = json.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise SettingInvalid(f"{file} cannot be read: {error.strerror}", setting="cases") from None
    except (ValueError, RecursionError) as error:
        raise SettingInvalid(f"{file} cannot be read: {why_no_json(error)}", setting="cases") from None
    return read_cases(parsed, str(file))


def _members(value: GraphCase | RecordedServerCall) -> dict[str, Any]:
    found = {name.name: getattr(value, name.name) for name in fields(value)}
    return {
        name: list(cast("tuple[Any, ...]", part)) if isinstance(part, tuple) else part
        for name, part in found.items()
        if part is not _ANY and part is not None and part != ()
    }


class RecordingCalls:
    """Makes calls and keeps them with their replies. Safe to use from several threads."""

    def __init__(self, call: CallTool) -> None:
        self.calls: list[RecordedServerCall] = []
        self._call = call
        self._lock = threading.Lock()

    def __call__(self, call: ServerCall) -> CallToolResult:
        made = RecordedServerCall(server=call.server, tool=call.tool, arguments=call.arguments)
        with self._lock:  # in the order of asking, as the replay answers
            number = len(self.calls)
            self.calls.append(made)
        try:
            result = self._call(call)
        except MCPError as error:
            self.calls[number] = replace(made, error=_error_json(error))
            raise
        self.calls[number] = replace(made, result=result.raw)
        return result


def _error_json(error: MCPError) -> dict[str, Any]:
    members: dict[str, Any] = {"message": error.what, "fix": error.fix}
    if isinstance(error, ServerError):
        members["code"] = error.code
    elif isinstance(error, ArgumentsInvalid | AuthError):
        members["kind"] = "arguments"
    return {name: value for name, value in members.items() if value is not None}


class ReplayedCalls:
    """Answers calls with recorded replies, each once, in their order. Safe to use from several threads."""

    def __init__(self, calls: Sequence[RecordedServerCall]) -> None:
        self.unknown: list[str] = []
        self._left = list(calls)
        self._all = tuple(calls)
        self._lock = threading.Lock()

    def __call__(self, call: ServerCall) -> CallToolResult:
        with self._lock:
            found = next((recorded for recorded in self._left if _answers(recorded, call)), None)
            if found is None:
                message = self._not_recorded(call)
                self.unknown.append(message)
                # Arguments: so that the node's retries do not ask again.
                raise ArgumentsInvalid(message)
            # By identity, as equal calls may be recorded several times.
            self._left = [recorded for recorded in self._left if recorded is not found]
        if found.result is not None:
            # Cases are written by hand and by other programs, which have null for nothing.
            null_is_absent = found.result.get("structuredContent", 0) is None
            return CallToolResult.from_raw(found.result, null_is_absent=null_is_absent)
        said = found.error or {}
        what, fix = str(said.get("message", "The call failed")), said.get("fix")
        if isinstance(code := said.get("code"), int):
            raise ServerError(what, code=code, fix=fix)
        raise ArgumentsInvalid(what, fix=fix) if said.get("kind") == "arguments" else MCPError(what, fix=fix)

    def _not_recorded(self, call: ServerCall) -> str:
        asked = f"no reply is recorded for '{call.tool}' on '{call.server}' with {_shown(call.arguments)}"
        same = [recorded for recorded in self._all if _is_of_same_tool(recorded, call)]
        if any(_answers(recorded, call) for recorded in same):
            return f"{asked} once more: it was asked more often than when it was recorded"
        if not same:
            return asked
        others = " and one with ".join(_shown(recorded.arguments) for recorded in same[:3])
        return f"{asked}; there is one with {others}"

    def left(self) -> Iterator[str]:
        for call in self._left:
            yield f"'{call.tool}' on '{call.server}' was not called with {_shown(call.arguments)}"


def _is_of_same_tool(recorded: RecordedServerCall, call: ServerCall) -> bool:
    return (recorded.server, recorded.tool) == (call.server, call.tool)


def _answers(recorded: RecordedServerCall, call: ServerCall) -> bool:
    return _is_of_same_tool(recorded, call) and (
        recorded.arguments is _ANY or next(differences(recorded.arguments, call.arguments), None) is None
    )


def run_case(
    document: GraphDocument,
    case: GraphCase,
    *,
    is_canceled: Callable[[], bool] | None = None,
) -> CaseOutcome:
    """Runs a case with its recorded replies, and compares what it expects.

    Raises:
        RunError: It was stopped.
    """
    replayed = ReplayedCalls(case.calls)
    executor = GraphExecutor(_unhurried(document), replayed)
    result, error = _ANY, None
    try:
        ended = executor.run(case.tool, case.arguments, is_canceled=is_canceled)
        result, history = ended.result, ended.history
    except RunError as failed:
        if failed.kind == "stopped":
            raise
        error, history = failed, cast("tuple[NodeRecord, ...]", failed.history)
    failures = list(_failures(case, result, error, history))
    # An error that names the call already says it.
    failures += [text for text in replayed.unknown if error is None or text not in error.sentence]
    failures += replayed.left()
    nodes = frozenset((record.tool.name, record.node_id) for record in history if record.tool is not None)
    return CaseOutcome(case=case, failures=tuple(failures), nodes=nodes)


def _unhurried(document: GraphDocument) -> GraphDocument:
    """The document with retries that do not wait, as recorded replies do not change in time."""

    def now(node: Node) -> Node:
        if isinstance(node, CallingNode) and node.retry is not None:
            return replace(node, retry=replace(node.retry, delay=0.0))
        return node

    tools = tuple(replace(tool, nodes=tuple(map(now, tool.nodes))) for tool in document.tools)
    return replace(document, tools=tools)


def _failures(
    case: GraphCase, result: Any, error: RunError | None, history: Sequence[NodeRecord]
) -> Iterator[str]:
    if case.error is not None and error is None:
        yield f"the run should fail with '{case.error}'; its result is {_shown(result)}"
    elif error is not None and (case.error is None or case.error not in error.sentence):
        expected = "" if case.error is None else f" instead of '{case.error}'"
        yield f"the run failed{expected}: {error.sentence}"
    # The nodes of branches run side by side, so their order is another one each time.
    ran = tuple(record.node_id for record in history if not record.branch)
    if case.path is not None and ran != case.path:
        yield f"path: expected {' → '.join(case.path)}; it was {' → '.join(ran)}"
    if error is not None:
        return
    if case.result is not _ANY:
        found = list(differences(case.result, result, "result"))
        yield from found[:_MOST_DIFFERENCES]
        if len(found) > _MOST_DIFFERENCES:
            yield f"and {len(found) - _MOST_DIFFERENCES} more differences of the result"
    context = history[-1].context() if history else {}
    for text in case.asserts:
        try:
            bounds = Bounds(seconds=DEFAULT_SECONDS)
            value = evaluate(text, context, {"result": result}, bounds=bounds)
        except ExpressionError as wrong:
            yield f"assertion {text}: {wrong.what}"
            continue
        # Only `true`: an assertion that finds some text instead would hold for ever.
        if value is not True:
            gave = "found nothing" if value is UNDEFINED else f"gave {_shown(json_value(value))}"
            yield f"assertion {text}: {gave}"


def differences(expected: Any, found: Any, place: str = "") -> Iterator[str]:
    """The places in which JSON differs from what was expected. A text with a mark equals everything."""
    if isinstance(expected, dict) and isinstance(found, dict):
        wanted, given = cast("dict[str, Any]", expected), cast("dict[str, Any]", found)
        for name in dict.fromkeys([*wanted, *given]):
            where = f"{place}.{name}" if place else name
            if name not in given:
                yield f"{where} is missing, expected {_shown(wanted[name])}"
            elif name not in wanted:
                yield f"{where} is new: {_shown(given[name])}"
            else:
                yield from differences(wanted[name], given[name], where)
    elif isinstance(expected, list) and isinstance(found, list):
        entries, others = cast("list[Any]", expected), cast("list[Any]", found)
        if len(entries) != len(others):
            yield f"{place} should have {len(entries)} entries, not {len(others)}"
        for index, (entry, other) in enumerate(zip(entries, others, strict=False)):
            yield from differences(entry, other, f"{place}[{index}]")
    elif canonical_json(expected) != canonical_json(found) and not (
        isinstance(expected, str) and marks_in(expected)
    ):
        yield f"{place}: expected {_shown(expected)}, got {_shown(found)}"


def _shown(value: Any) -> str:
    if value is _ANY:
        return "any arguments"
    return beginning(json.dumps(value, ensure_ascii=False), _LONGEST)


def recorded_case(
    document: GraphDocument,
    name: str,
    tool: str,
    arguments: dict[str, Any],
    *,
    call: CallTool,
    secrets: SecretMarker,
    is_canceled: Callable[[], bool] | None = None,
) -> GraphCase:
    """Runs a tool and makes a case of it, with marks instead of secrets; a run that fails is a case, too.

    Raises:
        RunError: It was stopped, or has no such tool.
    """
    recording = RecordingCalls(call)
    case = GraphCase(name=name, tool=tool)
    try:
        executor = GraphExecutor(document, recording)
        ended = executor.run(tool, arguments, is_canceled=is_canceled)
        history, case = ended.history, replace(case, result=secrets.shown(ended.result))
    except RunError as error:
        # Neither is what the tool does.
        if error.kind == "stopped" or document.tool(tool) is None:
            raise
        history, case = error.history, replace(case, error=secrets.text(error.cause))
    definition = document.tool(tool)
    schemas = [] if definition is None else [definition.input_schema_json]
    return replace(
        case,
        arguments=secrets.mark(arguments, *schemas),
        calls=tuple(_without(call, secrets) for call in recording.calls),
        path=tuple(record.node_id for record in history if not record.branch),
    )


def _without(call: RecordedServerCall, secrets: SecretMarker) -> RecordedServerCall:
    members: Mapping[str, Any] = {
        key: secrets.shown(value) for key, value in call.to_json().items() if isinstance(value, dict)
    }
    return replace(call, **members)
