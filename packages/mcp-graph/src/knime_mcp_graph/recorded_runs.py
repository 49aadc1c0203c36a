"""The values that a node of a saved run saw, for expressions that are tried on real data."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

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
    view = _view(_records(recorded), at)
    bounds = Bounds(seconds=DEFAULT_SECONDS)
    return evaluate(expression, view.context, bounds=bounds, answers=view.answer)


def rule_in_run(rule: Any, recorded: Any, at: str | None = None, *, standard: bool = False) -> bool:
    """Whether a rule of a switch holds, on what a node of a saved run saw; see `evaluate_in_run`."""
    view = _view(_records(recorded), at)
    bounds = Bounds(seconds=DEFAULT_SECONDS)
    return holds(rule, view.context, standard=standard, bounds=bounds, answers=view.answer)


def context_in_run(recorded: Any, at: str | None = None) -> dict[str, Any]:
    """The values that a node of a saved run saw, by node; see `evaluate_in_run`."""
    return json_value(_view(_records(recorded), at).context)


def _records(recorded: Any) -> list[NodeRecord]:
    members = as_mapping(recorded)
    raw = as_list(recorded) or as_list(members.get("executionHistory", members.get("history")))
    found = [_record(index, as_mapping(entry)) for index, entry in enumerate(raw)]
    if not found or not all(record.node_id for record in found):
        fix = "Save one with mcpgraph run FILE TOOL --save-run RUN.json"
        raise SettingInvalid("This is no saved run of a graph", setting="run", fix=fix)
    return found


def _record(index: int, raw: Mapping[str, Any]) -> NodeRecord:
    return NodeRecord(
        index=index,
        node_id=str(raw.get("nodeId") or ""),
        node_type=str(raw.get("nodeType") or ""),
        branch=tuple(map(str, as_list(raw.get("branch")))),
        input=raw.get("input", UNDEFINED),
        output=raw.get("output", UNDEFINED),
        content=as_list(raw.get("content")),
        start_time=0.0,
        error=as_mapping(raw["error"]).get("message", "") if "error" in raw else None,
    )


def _view(records: Sequence[NodeRecord], at: str | None) -> View:
    """What was in the line of an execution when it began; without one, what the whole run had at its end."""
    if at is None:
        return _filled(View(None), records, (), len(records))
    numbers = [r.index for r in records if (str(r.index) if at.isdecimal() else r.node_id) == at]
    if not numbers:
        fix = did_you_mean(at, {record.node_id for record in records})
        fix = fix or f"It has executions 0 to {len(records) - 1}"
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


def _opener(name: str) -> int:
    """The execution that opened a branch, from its name, as in ``fan#3[left]``."""
    return int(name.rpartition("[")[0].rpartition("#")[2])


def _given(opener: NodeRecord, name: str) -> dict[str, Any]:
    """What a chain of a forEach has from the beginning: its entry of the list."""
    if opener.node_type != "forEach":
        return {}
    index = int(name.rpartition("[")[2].rstrip("]"))
    return {opener.node_id: {"item": as_list(opener.input)[index], "index": index}}
