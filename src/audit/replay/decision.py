"""Decides about each call on record: whether it may be made again, and the verdict if not."""

from __future__ import annotations

import contextlib
import json
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, assert_never, cast

from ...types.errors import ArgumentsInvalid, Canceled, MCPError, ToolNotFound
from ...types.routing import ServerRoute
from ...types.tool import MCPTool, WorkflowTool
from ..call import Call
from ..record import CallStatus
from .calls import ReplayedCall, ReplayVerdict
from .tools import current_tool

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from ...types.tool import Tool
    from ..call import Dispatcher
    from ..record import CallRecord
    from .calls import RecordedCall
    from .options import ReplayOptions

_MARK: Final = re.compile(r"⟨secret ([0-9a-f]{12})⟩")
_NOT_MADE: Final = frozenset({CallStatus.DENIED, CallStatus.CANCELED})


@dataclass(frozen=True, slots=True, kw_only=True)
class Ready:
    """A call that may be made.

    Attributes:
        recorded: The call on record.
        call: The call to make.
        overlaps: Whether it may run at the same time as other calls.
        changes: See `ReplayedCall`.
        digest: See `ReplayedCall`.
    """

    recorded: RecordedCall
    call: Call
    overlaps: bool
    changes: tuple[str, ...] = ()
    digest: str | None = None


class _Verdict(Exception):  # noqa: N818 - carries a verdict out of a step of this module
    def __init__(
        self, verdict: ReplayVerdict, reason: str, changes: tuple[str, ...] = (), digest: str | None = None
    ) -> None:
        super().__init__(reason)
        self.verdict, self.reason, self.changes, self.digest = verdict, reason, changes, digest

    def on(self, recorded: RecordedCall) -> ReplayedCall:
        return ReplayedCall(
            recorded=recorded,
            verdict=self.verdict,
            reason=self.reason,
            changes=self.changes,
            digest=self.digest,
        )


@dataclass(slots=True)
class Decider:
    """Decides about calls. Not safe for several threads.

    Attributes:
        dispatcher: The objects that all calls share.
        options: The options of the replay.
        is_canceled: Ends waiting for servers.
    """

    dispatcher: Dispatcher
    options: ReplayOptions
    is_canceled: Callable[[], bool]
    _routes: dict[ServerRoute, ServerRoute] = field(
        init=False, default_factory=dict["ServerRoute", "ServerRoute"]
    )

    def decide(self, recorded: RecordedCall) -> ReplayedCall | Ready:
        """Decides about a call.

        Args:
            recorded: The call on record.

        Returns:
            A verdict, or a call that may be made.

        Raises:
            Canceled: The person stopped the replay.
        """
        try:
            if not self.options.rows.has(recorded.record, recorded.place):
                raise _Verdict(ReplayVerdict.SKIPPED, "Not among the chosen rows")
            if recorded.record.status in _NOT_MADE:
                why = f"It was not made when it was recorded: {recorded.record.status.value}"
                raise _Verdict(ReplayVerdict.SKIPPED, why)
            return self._decided(recorded, _tool_of(recorded))
        except _Verdict as found:
            return found.on(recorded)
        except Canceled:
            raise
        except ToolNotFound as error:
            if recorded.record.status is CallStatus.NOT_FOUND:
                return _Verdict(ReplayVerdict.SAME, "The tool was not found then either").on(recorded)
            return _Verdict(ReplayVerdict.TOOL_MISSING, str(error)).on(recorded)
        except MCPError as error:
            reason = cast("str", self.dispatcher.secrets.scrub(str(error)))
            return _Verdict(ReplayVerdict.FAILED, reason).on(recorded)

    def _decided(self, recorded: RecordedCall, tool: Tool) -> Ready:  # @ToolTypeDispatch
        match tool:
            case MCPTool():
                return self._decided_mcp(recorded, tool)
            case WorkflowTool():
                return self._decided_workflow(recorded, tool)
            case _:
                assert_never(tool)

    def _decided_mcp(self, recorded: RecordedCall, tool: MCPTool) -> Ready:
        if tool.route not in self._routes:
            self._routes[tool.route] = self.options.route(tool.route)
        route = self._routes[tool.route]
        digest = recorded.record.digest or tool.digest
        listing = self.dispatcher.definitions.listing(route, is_canceled=self.is_canceled)
        current = current_tool(listing, tool, route, digest, self.options.new_name(tool))
        changes, now = current.changes, current.tool.digest
        if changes and not self.options.call_changed:
            reason = f"The definition is not the one on record: {', '.join(changes)}. It was not called"
            raise _Verdict(ReplayVerdict.TOOL_CHANGED, reason, changes, now)
        arguments = self._arguments(recorded.record)
        named = self.options.may_call(tool.name, tool.tool_name, current.tool.tool_name)
        if not self.options.dry_run and (current.read_only or named):
            call = Call(tool=current.tool, arguments=arguments, input_row=recorded.record.input_row)
            return Ready(
                recorded=recorded, call=call, overlaps=current.read_only, changes=changes, digest=now
            )
        verdict, reason = _dry_run(recorded.record, current.tool, arguments)
        if verdict is ReplayVerdict.SKIPPED:
            why = "This is a dry run" if self.options.dry_run else "The tool is not declared as read-only"
            reason = f"{why}. {reason}"
        raise _Verdict(verdict, reason, changes, now)

    def _decided_workflow(self, recorded: RecordedCall, tool: WorkflowTool) -> Ready:
        digest_of, before = self.dispatcher.workflow_digest, recorded.record.digest
        now = None if digest_of is None else digest_of(tool)
        changes = ("workflow",) if before and now and before != now else ()
        if changes and not self.options.call_changed:
            reason = "The workflow in its file store is not the one that ran. It was not called"
            raise _Verdict(ReplayVerdict.TOOL_CHANGED, reason, changes, now)
        arguments = self._arguments(recorded.record)
        if tool.input_ports:
            raise _Verdict(
                ReplayVerdict.SKIPPED, "The workflow wants input tables, which the record does not hold"
            )
        if self.options.dry_run or not self.options.may_call(tool.name):
            why = "This is a dry run" if self.options.dry_run else "A workflow runs only if it is named"
            raise _Verdict(ReplayVerdict.SKIPPED, why)
        call = Call(tool=tool, arguments=arguments, input_row=recorded.record.input_row)
        return Ready(recorded=recorded, call=call, overlaps=False, changes=changes, digest=now)

    def _arguments(self, record: CallRecord) -> dict[str, Any]:
        if record.arguments is None:
            raise _Verdict(ReplayVerdict.SKIPPED, "The record holds no arguments")
        try:
            parsed = json.loads(record.arguments)
        except (ValueError, RecursionError):
            parsed = None
        if not isinstance(parsed, dict):
            raise _Verdict(ReplayVerdict.FAILED, "The arguments on record are not a JSON object")
        missing: dict[str, str] = {}
        arguments = _filled(cast("dict[str, Any]", parsed), self.options.secrets, "", missing)
        if missing:
            places = ", ".join(f"{place or 'a name'} ({digest})" for digest, place in missing.items())
            reason = f"The record does not hold the secrets in its arguments: {places}. Give their values"
            raise _Verdict(ReplayVerdict.SKIPPED, reason)
        return arguments


def routes_of(calls: Iterable[RecordedCall], options: ReplayOptions) -> set[ServerRoute]:
    """Lists the servers that a replay may contact, so that credentials can be looked up before it starts.

    Args:
        calls: The calls on record.
        options: The options of the replay.

    Returns:
        The routes of the servers. Calls that cannot be made have no route.
    """
    recorded: set[ServerRoute] = set()
    for call in calls:
        with contextlib.suppress(MCPError, _Verdict):
            tool = _tool_of(call)
            if isinstance(tool, MCPTool) and options.rows.has(call.record, call.place):
                recorded.add(tool.route)
    routes: set[ServerRoute] = set()
    for route in recorded:
        with contextlib.suppress(MCPError):
            routes.add(options.route(route))
    return routes


def _tool_of(recorded: RecordedCall) -> Tool:
    """The tool of a record; if its cell is lost, a tool with only a name and a route."""
    record = recorded.record
    if recorded.tool is not None:
        return recorded.tool
    if not record.tool_name:
        raise _Verdict(ReplayVerdict.SKIPPED, "The record names no tool")
    if record.tool_type == "workflow":
        raise _Verdict(
            ReplayVerdict.SKIPPED, "The table has lost the column Tool, without which no workflow can run"
        )
    if not record.server:
        raise _Verdict(ReplayVerdict.FAILED, "The record names neither a server nor a tool cell")
    route = ServerRoute.parse(record.server)
    return MCPTool(record.tool_name, "", "", route.uri, route.tool or record.tool_name)


def _dry_run(record: CallRecord, tool: MCPTool, arguments: dict[str, Any]) -> tuple[ReplayVerdict, str]:
    from ...client.arguments import ArgumentValidator

    validator = ArgumentValidator.for_schema(tool.schema_json)
    try:
        validator.check(arguments)
    except ArgumentsInvalid as error:
        if record.status is CallStatus.INVALID_ARGUMENTS:
            return ReplayVerdict.SKIPPED, "The arguments do not fit, as on record"
        return ReplayVerdict.FAILED, f"The arguments on record no longer fit: {error}"
    if validator.fault is not None:
        return ReplayVerdict.SKIPPED, f"Whether the arguments fit cannot be said: {validator.fault}"
    if record.status is CallStatus.INVALID_ARGUMENTS:
        return ReplayVerdict.SKIPPED, "The arguments, which did not fit on record, fit now"
    return ReplayVerdict.SKIPPED, "The arguments fit its present definition"


def _filled(value: Any, secrets: Mapping[str, str], place: str, missing: dict[str, str]) -> Any:
    """A copy with secrets instead of marks. Adds digest and pointer of unknown secrets to `missing`."""
    match value:
        case str():

            def secret(mark: re.Match[str]) -> str:
                if mark[1] not in secrets:
                    missing.setdefault(mark[1], place)
                return secrets.get(mark[1], mark[0])

            return _MARK.sub(secret, value)
        case dict():
            members = cast("dict[str, Any]", value)
            return {
                _filled(name, secrets, place, missing): _filled(inner, secrets, f"{place}/{name}", missing)
                for name, inner in members.items()
            }
        case list():
            items = cast("list[Any]", value)
            return [_filled(inner, secrets, f"{place}/{i}", missing) for i, inner in enumerate(items)]
        case _:
            return value
