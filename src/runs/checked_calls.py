"""A planned call is checked, and made: the tool against its pin, the arguments against its schema, then sent.

The digest in a tool cell pins the definition that a person read. Before a call, the server's current
definition can be compared with that digest. Tools are listed once per run and server, and again when the
server announces a change, or some seconds after a listing failed.

The check of arguments renames none, and changes only what loses nothing by it. A *text* where the schema
wants something else and no text (models and table columns write ``"[1, 2]"`` for ``[1, 2]`` and ``"1"``
for ``1``) is parsed if it is exactly such a value; a ``null`` where the schema takes none is left out if the
member is optional. Every such coercion is recorded. Arguments that a strict reading of the schema forbids,
but its server accepts, are sent (see `schemas.as_meant`). With a malformed schema all arguments are sent, and
the server decides.
"""

from __future__ import annotations

import contextlib
import copy
import difflib
import json
import math
import threading
import time
from concurrent.futures import Future
from dataclasses import dataclass, replace
from decimal import Decimal
from enum import StrEnum
from functools import partial
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final, assert_never, cast

from ..client.clock import POLL_SECONDS
from ..client.limits import Limits
from ..client.mcp_client import server_key
from ..client.protocol.messages import DEEPEST
from ..client.validation.argument_schemas import type_of
from ..client.validation.problems import describe_problems, wanted_types
from ..client.validation.schemas import CompiledSchema, compile_schema
from ..types.errors import (
    ArgumentsInvalid,
    Canceled,
    InputInvalid,
    MCPError,
    NotRunHere,
    ResultInvalid,
    ToolChanged,
    ToolNotFound,
)
from ..types.texts import counted, pointer_text, without_surrogates
from ..types.tool import MCPTool, WorkflowTool, to_json_text
from .call_values import ToolAnswer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    import jsonschema_rs

    from ..client.mcp_client import MCPClient, Progress, ServerKey, SessionPool
    from ..client.protocol.tools import CallToolResult, ToolDefinition
    from ..types.routing import ServerRoute
    from ..types.tool import Tool
    from .call_values import CallOutcome
    from .engine import CallInProgress

_SUGGESTIONS = 3
# For this time after a failed listing, calls fail at once; later calls ask the server again.
_FAILURE_HOLDS_SECONDS = 5.0
# The pause before the next listing doubles after each announcement without a real change.
_FIRST_PAUSE, _LONGEST_PAUSE = 1.0, 30.0  # seconds
_FIX: Final = "Correct the arguments; nothing was sent"
_SHOWN_LEVELS: Final = 5
_GONE: Final = object()
_ROUNDS: Final = 8  # JSON text inside of parsed JSON text
# https://modelcontextprotocol.io/specification/2025-11-25/basic#_meta has the rules for the names of keys.
_KEY: Final = "knime-mcp/idempotency-key"
_NO_WORKFLOWS: Final = (
    "Use the MCP Agent Prompter or KNIME's Agent Prompter node for workflow tools, in KNIME Analytics"
    " Platform 5.8 or later"
)
_WANTS_TABLES: Final = "Use the MCP Agent Prompter node: its data inputs feed such tools"


class Pinning(StrEnum):
    """The action if a tool's current definition differs from the one that a person saw."""

    FAIL = "fail"
    WARN = "warn"
    IGNORE = "ignore"


@dataclass(frozen=True, slots=True)
class CheckedTool:
    """A tool that may be called, and a warning about changes.

    It is as the server defines it now, or as pinned if the definitions were not compared.
    """

    tool: MCPTool
    note: str | None = None


class _Listing:
    """A listing of a server's tools, and the number of list changes announced before it."""

    __slots__ = ("answer", "changes", "client", "failed_until", "pause", "pause_until")

    def __init__(self) -> None:
        self.answer: Future[dict[str, ToolDefinition]] = Future()
        self.client: MCPClient | None = None
        self.changes = 0
        self.failed_until: float | None = None
        self.pause = self.pause_until = 0.0

    @property
    def holds(self) -> bool:
        """True if the listing can still be used: no change was announced since, or it failed just now."""
        if self.failed_until is not None:
            return time.monotonic() < self.failed_until
        if self.client is None or time.monotonic() < self.pause_until:
            return True
        return self.client.tool_changes == self.changes

    def error(self, is_canceled: Callable[[], bool] | None) -> BaseException | None:
        """Waits for the answer; raises `Canceled` if the call that waits is canceled."""
        while True:
            try:
                return self.answer.exception(POLL_SECONDS)
            except TimeoutError:
                if is_canceled is not None and is_canceled():
                    raise Canceled("The call was canceled before it was sent") from None

    def compare(self, before: _Listing | None, definitions: dict[str, ToolDefinition]) -> None:
        """Doubles the pause before the next listing if the tools did not really change."""
        if before is not None and before.client is not None and before.answer.result() == definitions:
            self.pause = min(max(2 * before.pause, _FIRST_PAUSE), _LONGEST_PAUSE)
            self.pause_until = time.monotonic() + self.pause


class Definitions:
    """The current definitions of all servers of a run. Safe to use from several threads."""

    def __init__(self, pool: SessionPool) -> None:
        self._pool = pool
        self._lock = threading.Lock()
        self._listings: dict[ServerKey, _Listing] = {}
        #: Whether changes are listened for. A run of one call lists just before it, and never again.
        self.are_watched = True

    def find(
        self, route: ServerRoute, tool_name: str, *, is_canceled: Callable[[], bool] | None = None
    ) -> ToolDefinition:
        """The current definition of a tool, by the name that the server knows.

        Raises `ToolNotFound` with similar names, or another `MCPError` if the tools cannot be listed. Calls
        within the next seconds get the same error.
        """
        definitions = self.listing(route, is_canceled=is_canceled)
        if tool_name not in definitions:
            similar = tuple(difflib.get_close_matches(tool_name, definitions, n=_SUGGESTIONS, cutoff=0.5))
            fix = f"Did you mean {' or '.join(similar)}? " if similar else ""
            why = dict(self._pool.client(route).dropped_tools).get(tool_name)
            raise ToolNotFound(
                f"The server has no tool {tool_name!r}{f' that can be used: {why}' if why else ''}",
                suggestions=similar,
                server=route.url,
                tool=tool_name,
                fix=f"{fix}Execute the MCP Tool Provider again to see what the server offers",
            )
        return definitions[tool_name]

    def check(
        self, tool: MCPTool, pinning: Pinning, *, is_canceled: Callable[[], bool] | None = None
    ) -> CheckedTool:
        """Compares a tool that has a digest with its server's current definition, and gives the tool to call.

        Raises `ToolChanged` if ``pinning`` is to fail, and what `find` raises.
        """
        pinned = tool.digest
        if pinning is Pinning.IGNORE or pinned is None:
            return CheckedTool(tool)
        definition = self.find(tool.route, tool.tool_name, is_canceled=is_canceled)
        if definition.digest == pinned:
            return CheckedTool(tool)
        changes = changed_parts(tool, definition)
        what = f"The server has changed the tool since it was chosen: {', '.join(changes)}"
        if pinning is Pinning.FAIL:
            raise ToolChanged(
                what,
                changes=changes,
                server=tool.route.url,
                tool=tool.name,
                fix="Read the tool's new definition; execute the MCP Tool Provider again to accept it",
            )
        return CheckedTool(pinned_tool(definition, tool.route, shown_name=tool.name), f"{tool.name}: {what}")

    def listing(
        self, route: ServerRoute, *, is_canceled: Callable[[], bool] | None = None
    ) -> dict[str, ToolDefinition]:
        """The current definitions of all tools of a server, by the names that the server knows.

        Of two with the same name it has the first, which is the one that servers call. Raises what `find`
        raises.
        """
        server = server_key(route)
        while True:
            with self._lock:
                before = listing = self._listings.get(server)
                if listing is None or not listing.holds:
                    listing = self._listings[server] = _Listing()
            if listing is not before:
                self._make_listing(route, listing, before, is_canceled)
            # Whoever asks first lists the tools, the others wait for this one answer.
            error = listing.error(is_canceled)
            if error is None:
                return listing.answer.result()
            # If it was the other call that was canceled, this one asks.
            if listing is not before or not isinstance(error, Canceled):
                raise error.with_traceback(None)  # its traceback would grow with every call

    def _make_listing(
        self,
        route: ServerRoute,
        listing: _Listing,
        before: _Listing | None,
        is_canceled: Callable[[], bool] | None,
    ) -> None:
        try:
            client = self._pool.client(route)
            changes = client.tool_changes
            tools = client.list_tools(is_canceled=is_canceled)
            if self.are_watched:
                with contextlib.suppress(MCPError):  # the definitions are known all the same
                    client.watch_tools()
            by_name: dict[str, ToolDefinition] = {}
            for tool in tools:
                # Of equal names the first one, as in the client's own listing.
                by_name.setdefault(tool.name, tool)
            listing.compare(before, by_name)
            listing.changes, listing.client = changes, client
            listing.answer.set_result(by_name)
        except BaseException as error:
            # That one call was canceled says nothing about the server: the next one asks again.
            if isinstance(error, Canceled) or not isinstance(error, MCPError):
                with self._lock:
                    self._listings.pop(server_key(route), None)
            listing.failed_until = time.monotonic() + _FAILURE_HOLDS_SECONDS
            listing.answer.set_exception(error)


def pinned_tool(definition: ToolDefinition, route: ServerRoute, *, shown_name: str) -> MCPTool:
    """Makes a tool cell that pins a definition by its digest."""
    return definition.to_tool(replace(route, tool=None, digest=definition.digest), shown_name=shown_name)


def changed_parts(tool: MCPTool, definition: ToolDefinition) -> tuple[str, ...]:
    """The parts of a definition that differ from a tool cell, such as ``("description", "parameters")``.

    It is ``("definition",)`` if they are not known, as for a cell with only a digest.
    """
    parts = {
        "description": (tool.description, definition.description or ""),
        "title": (tool.title, definition.title),
        "parameters": (tool.parameter_schema, definition.input_schema),
        "output schema": (tool.output_schema, definition.output_schema),
        "annotations": (tool.annotations, definition.annotations),
    }
    changed = tuple(part for part, (before, now) in parts.items() if before != now)
    return changed if changed and tool.schema_json else ("definition",)


def described_tools(tools: Iterable[Tool | None]) -> list[dict[str, Any]]:
    """Name, server and digest of tools, for the beginning of a journal."""
    described: list[dict[str, Any]] = []
    for tool in filter(None, tools):
        is_mcp = isinstance(tool, MCPTool)
        digest = tool.digest if is_mcp else sha256(to_json_text(tool).encode()).hexdigest()
        server = {"server": tool.route.url} if is_mcp else {}
        described.append({"name": tool.name, "digest": digest, **server})
    return described


@dataclass(frozen=True, slots=True)
class Coercion:
    """A text that was parsed as JSON: JSON pointer into the arguments, and its type; or a null left out."""

    pointer: str
    wanted: str

    def __str__(self) -> str:
        is_gone = self.wanted == "null"
        return f"{self.pointer}: {'null was left out' if is_gone else f'text was read as {self.wanted}'}"


class ArgumentValidator:
    """Checks arguments of one tool. `fault` is the schema's defect because of which they are not checked."""

    def __init__(self, schema: CompiledSchema) -> None:
        self._schema = schema
        self.fault = schema.fault

    @classmethod
    def for_schema(cls, schema_json: str, limits: Limits = Limits()) -> ArgumentValidator:  # noqa: B008 - frozen
        """Compiled once per distinct text. Raises `ProtocolError` if the schema cannot be used."""
        return cls(compile_schema(schema_json, limits))

    def check(self, arguments: Mapping[str, Any]) -> tuple[dict[str, Any], tuple[Coercion, ...]]:
        """The arguments to send, and the texts that were parsed; ``arguments`` itself is not changed.

        Raises `ArgumentsInvalid` with a pointer to the first problem.
        """
        checked = dict(arguments)
        _refuse_what_is_not_json(checked)
        try:
            is_valid = self._schema.is_valid(checked)
        except ValueError:  # jsonschema_rs takes no subclasses of str, such as KNIME's SMILES values
            checked = _in_plain_types(checked)
            is_valid = _is_valid(self._schema, checked)
        if is_valid:
            return checked, ()
        schema = self._schema.as_meant
        coercions: list[Coercion] = []
        left_out: list[list[str | int]] = []
        # A text that was parsed may hold texts that need it, too;
        # bounded, as each round checks the whole value.
        for _ in range(_ROUNDS):
            if _is_valid(schema, checked):
                return checked, tuple(coercions)
            problems = schema.problems(checked)
            parsed = [entry for problem in problems if (entry := _parsed(problem)) is not None]
            if not parsed:
                break
            if not coercions:
                # Only now, as hardly any call needs it, and the caller's arguments stay as they are.
                checked = copy.deepcopy(checked)
            for path, value, wanted in parsed:
                if wanted == "null":
                    left_out.append(path)
                _put(checked, path, value)
                coercions.append(Coercion(pointer_text(path), wanted))
        for path in left_out:  # what was given is refused, and not what we made of it
            _put(checked, path, None)
        pointer, what = describe_problems(schema, schema.problems(checked), whole="the arguments")
        raise ArgumentsInvalid(what, pointer=pointer, fix=_FIX)


def _in_plain_types(arguments: dict[str, Any]) -> dict[str, Any]:
    try:
        return json.loads(json.dumps(arguments))
    except ValueError:  # Python writes no integer of more than 4,300 digits
        return arguments


def _is_valid(schema: CompiledSchema, arguments: dict[str, Any]) -> bool:
    try:
        return schema.is_valid(arguments)
    except ValueError as error:
        raise ArgumentsInvalid(f"The arguments cannot be checked: {error}", fix=_FIX) from None


def _refuse_what_is_not_json(arguments: dict[str, Any]) -> None:
    """Refuses values that JSON does not have: NaN, sets, keys other than text, text with lone surrogates."""
    stack: list[tuple[Any, list[str | int]]] = [(arguments, [])]
    while stack:
        value, path = stack.pop()
        reason = ""
        match value:
            case None | bool() | int():
                continue
            case str():
                if value.isascii() or without_surrogates(value) is value:
                    continue
                reason = "text that is not valid Unicode"
            case float():
                if math.isfinite(value):
                    continue
                reason = f"the number {value}, which JSON does not have"
            case dict() | list() if len(path) > DEEPEST:
                raise ArgumentsInvalid(
                    f"The arguments are nested more than {DEEPEST} levels deep",
                    pointer=pointer_text(path[:_SHOWN_LEVELS]),
                    fix=_FIX,
                )
            case dict():
                entries = cast("dict[Any, Any]", value)
                if all(isinstance(key, str) and without_surrogates(key) is key for key in entries):
                    stack.extend((child, [*path, key]) for key, child in entries.items())
                    continue
                reason = "an object with a name that is not text"
            case list():
                children = cast("list[Any]", value)
                stack.extend((child, [*path, position]) for position, child in enumerate(children))
                continue
            case _:
                reason = f"a value of type {type(value).__name__}, which JSON does not have"
        pointer = pointer_text(path)
        raise ArgumentsInvalid(f"{pointer or 'The arguments'} is {reason}", pointer=pointer, fix=_FIX)


def _parsed(problem: jsonschema_rs.ValidationError) -> tuple[list[str | int], Any, str] | None:
    """Path, value and its kind, if the value says without loss what is wanted in its place."""
    value, path = problem.instance, problem.instance_path
    wanted = wanted_types(problem)
    # Models write null for an optional argument that they do not give.
    if value is None and wanted and "null" not in wanted and path and isinstance(path[-1], str):
        return path, _GONE, "null"  # a required member is missed in the next round
    if not isinstance(value, str) or "string" in wanted or not wanted:
        return None
    try:
        parsed: Any = json.loads(value, parse_constant=_refuse)
    except (ValueError, RecursionError):
        return None
    kind = type_of(parsed)
    # JSON Schema: every integer is a number, but not the other way round.
    if kind == "integer" and "integer" not in wanted:
        kind = "number"
    is_scalar = kind in {"integer", "number", "boolean"}
    if kind not in wanted or (is_scalar and not _says_exactly(value, parsed)):
        return None
    return path, parsed, kind


def _says_exactly(text: str, value: Any) -> bool:
    """Whether nothing is lost: ``1.50`` is a number, but a double does not hold a hundred digits."""
    if isinstance(value, bool):
        return text in {"true", "false"}
    return text == text.strip() and Decimal(text) == Decimal(repr(value))


def _refuse(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


def _put(root: dict[str, Any], path: list[str | int], value: Any) -> None:
    holder: Any = root
    for step in path[:-1]:
        holder = holder[step]
    if value is _GONE:
        holder.pop(path[-1], None)
    else:
        holder[path[-1]] = value


def schema_of(tool: Tool) -> str:  # @ToolTypeDispatch
    """The schema of a tool's arguments as text."""
    match tool:
        case MCPTool():
            return tool.schema_json
        case WorkflowTool():  # it holds only the properties of its schema
            return f'{{"properties":{tool.schema_json or "{}"}}}'
        case _:
            assert_never(tool)


def check_call(call: CallInProgress) -> None:  # @ToolTypeDispatch
    """Checks the tool against its pin and the arguments against its schema. A workflow checks its own."""
    match call.tool:
        case MCPTool():
            run = call.run
            checked = run.definitions.check(call.tool, run.pinning, is_canceled=call.is_canceled)
            call.tool, call.note = checked.tool, checked.note
            validator = ArgumentValidator.for_schema(checked.tool.schema_json)
            try:
                call.arguments, coercions = validator.check(call.arguments)
            except ArgumentsInvalid as error:
                # Before the arguments are blamed: a server's large schema may have taken long to check.
                if call.is_canceled is not None and call.is_canceled():
                    raise Canceled("The call was canceled before it was sent") from None
                # Who can run workflows is KNIME, which has nodes that convert columns.
                if call.plan.input_row is None or run.run_workflow is None:
                    raise
                from .cell_contents import of_cell

                raise of_cell(error, call.arguments, checked.tool.parameter_schema) from None
            call.coercions = tuple(map(str, coercions))
            if validator.fault is not None:
                unchecked = (
                    f"The arguments of '{call.tool.name}' were not checked, because of its schema:"
                    f" {validator.fault}"
                )
                call.add_note(unchecked)
        case WorkflowTool():
            _check_workflow(call.tool, call)
        case None:
            raise AssertionError("a call without a tool has its error")
        case _:
            assert_never(call.tool)


def make_here(
    call: CallInProgress, send: Callable[[CallInProgress], ToolAnswer] | None = None
) -> CallOutcome:
    """Makes a checked call in this process. Errors are part of the outcome."""
    answer: ToolAnswer | None = None
    try:
        try:
            sent = (send or send_to_tool)(call)
        finally:
            call.end()
        answer = call.scrubbed(sent)
        return call.answered(answer)
    except Exception as error:
        return call.failed(error, answer)


def send_to_tool(call: CallInProgress) -> ToolAnswer:  # @ToolTypeDispatch
    """Sends a checked call to its tool, of either type.

    The only place that knows how the two types of tool are executed: an MCP tool through the pool of
    sessions, a workflow through a function of the host (in KNIME: ``ctx._execute_tool``).

    Raises:
        MCPError: The call could not be made, or was not answered.
    """
    match call.tool:
        case MCPTool():
            return _send_mcp(call.tool, call)
        case WorkflowTool():
            return _run_workflow(call.tool, call)
        case None:
            raise AssertionError("a call without a tool has its error")
        case _:
            assert_never(call.tool)


def _send_mcp(tool: MCPTool, call: CallInProgress) -> ToolAnswer:
    run = call.run
    client = run.pool.client(tool.route)
    invalid: ResultInvalid | None = None
    try:
        result = client.call_tool(
            tool.tool_name,
            call.arguments,
            on_progress=None if run.on_progress is None else partial(_tell, client, call),
            on_attempt=call.sent,
            on_sent=call.prepare,
            is_canceled=call.is_canceled,
            meta=key_meta(call),
        )
    except ResultInvalid as error:
        # The tool has answered: that is on record beside the error, whose traceback would keep both alive.
        invalid, result = error.with_traceback(None), cast("CallToolResult", error.result)
    # After the call and not before it: the token may have been renewed for it.
    run.secrets.learn(client.secrets())
    call.server_version = client.server.version
    call.protocol = client.server.protocol_version
    return answer_of(result, invalid)


def key_meta(call: CallInProgress) -> dict[str, Any]:
    """What a request's ``_meta`` has for a call that must not be made twice."""
    return {} if call.key is None else {_KEY: call.key}


def answer_of(result: CallToolResult, error: MCPError | None = None) -> ToolAnswer:
    return ToolAnswer(
        text=result.text,
        structured=result.structured_content,
        is_error=result.is_error,
        blocks=result.content,
        error=error,
        irregular=result.irregular,
    )


def _tell(client: MCPClient, call: CallInProgress, progress: Progress) -> None:
    """Passes on a progress report. Reads the client's secrets each time, as tokens may have been renewed."""
    run, message = call.run, progress.message
    assert run.on_progress is not None
    run.secrets.learn(client.secrets())
    run.on_progress(replace(progress, message=message and call.marker.foreign(message)))


def _check_workflow(tool: WorkflowTool, call: CallInProgress) -> None:
    run, data = call.run, call.plan.data
    if run.run_workflow is None:
        raise NotRunHere("Workflow tools cannot be run here", tool=tool.name, fix=_NO_WORKFLOWS)
    if len(data) != len(tool.input_ports):
        raise InputInvalid(
            f"The workflow wants {counted(len(tool.input_ports), 'input table')}, but has {len(data)}",
            tool=tool.name,
            fix=_WANTS_TABLES,
        )
    if run.workflow_digest is not None:
        call.digest = run.workflow_digest(tool)


def _run_workflow(tool: WorkflowTool, call: CallInProgress) -> ToolAnswer:
    assert call.run.run_workflow is not None
    call.attempts = 1
    try:
        message, outputs = call.run.run_workflow(
            tool, call.arguments, tuple(given.table for given in call.plan.data)
        )
    except MCPError:
        raise
    except Exception as error:
        # KNIME raises an exception where an MCP tool would return a result with isError. The text of one from
        # its Java side is a whole stack trace.
        java: Any = getattr(error, "java_exception", None)
        text = str(error) if java is None else str(java.getMessage() or java.getClass().getName())
        return ToolAnswer(text=text or type(error).__name__, is_error=True)
    return ToolAnswer(text=message, outputs=outputs)
