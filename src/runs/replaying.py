"""Replay: makes the calls on record again, as far as that changes nothing, and compares the results.

Safe by default: an MCP tool is called only if the server's current definition declares it as read-only and is
the same as the recorded one. A server's word is not proof; but a tool that was not read-only when it was
recorded cannot become callable by a new annotation, because its definition has changed. All other MCP tools
get a dry run: their arguments are checked against the current definition, and nothing is sent. A workflow can
do anything, and runs only if a person names it.

Calls are made in recorded order. Read-only calls may overlap; every other call waits for all before it.
"""

from __future__ import annotations

import contextlib
import fnmatch
import json
import re
import time
from array import array
from collections import Counter, deque
from collections.abc import Collection
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any, BinaryIO, Final, Self, TypeAlias, assert_never

from ..audit.calls_table import is_journal, records_of, tool_of
from ..audit.journal_reading import JournalError, JournalLine, JournalReading, part_file
from ..audit.record import CallRecord, CallStatus
from ..audit.secrets import HiddenSecrets, marks_in, with_secrets
from ..audit.table_formats import read_table_file
from ..audit.verify import verify_file, verify_table
from ..client.clock import POLL_SECONDS
from ..client.network import origin_of
from ..types.columns import ROW_ID, arrow_columns
from ..types.errors import ArgumentsInvalid, Canceled, MCPError, SettingInvalid, ToolFormatError, ToolNotFound
from ..types.routing import ServerRoute
from ..types.texts import counted
from ..types.tool import MCPTool, WorkflowTool
from .call_values import PlannedCall
from .checked_calls import ArgumentValidator, changed_parts, pinned_tool
from .replay_comparison import Comparison, ReplayRules, compare, learn
from .server_questions import REQUESTS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    import pyarrow as pa

    from ..audit.verdicts import Verification
    from ..client.protocol.tools import ToolDefinition
    from ..types.columns import ColumnKind
    from ..types.tool import Tool
    from .engine import Run
    from .replay_comparison import ReplayRule

_RANGE: Final = re.compile(r"(\d*)\s*-\s*(\d*)")
_NO_PARTS = ("definition",)
_NOT_MADE: Final = frozenset({CallStatus.DENIED, CallStatus.CANCELED})
_AHEAD: Final = 4
_ROWS_PER_PIECE: Final = 256
_PAUSE_SECONDS: Final = 1.1  # between two calls of a tool that are to tell what differs by itself: a clock
_MOST_PAUSES: Final = 3  # for each tool
_Made: TypeAlias = "tuple[CallRecord, CallRecord | None]"


class ReplayVerdict(StrEnum):
    """The outcome of replaying a call; the text of the *Verdict* column."""

    SAME = "same"
    DIFFERENT = "different"
    TOOL_CHANGED = "tool changed"
    """The tool's definition differs from the recorded one; the call was not made."""
    TOOL_MISSING = "tool missing"
    SKIPPED = "skipped"
    """Not made, and nothing is wrong as far as a dry run can tell; or made, and no result is on record."""
    FAILED = "failed"
    """The call could not be made, so that there is nothing to compare."""

    @property
    def is_good(self) -> bool:
        """True if the call needs no attention."""
        return self in (ReplayVerdict.SAME, ReplayVerdict.SKIPPED)


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedCall:
    """A call on record, at its place in the table or file, from 1.

    `tool` is None if its cell is lost, `row_id` outside KNIME. `has_result` is False if the record comes from
    a table that has lost the columns of results, `has_secrets` if that table does not say what is a mark.
    """

    record: CallRecord
    tool: Tool | None
    place: int
    row_id: str | None = None
    has_result: bool = True
    has_secrets: bool = True

    @classmethod
    def of(cls, record: CallRecord, place: int, *, has_result: bool = True, has_secrets: bool = True) -> Self:
        """The call of a record with its tool; the tool is None if it cannot be read.

        Spreadsheets cut off long cells.
        """
        try:
            tool = tool_of(record.tool) if record.tool else None
        except ToolFormatError:
            tool = None
        return cls(record=record, tool=tool, place=place, has_result=has_result, has_secrets=has_secrets)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayedCall:
    """A recorded call and the outcome of its replay."""

    recorded: RecordedCall  # the call on record
    verdict: ReplayVerdict  # the verdict of the comparison, or why there was no comparison
    reason: str | None = None  # the reason for the verdict, as a sentence, or None
    new: CallRecord | None = None  # the record of the new call, None if the call was not made
    # JSON text of the patch from the recorded to the new result, None without a difference
    patch: str | None = None
    rules: tuple[ReplayRule, ...] = ()  # the rules that left something out of the comparison
    changes: tuple[str, ...] = ()  # parts of the tool's definition that differ from the recorded ones
    digest: str | None = None  # digest of the current definition, None if it is not known


class JournalCalls(Collection[RecordedCall]):
    """The calls of a journal in recorded order, read again by each iteration.

    An iteration raises `JournalError` if the file was changed since it was opened.
    """

    def __init__(self, file: Path) -> None:
        self._file = file
        # Where the lines begin, and in which file of the journal: twelve bytes for each of a million calls.
        self._starts, self._parts = array("Q"), array("I")
        self._order: list[int] = []  # none, if the calls are in order already
        last, in_order = ("", 0), True
        for line, record in JournalReading(file):
            self._starts.append(line.start)
            self._parts.append(line.part)
            in_order, last = in_order and (record.run, record.call) >= last, (record.run, record.call)
        if not in_order:  # files that somebody put one behind the other
            keys = [(call.record.run, call.record.call) for call in self]
            self._order = sorted(range(len(keys)), key=keys.__getitem__)

    def __len__(self) -> int:
        return len(self._starts)

    def __iter__(self) -> Iterator[RecordedCall]:
        with ExitStack() as stack:
            files: dict[int, BinaryIO] = {}
            for index in self._order or range(len(self._starts)):
                part, start = self._parts[index], self._starts[index]
                if part not in files:
                    files[part] = stack.enter_context(part_file(self._file, part).open("rb"))
                files[part].seek(start)
                line = JournalLine(0, start, files[part].readline())
                try:
                    record = CallRecord.from_json(line.entry())
                except (ValueError, RecursionError):
                    raise JournalError(f"{self._file.name} was changed while it was read") from None
                yield RecordedCall.of(record, index + 1)

    def __contains__(self, call: object) -> bool:
        return any(call == recorded for recorded in self)


@dataclass(frozen=True, slots=True)
class Recording:
    """The calls to replay in recorded order (by run and number), and what verifying their records found."""

    calls: Collection[RecordedCall]
    verification: Verification


def read_recording(file: Path, *, head: str | None = None) -> Recording:
    """Reads a journal, or a table in one of `table_formats.FORMATS`; for ``head`` see `verify.verify_file`.

    Raises `JournalError`, `TableError` or `OSError` if it cannot be read, or holds no calls.
    """
    if is_journal(file):
        return Recording(JournalCalls(file), verify_file(file, head=head))
    return recording_of(read_table_file(file).table, head=head)


def recording_of(
    table: pa.Table,
    tools: Sequence[Tool | None] | None = None,
    row_ids: Sequence[str] | None = None,
    *,
    head: str | None = None,
) -> Recording:
    """Reads a table *Tool calls*, which needs *Tool name* and *Arguments*; else `TableError`.

    ``tools`` are those of the rows, if the caller has read them already, ``row_ids`` the RowIDs, if any.
    """
    has_result = not {"Result", "Structured result"}.isdisjoint(table.column_names)
    calls = [
        RecordedCall.of(record, place, has_result=has_result, has_secrets="Secrets" in table.column_names)
        for place, record in enumerate(records_of(table, tools), start=1)
    ]
    if tools is not None:
        calls = [replace(call, tool=tool) for call, tool in zip(calls, tools, strict=True)]
    if row_ids is not None:
        calls = [replace(call, row_id=row_id) for call, row_id in zip(calls, row_ids, strict=True)]
    # A table may have been sorted by others, and calls may depend on the ones before.
    calls.sort(key=lambda call: (call.record.run, call.record.call))
    return Recording(calls, verify_table(table, tools, head=head))


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


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayOptions:
    """The options of a replay. With the defaults, a replay changes nothing on any server."""

    # names of tools, with ``*`` and ``?``, that are called although they are not declared as read-only. A
    # name is either the shown name or the name that the server knows.
    also_call: tuple[str, ...] = ()
    call_changed: bool = False  # whether tools are called whose definition differs from the recorded one
    dry_run: bool = False  # whether no calls are made at all
    force_altered: bool = False  # whether calls of altered records are made, too; otherwise none is
    rows: RowSelection = RowSelection()  # the calls to replay
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


def _current_tool(
    listing: Mapping[str, ToolDefinition],
    tool: MCPTool,
    route: ServerRoute,
    digest: str | None,
    new_name: str | None,
) -> tuple[ToolDefinition, tuple[str, ...]]:
    """Finds a recorded tool among those that its server offers now, with the parts that changed.

    If its table lost the tool cell, ``tool`` has the name shown to people and no definition. ``digest`` is
    that of the definition that was called. A ``new_name``, given by a person, does not count as a change.
    Raises `ToolNotFound` with similar names if the server has no such tool any more.
    """
    definition = listing.get(new_name or tool.tool_name)
    is_lost = new_name is None and not tool.schema_json and digest
    if is_lost and (definition is None or definition.digest != digest):
        # The digest covers the name, so a tool with the same digest is the recorded one under its real name.
        definition = next((other for other in listing.values() if other.digest == digest), definition)
    if definition is None:
        raise _missing(tool, new_name or tool.tool_name, route, listing)
    changes = _changes(tool, digest, definition)
    if new_name is not None and tool.schema_json and changes == _NO_PARTS:
        changes = ()  # only the name is new, which the digest covers
    return definition, changes


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
        return ReplayedCall(recorded=recorded, **vars(self))


@dataclass(slots=True)
class _Decider:
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
            name = recorded.record.tool_name
            if name in REQUESTS and recorded.record.digest is None:
                raise _Verdict(ReplayVerdict.SKIPPED, f"It is no call of a tool, but {name} of its server")
            is_lost = recorded.tool is None and not recorded.record.server
            if recorded.record.status is CallStatus.NOT_FOUND and is_lost and name:
                self._look_everywhere(name)
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
        definition, changes = _current_tool(listing, tool, route, digest, self.options.new_name(tool))
        current, now = pinned_tool(definition, route, shown_name=tool.name), definition.digest
        # Only if the server does not contradict itself.
        is_read_only = definition.read_only is True and definition.destructive is not True
        if recorded.record.status is CallStatus.NOT_FOUND:
            raise _there_now(current, changes)
        if changes and not self.options.call_changed:
            reason = f"The definition is not the one on record: {', '.join(changes)}. It was not called"
            raise _Verdict(ReplayVerdict.TOOL_CHANGED, reason, changes, now)
        arguments, others = self._arguments(recorded)
        named = self.options.may_call(tool.name, tool.tool_name, current.tool_name)
        if not self.options.dry_run and (is_read_only or named):
            call = PlannedCall(tool=current, arguments=arguments, input_row=recorded.record.input_row)
            return ReadyToReplay(
                recorded=recorded,
                call=call,
                overlaps=is_read_only,
                changes=changes,
                digest=now,
                other_secrets=others,
            )
        verdict, reason = _dry_run(recorded.record, current, arguments)
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


@dataclass(slots=True)
class Replayer:
    """Replays the calls of one table or file."""

    run: Run  # the run that the new calls belong to; its journal has them as they finish
    options: ReplayOptions  # the options of the replay
    is_canceled: Callable[[], bool] = lambda: False  # called in the calling thread, at least every 0.25 s
    # called once if the replay ends early, so that calls in flight stop
    on_cancel: Callable[[], None] = lambda: None
    # what differed between two calls a moment apart; it counts for all calls that end later
    learned: ReplayRules = field(init=False, default_factory=ReplayRules)
    _pauses: Counter[str | None] = field(init=False, default_factory=Counter["str | None"])

    def __post_init__(self) -> None:
        self.run.secrets.learn(self.options.secrets.values())

    def replay_all(
        self,
        recording: Recording,
        *,
        take: Callable[[ReplayedCall], None],
        write: Callable[[list[ReplayedCall]], None],
        on_finished: Callable[[int], None],
    ) -> ReplaySummary:
        """Replays a recording, and ends the run. A person may have stopped it, see `ReplaySummary.canceled`.

        ``take`` is called with each replayed call, in recorded order; ``write`` with them in pieces, for
        tables, and once with none if there are none; ``on_finished`` with the number of finished calls.
        """
        summary = ReplaySummary(recording.verification, self.options.rules)
        if recording.verification.is_false and not (self.options.force_altered or self.options.dry_run):
            raise _altered(recording.verification)
        piece: list[ReplayedCall] = []
        with self.run:
            try:
                for call in self.replay(recording.calls):
                    summary.add(call)
                    take(call)
                    piece.append(call)
                    if len(piece) == _ROWS_PER_PIECE:
                        write(piece)
                        piece = []
                    on_finished(summary.counts.total())
            except Canceled:
                summary.canceled = True
                self.run.close("canceled")
            summary.learned = self.learned
            if piece or not summary.counts:
                write(piece)
        return summary

    def replay(self, calls: Collection[RecordedCall]) -> Iterator[ReplayedCall]:
        """Replays calls, which are made and reported in the order in which they come.

        Raises `Canceled` if a person stopped the replay; calls in flight were canceled and have ended.
        """
        decider = _Decider(self.run, self.options, calls, self.is_canceled)
        # The calls in their order, finished or not: what is reported keeps it while calls overlap.
        window: deque[ReplayedCall | tuple[ReadyToReplay, Future[_Made]]] = deque()
        stopped = False
        with ThreadPoolExecutor(self.options.concurrency, thread_name_prefix="mcp-replay") as pool:
            try:
                for recorded in calls:
                    if stopped:
                        reason = "The replay was to stop at the first difference"
                        verdict = ReplayVerdict.SKIPPED
                        yield ReplayedCall(recorded=recorded, verdict=verdict, reason=reason)
                        continue
                    step = decider.decide(recorded)
                    overlaps = isinstance(step, ReplayedCall) or step.overlaps
                    # A call that changes something is made alone, after all before it:
                    # their order may matter.
                    yield from self._drained(window, room=self.options.concurrency if overlaps else 0)
                    if isinstance(step, ReplayedCall):
                        window.append(step)
                    elif isinstance(step.call.tool, WorkflowTool):
                        # KNIME runs a workflow in the context of the thread that executes the node.
                        window.append(self._finished(step, self._make(step)))
                    else:
                        window.append((step, pool.submit(self._make, step)))
                    if not overlaps or self.options.stop_at_first_difference:
                        for done in self._drained(window, room=0):
                            stopped = self.options.stop_at_first_difference and not done.verdict.is_good
                            yield done
                yield from self._drained(window, room=0)
            except BaseException:
                for entry in window:
                    if isinstance(entry, tuple):
                        entry[1].cancel()
                self.on_cancel()
                raise

    def _drained(
        self, window: deque[ReplayedCall | tuple[ReadyToReplay, Future[_Made]]], *, room: int
    ) -> Iterator[ReplayedCall]:
        """Yields finished calls, and waits until fewer than `room` calls are in flight."""
        while True:
            if self.is_canceled():
                raise Canceled("The replay was canceled")
            while window:
                entry = window[0]
                if isinstance(entry, ReplayedCall):
                    window.popleft()
                    yield entry
                elif entry[1].done():
                    window.popleft()
                    yield self._finished(entry[0], entry[1].result())
                else:
                    break
            flying = [e[1] for e in window if isinstance(e, tuple) and not e[1].done()]
            if not window or (room and len(flying) < room and len(window) < room * _AHEAD):
                return
            wait(flying, timeout=POLL_SECONDS, return_when=FIRST_COMPLETED)

    def _make(self, ready: ReadyToReplay) -> _Made:
        """Makes a call; twice if that is wanted and changes nothing, so far apart that clocks differ."""
        first = self.run.call(ready.call).record
        if not (self.options.twice and ready.overlaps and first.attempts):
            return first, None
        # The first calls of a tool show whether it has a clock; a pause for each would take hours.
        self._pauses[first.tool_name] += 1
        until = time.monotonic() + (_PAUSE_SECONDS if self._pauses[first.tool_name] <= _MOST_PAUSES else 0)
        while time.monotonic() < until and not self.is_canceled():
            time.sleep(POLL_SECONDS)
        return first, self.run.call(ready.call).record

    def _finished(self, ready: ReadyToReplay, made: _Made) -> ReplayedCall:
        new, again = made
        if again is not None:
            self.learned = self.learned.and_(learn(new, again))
        recorded = ready.recorded.record
        has_answer = ready.recorded.has_result or recorded.error is not None
        verdict, reason, found = ReplayVerdict.SAME, None, Comparison(None)
        match new.status:
            case CallStatus.CANCELED:
                verdict, reason = ReplayVerdict.SKIPPED, new.error
            case CallStatus.NOT_FOUND:
                verdict, reason = ReplayVerdict.TOOL_MISSING, new.error
            case CallStatus.FAILED if new.result is None and new.structured_result is None:
                verdict, reason = ReplayVerdict.FAILED, new.error
            case _ if not has_answer:
                verdict = ReplayVerdict.SKIPPED
                reason = f"It is '{new.status.value}' now, but the table has no column Result to compare with"
            case _:
                found = compare(recorded, new, self.options.rules.and_(self.learned.rules))
                if found.patch is not None:
                    verdict = ReplayVerdict.DIFFERENT
                    if recorded.status is not new.status:
                        was, now = recorded.status.value, new.status.value
                        error = f": {new.error}" if new.error else ""
                        reason = f"It was '{was}' on record and is '{now}' now{error}"
                reason = ". ".join(filter(None, (reason, _of_rules(found)))) or None
        for message in ready.remarks:
            reason = f"{message}. {reason}" if reason else message
        return ReplayedCall(
            recorded=ready.recorded,
            verdict=verdict,
            reason=reason,
            new=new,
            patch=found.patch,
            rules=found.used,
            changes=ready.changes,
            digest=ready.digest,
        )


def _altered(verification: Verification) -> MCPError:
    verdict = verification.verdict
    found = next(f.text for f in verification.findings if f.verdict is verdict)
    return MCPError(
        f"The records are {verification.in_words}, so nothing was called: {found.rstrip('.')}",
        fix="Restore them; or, if you know what was changed, use knime-mcp replay --force-altered",
    )


def _of_rules(found: Comparison) -> str | None:
    """What the rules have to do with the outcome of a comparison."""
    said: list[str] = []
    if found.used:
        said.append(f"Left out by rules: {', '.join(map(str, found.used))}")
    if found.would_allow:
        listed = ", ".join(map(str, found.would_allow))
        said.append(f"Only order or rounding differs; these rules would allow it: {listed}")
    return ". ".join(said) or None


_OUTCOME: Final[tuple[tuple[str, ColumnKind], ...]] = (
    *(("status", "string"), ("result", "string"), ("structured result", "string"), ("error", "string")),
    *(("at", "moment"), ("duration (s)", "double"), ("digest", "string")),
)
REPLAY_COLUMNS: Final[tuple[tuple[str, ColumnKind], ...]] = (
    *(("Verdict", "string"), ("Reason", "string"), ("Patch", "string")),
    *(("Tool name", "string"), ("Tool type", "string"), ("Server", "string")),
    *(("Run", "string"), ("Call", "int32"), ("Iteration", "int32"), ("Input row", "string")),
    ("Arguments", "string"),
    *((f"Recorded {name}", kind) for name, kind in _OUTCOME),
    *((f"New {name}", kind) for name, kind in _OUTCOME),
    ("New server", "string"),
)
"""Name and kind of each column of the table *Replay*. Results that were JSON when recorded stay JSON."""

SUMMARY_COLUMNS: Final[tuple[tuple[str, ColumnKind], ...]] = (
    ("Verdict", "string"),
    ("Calls", "int32"),
    ("Details", "string"),
)
"""Name and kind of each column of the table *Summary*: a row per verdict and one for the records' chain."""


def replay_table(calls: Iterable[ReplayedCall]) -> pa.Table:
    """The table *Replay* with `REPLAY_COLUMNS`, without RowIDs."""
    import pyarrow as pa

    return pa.table(arrow_columns(REPLAY_COLUMNS, [_row(call) for call in calls]))


def _row(call: ReplayedCall) -> tuple[Any, ...]:
    record, new = call.recorded.record, call.new
    return (
        *(call.verdict.value, call.reason, call.patch),
        *(record.tool_name, record.tool_type, record.server),
        *(record.run or None, record.call or None, record.iteration, record.input_row, record.arguments),
        *(*_outcome(record), record.digest, *_outcome(new), call.digest, None if new is None else new.server),
    )


def _outcome(call: CallRecord | None) -> tuple[Any, ...]:
    if call is None:
        return (None,) * (len(_OUTCOME) - 1)
    return call.status.value, call.result, call.structured_result, call.error, call.moment, call.duration


@dataclass(slots=True)
class ReplaySummary:
    """Counts of a replay, and its first differences.

    `called` counts the calls that were made; `first` has the first call of each verdict that needs attention,
    and `reasons` how many times each reason was given. `canceled` says whether a person stopped the replay.
    """

    verification: Verification
    rules: ReplayRules = field(default_factory=ReplayRules)  # those that were given
    learned: ReplayRules = field(default_factory=ReplayRules)
    used: Counter[ReplayRule] = field(
        default_factory=Counter["ReplayRule"]
    )  # how many calls each left something out of
    counts: Counter[ReplayVerdict] = field(default_factory=Counter[ReplayVerdict])
    called: int = 0
    first: dict[ReplayVerdict, ReplayedCall] = field(default_factory=dict[ReplayVerdict, "ReplayedCall"])
    reasons: dict[ReplayVerdict, Counter[str]] = field(default_factory=dict[ReplayVerdict, Counter[str]])
    canceled: bool = False

    @property
    def is_good(self) -> bool:
        """True if every call that ran is the same, no tool is missing or changed, and no call failed."""
        return all(verdict.is_good for verdict in self.counts)

    def add(self, call: ReplayedCall) -> None:
        self.counts[call.verdict] += 1
        self.called += call.new is not None and bool(call.new.attempts)
        self.used.update(call.rules)
        self.first.setdefault(call.verdict, call)
        if call.reason:
            self.reasons.setdefault(call.verdict, Counter())[call.reason] += 1

    def text(self) -> str:
        """The outcome in one line, such as ``3 same, 1 different``."""
        counts = [
            f"{self.counts[verdict]} {verdict.value}" for verdict in ReplayVerdict if self.counts[verdict]
        ]
        return ", ".join(counts) or "no calls"

    def rule_texts(self) -> list[str]:
        """Each rule, and how many calls it left something out of: nothing is ignored silently."""
        rules = self.rules.and_(self.learned.rules).rules
        return [
            f"{rule}{'' if rule in self.rules.rules else ' (learned)'}: left something out of"
            f" {counted(self.used[rule], 'call')}"
            for rule in rules
        ]

    def warning(self) -> str | None:
        """Everything that needs a person's attention, in one text, or None."""
        sentences: list[str] = []
        if not self.is_good:
            bad = next(verdict for verdict in self.first if not verdict.is_good)
            first = self.first[bad]
            record = first.recorded.record
            where = f"call {record.call}" if record.call else f"row {first.recorded.place}"
            why = f": {first.reason.rstrip('.')}" if first.reason else ""
            sentences.append(
                f"{self.text()}. First: {where} of {record.tool_name or 'no tool'}, {bad.value}{why}."
            )
        if not self.verification.consistent:
            problems = " ".join(finding.text for finding in self.verification.findings)
            sentences.append(f"The records are {self.verification.in_words}: {problems}")
        return " ".join(sentences) or None

    def table(self) -> pa.Table:
        """Makes the table *Summary*, with RowIDs as its first column."""
        import pyarrow as pa

        rows = [(verdict.value, self.counts[verdict], self._details(verdict)) for verdict in ReplayVerdict]
        checked = self.verification
        remarks = [finding.text for finding in checked.findings] + list(checked.notes)
        count = sum(run.count for run in checked.runs)
        rows.append((checked.in_words, count, "\n".join(remarks) or None))
        names = [*(verdict.value for verdict in ReplayVerdict), "records"]
        if texts := self.rule_texts():
            rows.append(("rules", sum(1 for rule in self.used if self.used[rule]), "\n".join(texts)))
            names.append("rules")
        row_ids = pa.array(names, pa.string())
        return pa.table({ROW_ID: row_ids, **arrow_columns(SUMMARY_COLUMNS, rows)})

    def _details(self, verdict: ReplayVerdict) -> str | None:
        reasons = self.reasons.get(verdict, Counter())
        return "\n".join(f"{count} × {reason}" for reason, count in reasons.most_common(20)) or None
