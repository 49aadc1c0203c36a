"""Changes of a document's data as people make them in the studio: nodes added, connected, renamed, removed.

They work on what was read of the document, also if it has mistakes; `yaml_editing` writes it back.
"""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from knime_mcp.types.errors import MCPError
from knime_mcp.yaml_text import as_list, as_mapping

from .expressions.json_logic import ARRAY_LOOPS, is_jsonata
from .expressions.names import renamed
from .graph_model import Dialect
from .nodes import KINDS
from .nodes.node import Form, kind_in

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from knime_mcp.yaml_text import Path

    from .nodes.node import Way

Raw = dict[str, Any]


class GraphEditError(MCPError):
    """A change that the document does not allow."""

    CODE = "KMCP-GRAPH-EDIT"


def apply(data: Any, change: Mapping[str, Any], dialect: Dialect) -> Any:
    """The document with a change; what was read stays as it is.

    Args:
        data: What was read of the document.
        change: Its ``kind``, and what that needs: ``set`` a value at a ``path`` (null takes it away);
            ``add`` a ``node`` ``after`` another one, ``connect`` a ``source`` by a key ``way`` with a
            ``target`` (an empty one takes the way away), ``rename`` a node ``id`` ``to`` another one,
            ``remove`` a node ``id``, all in the list at the path ``nodes``; ``addTool`` and ``renameTool``.
        dialect: That of the document.

    Raises:
        GraphEditError: The change does not fit the document.
        KeyError: The change lacks something.
    """
    changed = deepcopy(data)
    match change.get("kind"):
        case "set":
            return _with_value(changed, as_list(change["path"]), change.get("value"))
        case "addTool":
            _add_tool(changed, str(change["name"]))
        case "renameTool":
            _rename_tool(changed, str(change["name"]), str(change["to"]))
        case kind:
            nodes = _Nodes(changed, tuple(as_list(change.get("nodes"))), dialect)
            match kind:
                case "add":
                    nodes.add(as_mapping(change["node"]), change.get("after"))
                case "connect":
                    nodes.connect(str(change["source"]), as_list(change["way"]), str(change["target"]))
                case "rename":
                    nodes.rename(str(change["id"]), str(change["to"]))
                case "remove":
                    nodes.remove(str(change["id"]))
                case _:
                    raise GraphEditError(f"There is no change of the kind {kind!r}")
    return changed


def _gone() -> GraphEditError:
    return GraphEditError("This part of the document is gone", fix="Look at it again")


def _at(data: Any, path: Sequence[str | int]) -> Any:
    """The value at a path; a change of something that is not there any more is an error."""
    for step in path:
        try:
            data = data[step]
        except (KeyError, IndexError, TypeError):
            raise _gone() from None
    return data


def _with_value(data: Any, path: Sequence[str | int], value: Any) -> Any:
    if not path:
        return value
    holder = data
    for step in path[:-1]:
        if isinstance(holder, dict) and step not in holder:
            cast("Raw", holder)[str(step)] = {}
        holder = _at(holder, (step,))
    key = path[-1]
    if isinstance(holder, list) and isinstance(key, int):
        # As slices: nothing is there behind the end.
        holder[key : key + 1] = [] if value is None else [value]
    elif not isinstance(holder, dict):
        raise _gone()
    elif value is None:
        cast("Raw", holder).pop(str(key), None)
    else:
        cast("Raw", holder)[str(key)] = value
    return data


def _add_tool(data: Any, name: str) -> None:
    """Adds a tool, which gives back its arguments."""
    _free_tool_name(data, name)
    nodes = [{"id": "entry", "type": "entry", "next": "exit"}, {"id": "exit", "type": "exit"}]
    schemas = {"inputSchema": {"type": "object"}, "outputSchema": {"type": "object"}}
    tool = {"name": name, "description": name, **schemas, "nodes": nodes}
    _with_value(data, ("tools",), [*as_list(as_mapping(data).get("tools")), tool])


def _rename_tool(data: Any, old: str, new: str) -> None:
    """Gives a tool another name, also where nodes call it or say whose they are."""
    _free_tool_name(data, new)
    tools = _mappings(_at(data, ("tools",)))
    for tool in tools:
        if tool.get("name") == old:
            tool["name"] = new
    for node in (node for holder in (*tools, data) for node in as_list(as_mapping(holder).get("nodes"))):
        # The tool of a node of the type mcp is one of a server.
        if as_mapping(node).get("type") != "mcp" and as_mapping(node).get("tool") == old:
            node["tool"] = new


def _free_tool_name(data: Any, name: str) -> None:
    if not name.strip():
        raise GraphEditError("A tool needs a name")
    if any(as_mapping(tool).get("name") == name for tool in as_list(as_mapping(data).get("tools"))):
        raise GraphEditError(f"There is a tool '{name}' already", fix="Choose another name")


class _Nodes:
    """A list of nodes that is changed in its place."""

    def __init__(self, data: Any, path: Path, dialect: Dialect) -> None:
        written = _at(data, path)
        if not isinstance(written, list):
            raise _gone()
        self._all = cast("list[Any]", written)
        self._dialect = dialect

    @property
    def _nodes(self) -> list[Raw]:
        return _mappings(self._all)

    def _node(self, node_id: str) -> Raw:
        # Of nodes with one id the last one counts.
        found = next((node for node in reversed(self._nodes) if node.get("id") == node_id), None)
        if found is None:
            raise GraphEditError(f"There is no node '{node_id}'", fix="Look at the document again")
        return found

    def _free(self, node_id: Any) -> None:
        if any(node.get("id") == node_id for node in self._nodes):
            raise GraphEditError(f"There is a node '{node_id}' already", fix="Choose another name")

    def _ways(self, node: Raw) -> list[Way]:
        return list(kind_in(KINDS, node).ways_of(node, self._dialect))

    def _has_next(self, node: Raw) -> bool:
        return any(way.key == "next" for way in kind_in(KINDS, node).opened(self._dialect))

    def add(self, node: Raw, after: str | None) -> None:
        """After a node it takes over the way that this had: what followed that node follows the new one."""
        self._free(node["id"])
        place = len(self._all)
        before = next((one for one in self._nodes if one.get("id") == after), None)
        if before is not None:
            place = next(index for index, one in enumerate(self._all) if one is before) + 1
            following = before.get("next")
            if isinstance(following, str) and self._has_next(node):
                node = {**node, "next": following}
            if self._has_next(before):
                before["next"] = node["id"]
        self._all.insert(place, node)

    def connect(self, source: str, way: list[Any], target: str) -> None:
        """Leads a way somewhere else, or adds one.

        `way` is the key of one that is there; ``branches`` or ``conditions`` alone adds one more.
        """
        node = self._node(source)
        if way == ["branches"]:
            node["branches"] = [*as_list(node.get("branches")), target]
        elif way == ["conditions"]:
            # A rule that always holds, as one without a rule would be the default of the other dialect.
            condition = {"rule": True, self._dialect.value: target}
            node["conditions"] = [*as_list(node.get("conditions")), condition]
        else:
            # A condition goes as a whole.
            _with_value(node, way if target else way[:2], target or None)

    def remove(self, node_id: str) -> None:
        """Takes away a node; ways to it lead to what followed it, or end."""
        following = self._node(node_id).get("next")
        follow = following if isinstance(following, str) and following != node_id else None
        self._all[:] = [node for node in self._all if as_mapping(node).get("id") != node_id]
        for node in self._nodes:
            # From the last one on, as an entry that goes moves those behind it.
            for way in reversed(self._ways(node)):
                if way.target != node_id:
                    continue
                is_branch = way.key[0] == "branches"
                # A branch that would begin where the branches end is empty, which a document must not have.
                if follow and not (is_branch and follow == node.get("next")):
                    _with_value(node, way.key, follow)
                elif is_branch or len(way.key) == 1:
                    _with_value(node, way.key, None)

    def rename(self, old: str, new: str) -> None:
        """Gives a node another id, also in the ways to it and in all expressions."""
        self._free(new)
        self._node(old)
        # The output of a parallel node has the first nodes of its branches as names.
        within = {str(node.get("id")) for node in self._nodes if old in as_list(node.get("branches"))}
        for node in self._nodes:
            for way in self._ways(node):
                if way.target == old:
                    _with_value(node, way.key, new)
            if node.get("id") == old:
                node["id"] = new
            standard = node.get("jsonLogic") == "standard"
            _Renaming(old, new, within, standard=standard).in_expressions(node, self._dialect)


@dataclass(frozen=True, slots=True)
class _Renaming:
    """Another id of a node, in the expressions of a node."""

    old: str
    new: str
    within: Collection[str]  # see `renamed`
    standard: bool  # whether its rules are JSON Logic without JSONata

    def text(self, text: Any) -> Any:
        return renamed(text, self.old, self.new, within=self.within) if isinstance(text, str) else text

    def in_expressions(self, node: Raw, dialect: Dialect) -> None:
        for field in kind_in(KINDS, node).fields:
            written = node.get(field.key)
            match field.form:
                case Form.EXPRESSION if isinstance(written, str):
                    node[field.key] = self.text(written)
                case Form.ARGUMENTS if dialect is Dialect.TARGET:
                    args = as_mapping(written)
                    texts = {name: text for name, text in args.items() if isinstance(text, str)}
                    args.update({name: self.text(t) for name, t in texts.items() if t.startswith("$")})
                case Form.EXPRESSION | Form.ARGUMENTS:
                    self._in_marked(written)
                case Form.RULES:
                    for condition in map(as_mapping, as_list(written)):
                        self._in_rule(condition.get("rule"), in_entry=False)
                case _:
                    pass

    def _in_marked(self, value: Any) -> None:
        if isinstance(value, list):
            for entry in cast("list[Any]", value):
                self._in_marked(entry)
        elif isinstance(value, dict):
            members = cast("Raw", value)
            if list(members) == ["expr"]:
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


def _mappings(values: Any) -> list[Raw]:
    return [cast("Raw", value) for value in as_list(values) if isinstance(value, dict)]
