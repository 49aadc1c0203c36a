"""Changes of a document's data as people make them in the studio: nodes added, connected, renamed, removed.

They work on what was read of the document, also if it has mistakes; `edited` of `yaml_text` writes it back.
"""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, cast

from knime_mcp.types.errors import MCPError
from knime_mcp.yaml_text import as_list, as_mapping

from .expressions.json_logic import ARRAY_LOOPS, is_jsonata
from .expressions.jsonata_names import renamed
from .graph_model import Dialect

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from knime_mcp.yaml_text import Path

Raw = dict[str, Any]
_WAYS: Final = ("next", "onError", "do")


class GraphEditError(MCPError):
    """A change that the document does not allow."""

    CODE = "KMCP-GRAPH-EDIT"


def at(data: Any, path: Path) -> Any:
    """The value at a path; a change of something that is not there any more is an error."""
    for step in path:
        try:
            data = data[step]
        except (KeyError, IndexError, TypeError):
            raise GraphEditError("This part of the document is gone", fix="Look at it again") from None
    return data


def with_value(data: Any, path: Path, value: Any) -> Any:
    """The document with a value at a path; None takes it away. `GraphEditError` if the place is gone."""
    # What was read stays as it is: the studio compares both to write the change back.
    changed = deepcopy(data)
    if not path:
        return value
    holder = changed
    for step in path[:-1]:
        if isinstance(holder, dict) and step not in holder:
            cast("Raw", holder)[str(step)] = {}
        holder = at(holder, (step,))
    key = path[-1]
    if isinstance(holder, list) and isinstance(key, int):
        _with_entry(cast("list[Any]", holder), key, value)
    elif not isinstance(holder, dict):
        raise GraphEditError("This part of the document is gone", fix="Look at it again")
    elif value is None:
        cast("Raw", holder).pop(str(key), None)
    else:
        cast("Raw", holder)[str(key)] = value
    return changed


def _with_entry(entries: list[Any], index: int, value: Any) -> None:
    if value is None:
        # A slice, as the entry may be gone already.
        del entries[index : index + 1]
    elif index >= len(entries):
        entries.append(value)
    else:
        entries[index] = value


def with_node(data: Any, nodes: Path, node: Raw, *, after: str | None = None, dialect: Dialect) -> Any:
    """The document with one more node in the list `nodes`.

    After a node it takes over the way that this had: what followed that node follows the new one.
    """
    changed = deepcopy(data)
    entries = _entries(changed, nodes)
    if any(entry.get("id") == node["id"] for entry in entries):
        raise GraphEditError(f"There is a node '{node['id']}' already", fix="Choose another name")
    place = len(entries)
    before = next((entry for entry in entries if entry.get("id") == after), None)
    if before is not None:
        place = next(index for index, entry in enumerate(at(changed, nodes)) if entry is before) + 1
        following = before.get("next")
        if isinstance(following, str) and _has_next(node, dialect):
            node = {**node, "next": following}
        if _has_next(before, dialect):
            before["next"] = node["id"]
    at(changed, nodes).insert(place, node)
    return changed


def _has_next(node: Raw, dialect: Dialect) -> bool:
    kind = node.get("type")
    return kind != "exit" and not (kind == "switch" and dialect is Dialect.TARGET)


def connected(data: Any, nodes: Path, source: str, way: str, target: str, *, dialect: Dialect) -> Any:
    """The document with a way of a node that leads somewhere else, or a further one.

    `way` is a key of the node, ``branches`` or ``conditions`` for one more, or ``conditions.0.next`` and the
    like for one that is there. An empty target takes the way away.
    """
    changed = deepcopy(data)
    node = _node(changed, nodes, source)
    key, _, rest = way.partition(".")
    if key == "branches" and not rest:
        node["branches"] = [*as_list(node.get("branches")), target]
    elif key == "conditions" and not rest:
        # A rule that always holds, as one without a rule would be the default of the other dialect.
        condition = {"rule": True, "target" if dialect is Dialect.TARGET else "next": target}
        node["conditions"] = [*as_list(node.get("conditions")), condition]
    elif rest:
        number, _, inner = rest.partition(".")
        place: Path = (key, int(number), inner) if inner and target else (key, int(number))
        return with_value(changed, (*_path_of(changed, nodes, source), *place), target or None)
    elif target:
        node[key] = target
    else:
        node.pop(key, None)
    return changed


def without_node(data: Any, nodes: Path, node_id: str) -> Any:
    """The document without a node; ways to it lead to what followed it, or end."""
    changed = deepcopy(data)
    following = _node(changed, nodes, node_id).get("next")
    follow = following if isinstance(following, str) and following != node_id else None
    at(changed, nodes)[:] = [entry for entry in at(changed, nodes) if as_mapping(entry).get("id") != node_id]
    for entry in _entries(changed, nodes):
        meeting = entry.get("next")
        if isinstance(entry.get("branches"), list):
            moved = [follow if branch == node_id else branch for branch in entry["branches"]]
            # A branch that would begin where the branches end is empty, which a document must not have.
            entry["branches"] = [branch for branch in moved if branch not in (None, meeting)]
        for condition in map(as_mapping, as_list(entry.get("conditions"))):
            for key in ("next", "target"):
                if condition.get(key) == node_id and follow:
                    condition[key] = follow
        for key in _WAYS:
            if entry.get(key) == node_id and follow:
                entry[key] = follow
            elif entry.get(key) == node_id:
                del entry[key]
    return changed


def with_tool(data: Any, name: str) -> Any:
    """The document with one more tool, which gives back its arguments."""
    _free_tool_name(data, name)
    nodes = [{"id": "entry", "type": "entry", "next": "exit"}, {"id": "exit", "type": "exit"}]
    schemas = {"inputSchema": {"type": "object"}, "outputSchema": {"type": "object"}}
    tool = {"name": name, "description": name, **schemas, "nodes": nodes}
    return with_value(data, ("tools",), [*as_list(as_mapping(data).get("tools")), tool])


def with_new_tool_name(data: Any, old: str, new: str) -> Any:
    """The document with another name of a tool, also where nodes call it or say whose they are."""
    _free_tool_name(data, new)
    changed: Any = deepcopy(data)
    tools = _entries(changed, ("tools",))
    holders: list[Any] = [*tools, changed]
    for tool in tools:
        if tool.get("name") == old:
            tool["name"] = new
    for node in (node for holder in holders for node in as_list(as_mapping(holder).get("nodes"))):
        # The tool of a node of the type mcp is one of a server.
        if as_mapping(node).get("type") != "mcp" and as_mapping(node).get("tool") == old:
            node["tool"] = new
    return changed


def _free_tool_name(data: Any, name: str) -> None:
    if not name.strip():
        raise GraphEditError("A tool needs a name")
    if any(as_mapping(tool).get("name") == name for tool in as_list(as_mapping(data).get("tools"))):
        raise GraphEditError(f"There is a tool '{name}' already", fix="Choose another name")


def with_new_id(data: Any, nodes: Path, old: str, new: str, *, dialect: Dialect) -> Any:
    """The document with another id of a node, also in the ways to it and in all expressions."""
    changed = deepcopy(data)
    entries = _entries(changed, nodes)
    if any(entry.get("id") == new for entry in entries):
        raise GraphEditError(f"There is a node '{new}' already", fix="Choose another name")
    _node(changed, nodes, old)
    # The output of a parallel node has the first nodes of its branches as names.
    within = {str(entry.get("id")) for entry in entries if old in as_list(entry.get("branches"))}

    for entry in entries:
        for holder, key in _references(entry):
            if holder[key] == old:
                holder[key] = new
        standard = entry.get("jsonLogic") == "standard"
        _Renaming(old, new, within, standard=standard).in_expressions(entry, dialect)
    return changed


def _references(entry: Raw) -> Iterator[tuple[Any, Any]]:
    yield from ((entry, key) for key in ("id", *_WAYS) if key in entry)
    branches = as_list(entry.get("branches"))
    yield from ((branches, index) for index in range(len(branches)))
    for condition in map(as_mapping, as_list(entry.get("conditions"))):
        yield from ((condition, key) for key in ("next", "target") if key in condition)


@dataclass(frozen=True, slots=True)
class _Renaming:
    """Another id of a node, in the expressions of a node."""

    old: str
    new: str
    within: Collection[str]  # see `renamed`
    standard: bool  # whether its rules are JSON Logic without JSONata

    def text(self, text: Any) -> Any:
        return renamed(text, self.old, self.new, within=self.within) if isinstance(text, str) else text

    def in_expressions(self, entry: Raw, dialect: Dialect) -> None:
        for key in ("transform", "items"):
            if "expr" in (holder := as_mapping(entry.get(key))):
                holder["expr"] = self.text(holder["expr"])
        if "items" in entry:  # as a text it is an expression, too
            entry["items"] = self.text(entry["items"])
        if isinstance(args := entry.get("args"), dict):
            args = cast("Raw", args)
            if dialect is Dialect.TARGET:
                texts = {name: value for name, value in args.items() if isinstance(value, str)}
                args.update({name: self.text(text) for name, text in texts.items() if text.startswith("$")})
            else:
                self._in_marked(args)
        for condition in map(as_mapping, as_list(entry.get("conditions"))):
            self._in_rule(condition.get("rule"), in_entry=False)

    def _in_marked(self, value: Any) -> None:
        if isinstance(value, list):
            for entry in cast("list[Any]", value):
                self._in_marked(entry)
        elif isinstance(value, dict):
            members = cast("Raw", value)
            if len(members) == 1 and "expr" in members:
                members["expr"] = self.text(members["expr"])
                return
            for member in members.values():
                self._in_marked(member)

    def _in_rule(self, rule: Any, *, in_entry: bool) -> None:
        """`in_entry`: names in it are those of a list's entry."""
        if isinstance(rule, list):
            for entry in cast("list[Any]", rule):
                self._in_rule(entry, in_entry=in_entry)
        if not isinstance(rule, dict):
            return
        members = cast("Raw", rule)
        for operator, values in members.items():
            if operator == "var":
                members["var"] = self._var(values, in_entry=in_entry)
            elif operator in ARRAY_LOOPS:
                first, *rest = as_list(values) or [values]
                self._in_rule(first, in_entry=in_entry)
                self._in_rule(rest, in_entry=True)
            else:
                self._in_rule(values, in_entry=in_entry)

    def _var(self, value: Any, *, in_entry: bool) -> Any:
        if isinstance(value, list) and value:
            first, *rest = as_list(cast("Any", value))
            return [self._var(first, in_entry=in_entry), *rest]
        if not isinstance(value, str):
            return cast("Any", value)
        if is_jsonata(value) or not (in_entry or self.standard):
            return self.text(value)
        head, dot, rest = value.partition(".")
        is_the_node = self.standard and not in_entry and head == self.old
        return f"{self.new}{dot}{rest}" if is_the_node else value


def _entries(data: Any, nodes: Path) -> list[Raw]:
    return [cast("Raw", entry) for entry in as_list(at(data, nodes)) if isinstance(entry, dict)]


def _node(data: Any, nodes: Path, node_id: str) -> Raw:
    return at(data, _path_of(data, nodes, node_id))


def _path_of(data: Any, nodes: Path, node_id: str) -> Path:
    # Of nodes with one id the last one counts.
    for index, entry in reversed(list(enumerate(as_list(at(data, nodes))))):
        if as_mapping(entry).get("id") == node_id:
            return (*nodes, index)
    raise GraphEditError(f"There is no node '{node_id}'", fix="Look at the document again")
