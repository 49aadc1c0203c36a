"""Decides about each call on record: whether it may be made again, and the verdict if not."""

from __future__ import annotations

import contextlib
import fnmatch
import json
import re
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, assert_never, cast

from ..audit.record import CallStatus
from ..audit.secrets import HiddenSecrets, marks_in, with_secrets
from ..client.network import origin_of
from ..types.errors import ArgumentsInvalid, Canceled, MCPError, SettingInvalid, ToolNotFound
from ..types.routing import ServerRoute
from ..types.tool import MCPTool, WorkflowTool
from .call_values import PlannedCall
from .checked_calls import changed_parts, pinned_tool
from .recorded_calls import ReplayedCall, ReplayVerdict
from .replay_rules import ReplayRules

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

    from ..audit.record import CallRecord
    from ..client.protocol.tools import ToolDefinition
    from ..types.tool import Tool
    from .engine import Run
    from .recorded_calls import RecordedCall


_RANGE: Final = re.compile(r"(\d*)\s*-\s*(\d*)")
_NO_PARTS = ("definition",)
_NOT_MADE: Final = frozenset({CallStatus.DENIED, CallStatus.CANCELED})


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayOptions:
    """The options of a replay. With the defaults, a replay changes nothing on any server."""

    # names of tools, with ``*`` and ``?``, that are called although they are not declared as read-only. A
    # name is either the shown name or the name that the server knows.
    also_call: tuple[str, ...] = ()
    call_changed: bool = False  # whether tools are called whose definition differs from the recorded one
    dry_run: bool = False  # whether no calls are made at all
    force_altered: bool = False  # whether calls of altered records are made, too; otherwise none is
    rows: RowSelection = field(default_factory=lambda: RowSelection())  # the calls to replay
    # new server by old server: a URL or the beginning of a URL, to a URL, which may hold routing in its
    # fragment. Credentials are not sent to another origin, see `credentials`.
    servers: Mapping[str, str] = field(default_factory=dict[str, str])
    # new name of a tool by its old name, either the server's or the shown one
    tools: Mapping[str, str] = field(default_factory=dict[str, str])
    # new credential by the name of the old one; "" for no credential
    credentials: Mapping[str, str] = field(default_factory=dict[str, str])
    named_credentials_only: bool = False  # whether only credentials that `credentials` names may be sent
    # the secrets in arguments, by the digest in their mark
    secrets: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    stop_at_first_difference: bool = False  # whether the first call that is not the same ends the replay
    rules: ReplayRules = field(default_factory=ReplayRules)  # what may differ
    twice: bool = False  # whether each read-only call is made twice, to learn what differs by itself
    concurrency: int = 1  # the maximum number of read-only calls in flight

    def may_call(self, *names: str) -> bool:
        """Returns whether a person allowed to call a tool by one of its names."""
        return any(fnmatch.fnmatchcase(name, pattern) for pattern in self.also_call for name in names)

    def new_name(self, tool: MCPTool) -> str | None:
        """Returns the tool's new name, None if no new name was given."""
        return self.tools.get(tool.tool_name) or self.tools.get(tool.name)

    def route(self, recorded: ServerRoute) -> ServerRoute:
        """The new route for a recorded one, without tool and pin.

        Raises `SettingInvalid` if the new server is not a valid URL, or the route needs a credential that may
        not be sent.
        """
        route = self._server(replace(recorded, tool=None, digest=None))
        if route.credential is None:
            return route
        if route.credential in self.credentials:
            return replace(route, credential=self.credentials[route.credential] or None)
        if self.named_credentials_only and route.credential not in self.credentials.values():
            raise SettingInvalid(
                f"The record wants to send the credential '{route.credential}' to {route.url}",
                setting="credentials",
                fix=f"If that is right, allow it: --with-credential {route.credential}",
            )
        return route

    def _server(self, route: ServerRoute) -> ServerRoute:
        # The longest beginning that fits is the most specific one.
        for old in sorted(self.servers, key=len, reverse=True):
            start = old.rstrip("/")
            if route.url == old or route.url.rstrip("/") == start or route.url.startswith(f"{start}/"):
                rest = "" if route.url == old else route.url[len(start) :]
                url, _, fragment = self.servers[old].partition("#")
                new = ServerRoute.parse(f"{url.rstrip('/') if rest else url}{rest}#{fragment}".rstrip("#"))
                return new if fragment else self._taken_along(route, new)
        return route

    def _taken_along(self, old: ServerRoute, new: ServerRoute) -> ServerRoute:
        """The new URL with the old routing. The credential is kept only on the same origin, or if mapped."""
        # Records come from others: whoever wrote one must not choose where a credential is sent.
        follows = origin_of(old.url) == origin_of(new.url) or old.credential in self.credentials
        return replace(old, url=new.url, credential=old.credential if follows else None)


@dataclass(frozen=True, slots=True)
class RowSelection:
    """The selection of calls to replay; all of them by default.

    `calls` are numbers of the column *Call*, or places in the table if that is empty; `input_rows` are
    RowIDs.
    """

    calls: tuple[range, ...] = ()
    input_rows: frozenset[str] = frozenset()

    @classmethod
    def parse(cls, text: str) -> RowSelection:
        """Reads numbers, ranges (``3-8``, ``10-``) and RowIDs, separated by commas; empty for all.

        Raises `SettingInvalid` for a range that ends before it begins.
        """
        calls: list[range] = []
        rows: set[str] = set()
        for part in filter(None, (entry.strip() for entry in re.split(r"[,;\n]", text))):
            bounds = _RANGE.fullmatch(part)
            if part.isdecimal():
                calls.append(range(int(part), int(part) + 1))
            elif bounds and (bounds[1] or bounds[2]):
                first, last = int(bounds[1] or 1), int(bounds[2]) if bounds[2] else 2**31
                if last < first:
                    raise SettingInvalid(
                        f"The range {part} ends before it begins", setting="rows", fix=f"Write {last}-{first}"
                    )
                calls.append(range(first, last + 1))
            else:
                rows.add(part)
        return cls(tuple(calls), frozenset(rows))

    def has(self, record: CallRecord, place: int) -> bool:
        if not (self.calls or self.input_rows):
            return True
        number = record.call or place
        return record.input_row in self.input_rows or any(number in part for part in self.calls)


def pairs(entries: Iterable[tuple[str, str]], setting: str) -> dict[str, str]:
    """Reads a mapping that a person entered; pairs without an old value are skipped.

    Raises `SettingInvalid` if two entries give the same old value different new ones.
    """
    mapping: dict[str, str] = {}
    for old, new in ((old.strip(), new.strip()) for old, new in entries):
        if not old:
            continue
        if old in mapping and mapping[old] != new:
            raise SettingInvalid(
                f"There are two entries for '{old}'", setting=setting, fix="Remove one of them"
            )
        mapping[old] = new
    return mapping


@dataclass(frozen=True, slots=True)
class CurrentTool:
    """A tool of a record, as its server defines it now: pinned to this definition, with the changed parts.

    `read_only` is only true if the server does not contradict itself.
    """

    tool: MCPTool
    changes: tuple[str, ...]
    read_only: bool


def current_tool(
    listing: Mapping[str, ToolDefinition],
    tool: MCPTool,
    route: ServerRoute,
    digest: str | None,
    new_name: str | None = None,
) -> CurrentTool:
    """Finds a recorded tool among the tools that its server offers now.

    If its table lost the tool cell, ``tool`` has the name shown to people and no definition. ``digest`` is
    that of the definition that was called. A ``new_name``, given by a person, does not count as a change.
    Raises `ToolNotFound` with similar names if the server has no such tool any more.
    """
    definition = listing.get(new_name or tool.tool_name)
    if (
        new_name is None
        and not tool.schema_json
        and digest
        and (definition is None or definition.digest != digest)
    ):
        # The digest covers the name, so a tool with the same digest is the recorded one under its real name.
        same = (other for other in listing.values() if other.digest == digest)
        definition = next(same, definition)
    if definition is None:
        raise _missing(tool, new_name or tool.tool_name, route, listing)
    current = pinned_tool(definition, route, shown_name=tool.name)
    is_read_only = definition.read_only is True and definition.destructive is not True
    changes = _changes(tool, digest, definition)
    if new_name is not None and tool.schema_json and changes == _NO_PARTS:
        changes = ()  # only the name is new, which the digest covers
    return CurrentTool(current, changes, is_read_only)


def _missing(
    tool: MCPTool, name: str, route: ServerRoute, listing: Mapping[str, ToolDefinition]
) -> ToolNotFound:
    alike = [
        other.name
        for other in listing.values()
        if tool.schema_json
        and (other.description or "") == tool.description
        and other.input_schema == tool.parameter_schema
    ]
    renamed = (
        f"It may have been renamed: {' and '.join(map(repr, alike))} has its description and parameters."
        f" Say so under 'Renamed tools' (--tool {tool.tool_name}={alike[0]})"
        if alike
        else "Ask whoever runs the server what became of it"
    )
    return ToolNotFound(
        f"The server has no tool {name!r}{' any more' if name == tool.tool_name else ''}",
        server=route.url,
        tool=tool.name,
        fix=renamed,
    )


def _changes(tool: MCPTool, digest: str | None, definition: ToolDefinition) -> tuple[str, ...]:
    if digest == definition.digest or (digest is None and not tool.schema_json):
        return ()
    changes = changed_parts(tool, definition)
    # Without a recorded digest only the parts in the cell can show a change.
    return () if digest is None and changes == _NO_PARTS else changes


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadyToReplay:
    """A call that may be made, perhaps at the same time as others.

    For `changes` and `digest` see `ReplayedCall`; `other_secrets` are pointers to arguments whose secret is
    not the recorded one.
    """

    recorded: RecordedCall
    call: PlannedCall
    overlaps: bool
    changes: tuple[str, ...] = ()
    digest: str | None = None
    other_secrets: tuple[str, ...] = ()

    @property
    def remarks(self) -> Iterator[str]:
        """What is not as it was on record, beside the result."""
        if self.other_secrets:
            yield f"Not the same secret as on record: {', '.join(self.other_secrets)}"
        if self.changes:
            yield f"The tool has changed: {', '.join(self.changes)}"


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
    """Decides about calls. Not safe for several threads. `is_canceled` ends waiting for servers."""

    run: Run
    options: ReplayOptions
    calls: Collection[RecordedCall]
    is_canceled: Callable[[], bool]
    _routes: dict[ServerRoute, ServerRoute] = field(
        init=False, default_factory=dict["ServerRoute", "ServerRoute"]
    )

    def decide(self, recorded: RecordedCall) -> ReplayedCall | ReadyToReplay:
        """A verdict, or a call that may be made. Raises `Canceled` if the person stopped the replay."""
        try:
            if not self.options.rows.has(recorded.record, recorded.place):
                raise _Verdict(ReplayVerdict.SKIPPED, "Not among the chosen rows")
            if recorded.record.status in _NOT_MADE:
                why = f"It was not made when it was recorded: {recorded.record.status.value}"
                raise _Verdict(ReplayVerdict.SKIPPED, why)
            if recorded.tool_is_request:
                why = f"It is no call of a tool, but {recorded.record.tool_name} of its server"
                raise _Verdict(ReplayVerdict.SKIPPED, why)
            if recorded.record.status is CallStatus.NOT_FOUND and recorded.names_no_server:
                self._look_everywhere(cast("str", recorded.record.tool_name))
            return self._decided(recorded, _tool_of(recorded))
        except _Verdict as found:
            return found.on(recorded)
        except Canceled:
            raise
        except ToolNotFound as error:
            if recorded.record.status is CallStatus.NOT_FOUND:
                return _Verdict(ReplayVerdict.SAME, "There was no such tool then, and there is none now").on(
                    recorded
                )
            return _Verdict(ReplayVerdict.TOOL_MISSING, str(error)).on(recorded)
        except MCPError as error:
            reason = self.run.secrets.text(error.quoting)
            return _Verdict(ReplayVerdict.FAILED, reason).on(recorded)

    def _decided(self, recorded: RecordedCall, tool: Tool) -> ReadyToReplay:  # @ToolTypeDispatch
        match tool:
            case MCPTool():
                return self._decided_mcp(recorded, tool)
            case WorkflowTool():
                return self._decided_workflow(recorded, tool)
            case _:
                assert_never(tool)

    def _decided_mcp(self, recorded: RecordedCall, tool: MCPTool) -> ReadyToReplay:
        if tool.route not in self._routes:
            # Once per route, as it may raise and look through all mappings.
            self._routes[tool.route] = self.options.route(tool.route)
        route = self._routes[tool.route]
        digest = recorded.record.digest or tool.digest
        listing = self.run.definitions.listing(route, is_canceled=self.is_canceled)
        current = current_tool(listing, tool, route, digest, self.options.new_name(tool))
        changes, now = current.changes, current.tool.digest
        if recorded.record.status is CallStatus.NOT_FOUND:
            raise _there_now(current.tool, changes)
        if changes and not self.options.call_changed:
            reason = f"The definition is not the one on record: {', '.join(changes)}. It was not called"
            raise _Verdict(ReplayVerdict.TOOL_CHANGED, reason, changes, now)
        arguments, others = self._arguments(recorded)
        named = self.options.may_call(tool.name, tool.tool_name, current.tool.tool_name)
        if not self.options.dry_run and (current.read_only or named):
            call = PlannedCall(tool=current.tool, arguments=arguments, input_row=recorded.record.input_row)
            return ReadyToReplay(
                recorded=recorded,
                call=call,
                overlaps=current.read_only,
                changes=changes,
                digest=now,
                other_secrets=others,
            )
        verdict, reason = _dry_run(recorded.record, current.tool, arguments)
        if verdict is ReplayVerdict.SKIPPED:
            why = "This is a dry run" if self.options.dry_run else "The tool is not declared as read-only"
            reason = f"{why}. {reason}"
        raise _Verdict(verdict, reason, changes, now)

    def _look_everywhere(self, name: str) -> None:
        """Looks for a name that no tool had, and that therefore has no server, at all that are on record."""
        for route in sorted(routes_of(self.calls, self.options), key=lambda route: route.uri):
            definition = self.run.definitions.listing(route, is_canceled=self.is_canceled).get(name)
            if definition is not None:
                raise _there_now(pinned_tool(definition, route, shown_name=name))
        raise ToolNotFound(f"No server has a tool {name!r}")

    def _decided_workflow(self, recorded: RecordedCall, tool: WorkflowTool) -> ReadyToReplay:
        digest_of, before = self.run.workflow_digest, recorded.record.digest
        now = None if digest_of is None else digest_of(tool)
        changes = ("workflow",) if before and now and before != now else ()
        if changes and not self.options.call_changed:
            reason = "The workflow in its file store is not the one that ran. It was not called"
            raise _Verdict(ReplayVerdict.TOOL_CHANGED, reason, changes, now)
        arguments, others = self._arguments(recorded)
        if tool.input_ports:
            raise _Verdict(
                ReplayVerdict.SKIPPED, "The workflow wants input tables, which the record does not hold"
            )
        if self.options.dry_run:
            raise _Verdict(ReplayVerdict.SKIPPED, "This is a dry run")
        if self.run.run_workflow is None:
            raise _Verdict(ReplayVerdict.SKIPPED, "A workflow runs only in KNIME")
        if not self.options.may_call(tool.name):
            raise _Verdict(ReplayVerdict.SKIPPED, "A workflow runs only if it is named")
        call = PlannedCall(tool=tool, arguments=arguments, input_row=recorded.record.input_row)
        return ReadyToReplay(
            recorded=recorded, call=call, overlaps=False, changes=changes, digest=now, other_secrets=others
        )

    def _arguments(self, recorded: RecordedCall) -> tuple[dict[str, Any], tuple[str, ...]]:
        """The arguments with the secrets that were given; pointers to secrets that are not as on record."""
        record = recorded.record
        if record.arguments is None:
            raise _Verdict(ReplayVerdict.SKIPPED, "The record holds no arguments")
        try:
            parsed = json.loads(record.arguments)
        except (ValueError, RecursionError):
            parsed = None
        if not isinstance(parsed, dict):
            raise _Verdict(ReplayVerdict.FAILED, "The arguments on record are not a JSON object")
        hidden = HiddenSecrets.parse(record.secrets)
        # In a table without the column that names the marks, all that looks like one may be one.
        marks = hidden.arguments if recorded.has_secrets else marks_in(parsed)
        given = self.options.secrets
        missing = {
            digest: place for place, digests in marks.items() for digest in digests if digest not in given
        }
        if missing:
            places = ", ".join(f"{place or 'a name'} ({digest})" for digest, place in missing.items())
            reason = f"The record does not hold the secrets in its arguments: {places}. Give their values"
            raise _Verdict(ReplayVerdict.SKIPPED, reason)
        arguments = with_secrets(parsed, marks, given)
        if not hidden.salt:
            return arguments, ()
        marker = self.run.secrets.salted(bytes.fromhex(hidden.salt))
        others = [
            place
            for place, digests in marks.items()
            if not all(marker.is_same(digest, given[digest]) for digest in digests)
        ]
        return arguments, tuple(others)


def _there_now(tool: MCPTool, changes: tuple[str, ...] = ()) -> _Verdict:
    reason = f"There was no such tool then, and {tool.route.url} has it now. It was not called"
    return _Verdict(ReplayVerdict.DIFFERENT, reason, changes, tool.digest)


def routes_of(calls: Iterable[RecordedCall], options: ReplayOptions) -> set[ServerRoute]:
    """The servers that a replay may contact, so that credentials can be looked up before it starts."""
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
    from .checked_calls import ArgumentValidator

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
