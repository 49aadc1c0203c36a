"""What a run tells afterwards: the ways that it took, and the values that a node of it saw."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from knime_mcp.types.errors import SettingInvalid
from knime_mcp.yaml_text import as_list, as_mapping, did_you_mean

from .expressions import UNDEFINED, Bounds, evaluate, holds
from .expressions.engine import DEFAULT_SECONDS
from .expressions.javascript import json_value
from .run_state import NodeRecord, View

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


def evaluate_in_run(expression: str, recorded: Any, at: str | None = None) -> Any:
    """Evaluates JSONata on what a node of a saved run saw, or on everything there was at the end.

    Args:
        expression: The expression; it has the functions of histories, too.
        recorded: What ``mcpgraph run --save-run`` writes, or its list of executions.
        at: Number of an execution, or the id of a node, of which the last execution is taken.

    Returns:
        JSON, or `UNDEFINED` if the expression finds nothing.

    Raises:
        SettingInvalid: The run has no such execution.
        ExpressionError: The expression failed.
    """
    view = _view(saved_records(recorded), at)
    bounds = Bounds(seconds=DEFAULT_SECONDS)
    return evaluate(expression, view.context, bounds=bounds, answers=view.answer)


def rule_in_run(rule: Any, recorded: Any, at: str | None = None, *, standard: bool = False) -> bool:
    """Whether a rule of a switch holds, on what a node of a saved run saw; see `evaluate_in_run`."""
    view = _view(saved_records(recorded), at)
    bounds = Bounds(seconds=DEFAULT_SECONDS)
    return holds(rule, view.context, standard=standard, bounds=bounds, answers=view.answer)


def context_in_run(recorded: Any, at: str | None = None) -> dict[str, Any]:
    """The values that a node of a saved run saw, by node; see `evaluate_in_run`."""
    return json_value(_view(saved_records(recorded), at).context)


def saved_records(recorded: Any) -> list[NodeRecord]:
    """The executions of a saved run, or of their list alone, as other programs write it."""
    members = as_mapping(recorded)
    raw = members.get("executionHistory", members.get("history"))
    raw = as_list(recorded) if isinstance(recorded, list) else raw
    found = [_record(index, as_mapping(entry)) for index, entry in enumerate(as_list(raw))]
    if not isinstance(raw, list) or not all(record.node_id for record in found):
        fix = "Save one with mcpgraph run FILE TOOL --save-run RUN.json"
        raise SettingInvalid("This is no saved run of a graph", setting="run", fix=fix)
    return found


def _record(index: int, raw: Mapping[str, Any]) -> NodeRecord:
    error, took = raw.get("error"), raw.get("duration")
    return NodeRecord(
        index=index,
        node_id=str(raw.get("nodeId") or ""),
        node_type=str(raw.get("nodeType") or ""),
        branch=tuple(
            name
            for name in map(str, as_list(raw.get("branch")))
            if _BRANCH.fullmatch(name) and _opener(name) < index
        ),
        input=raw.get("input", UNDEFINED),
        output=raw.get("output", UNDEFINED),
        content=as_list(raw.get("content")),
        start_time=0.0,
        end_time=took if isinstance(took, int | float) else None,
        error=str(as_mapping(error).get("message", error)) if error else None,
    )


Ways = list[tuple[str, str]]
"""Pairs of the ids of nodes."""


def ways_taken(records: Sequence[NodeRecord]) -> list[Ways | None]:
    """For each execution the ways by which the run came to it; None for those of tools that nodes called.

    Branches and entries of a loop run side by side: in each of them a node follows the one before it, and the
    first one follows the node that the branch belongs to. When that goes on, they have ended: the entries of
    a loop where they began, branches at the node behind them.
    """
    by_index = {record.index: record for record in records}
    last: dict[tuple[str, ...], NodeRecord] = {}
    ends: dict[int, dict[str, str]] = {}  # by the node around them, the last node of each branch
    found: list[Ways | None] = []
    for record in records:
        if callers(record, by_index):
            found.append(None)
            continue
        ways: Ways = []
        before = last.get(record.branch)
        if before is not None:
            ways.append((before.node_id, record.node_id))
            meeting = before.node_id if before.node_type == "forEach" else record.node_id
            ways += [(end, meeting) for end in ends.pop(before.index, {}).values()]
        if record.branch:
            around = by_index[_opener(record.branch[-1])]
            ways += [] if before is not None else [(around.node_id, record.node_id)]
            ends.setdefault(around.index, {})[record.branch[-1]] = record.node_id
        last[record.branch] = record
        found.append(ways)
    return found


def callers(record: NodeRecord, by_index: Mapping[int, NodeRecord]) -> list[str]:
    """The nodes that called the tool of an execution, outermost first; none for the run's own tool."""
    openers = [by_index[_opener(name)] for name in record.branch]
    return [opener.node_id for opener in openers if opener.node_type == "tool"]


def _view(records: Sequence[NodeRecord], at: str | None) -> View:
    """What was in the line of an execution when it began; without one, what the whole run had at its end."""
    if at is None:
        return _filled(View(None), records, (), len(records))
    numbers = [r.index for r in records if (str(r.index) if at.isdecimal() else r.node_id) == at]
    if not numbers:
        fix = did_you_mean(at, {record.node_id for record in records})
        fix = fix or (f"It has executions 0 to {len(records) - 1}" if records else "No node of it ran")
        raise SettingInvalid(f"The run has no execution '{at}'", setting="at", fix=fix)
    # A node in a loop has run several times: its id means the last time.
    seen = records[numbers[-1]]
    view = View(None)
    for depth, name in enumerate(seen.branch):
        opener = records[_opener(name)]
        if opener.node_type == "tool":
            view = View(None)  # a called tool sees its own nodes only
            continue
        view = View(_filled(view, records, seen.branch[:depth], opener.index), _given(opener, name))
    return _filled(view, records, seen.branch, seen.index)


def _filled(view: View, records: Sequence[NodeRecord], branch: tuple[str, ...], end: int) -> View:
    """Adds what ran in a line before the execution `end`: its own nodes, and the branches that had joined."""
    for record in records[:end]:
        if record.branch != branch:
            continue
        if record.node_type in {"parallel", "forEach"} and record.error is None:
            prefix = f"{record.node_id}#{record.index}["
            inner = dict.fromkeys(r.branch for r in records if r.branch and r.branch[:-1] == branch)
            for chain in (chain for chain in inner if chain[-1].startswith(prefix)):
                joined = _filled(View(view, _given(record, chain[-1])), records, chain, len(records))
                view.join(joined)
        view.add(record)
    return view


_BRANCH: Final = re.compile(r".*#([0-9]{1,9})\[(.*)\]", re.DOTALL)


def _opener(name: str) -> int:
    """The execution that opened a branch, from its name, as in ``fan#3[left]``."""
    return int(_BRANCH.sub(r"\1", name))


def _given(opener: NodeRecord, name: str) -> dict[str, Any]:
    """What a chain of a forEach has from the beginning: its entry of the list."""
    number = _BRANCH.sub(r"\2", name)
    if opener.node_type != "forEach" or re.fullmatch("[0-9]{1,9}", number) is None:
        return {}
    index = int(number)
    items = as_list(opener.input)[index : index + 1]  # none if the history does not have it
    return {opener.node_id: {"item": items[0], "index": index}} if items else {}
