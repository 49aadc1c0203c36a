"""Compares the paths of expressions, and the arguments of calls, with the schemas at hand.

Nothing is evaluated. A path is followed as long as it is one of plain names.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from knime_mcp.client.validation.argument_schemas import items, parts_of, properties_in
from knime_mcp.yaml_text import as_list, as_mapping, did_you_mean

from .document_checks import check_expressions
from .expressions.names import asked_nodes, plain_paths
from .graph_model import Expression, InvalidExpression
from .nodes import CallingNode, EntryNode, McpNode, ToolNode

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from knime_mcp.yaml_text import Findings, Path

    from .document_checks import PlacedTool
    from .expressions.names import Name
    from .nodes import Node

_DEEPEST_LIST: Final = 8
_SCALARS: Final = frozenset({"string", "number", "integer", "boolean", "null"})
_OTHERS: Final = frozenset({"properties", "required", "$ref", "$dynamicRef", "allOf", "anyOf", "oneOf"})


@dataclass(frozen=True, slots=True, kw_only=True)
class CalledTool:
    """The schemas of a tool that nodes call, as far as they are known."""

    input_schema: Mapping[str, Any] | None = None
    output_schema: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CalledTools:
    """What is known of the tools that the nodes of a document call."""

    own: Mapping[str, CalledTool] = field(default_factory=dict[str, CalledTool])
    of_servers: Mapping[tuple[str, str], CalledTool] = field(
        default_factory=dict[tuple[str, str], CalledTool]
    )

    def called_by(self, node: Node | None) -> CalledTool | None:
        match node:
            case ToolNode():
                return self.own.get(node.tool)
            case McpNode():
                return self.of_servers.get((node.server, node.tool))
            case _:
                return None


class FieldChecks:
    """Checks the expressions and arguments of one tool of a document."""

    def __init__(self, findings: Findings, tool: PlacedTool, tools: CalledTools) -> None:
        self._findings = findings
        self._placed = [(placed.node, placed.path) for placed in tool.nodes if placed.node is not None]
        self._nodes: dict[str, Node] = {node.id: node for node, _ in self._placed}
        self._ids = [placed.id for placed in tool.nodes if placed.id is not None]
        self._tools = tools
        self._input_schema = tools.own.get(tool.name, CalledTool()).input_schema or {}
        self._node = ""

    def check(self) -> None:
        for node, path in self._placed:
            self._node = f'Node "{node.id}"'
            check_expressions(self._findings, node, self._ids, self._looked_up)
            if isinstance(node, ToolNode) and (called := self._tools.called_by(node)) is not None:
                for wrong in wrong_arguments(node, called.input_schema or {}):
                    tell = self._findings.fails if wrong.surely else self._findings.warn
                    tell(f"{self._node}: {wrong.message}", (*path, *wrong.keys), wrong.fix)

    def _looked_up(self, text: str, path: Path) -> None:
        for name in asked_nodes(text):
            if name.text not in self._ids:
                fix = did_you_mean(name.text, self._ids)
                what = f"'{name.text}' is no node of the tool, so it has never run"
                self._warn(text, path, name, what, fix)
        for first, *rest in plain_paths(text):
            if first.text in self._ids:
                self._fields(text, path, first.text, rest)
            else:
                message = f"'{first.text}' is no node of the tool, so there is nothing to find"
                self._warn(text, path, first, message, did_you_mean(first.text, self._ids))

    def _fields(self, text: str, path: Path, node_id: str, names: Sequence[Name]) -> None:
        node = self._nodes.get(node_id)
        is_entry, schema, whose = isinstance(node, EntryNode), None, "the inputSchema"
        if is_entry:
            schema = {**self._input_schema, "type": "object"}
        elif isinstance(node, CallingNode) and (called := self._tools.called_by(node)) is not None:
            schema, whose = called.output_schema, f"the outputSchema of '{node.tool}'"
        root, where = as_mapping(schema), [node_id]
        # The output of a node whose error was caught is that error.
        if names and names[0].text == "error" and node is not None and node.on_error is not None:
            return
        for name in names:
            known, is_closed = _declared(schema, root)
            if known is None:
                return
            if name.text not in known:
                fix = did_you_mean(name.text, known)
                # More arguments than are declared may be given; a name like one of them is a mistake.
                if not is_entry or is_closed or fix is not None:
                    what = "argument" if is_entry and len(where) == 1 else "field"
                    inside = f" in '{'.'.join(where)}'" if len(where) > 1 else ""
                    message = f"{whose} has no {what} '{name.text}'{inside}"
                    self._warn(text, path, name, message, fix or f"It has: {', '.join(sorted(known))}")
                return
            schema = known[name.text]
            where.append(name.text)

    def _warn(self, text: str, path: Path, name: Name, message: str, fix: str | None) -> None:
        position = self._findings.source.inside(path, text, name.offset)
        self._findings.warn_at(f"{self._node}: {message}", position, fix)


@dataclass(frozen=True, slots=True, kw_only=True)
class WrongArgument:
    """What is wrong with an argument: its key below the node, and whether the call surely fails."""

    keys: tuple[str, ...]
    surely: bool
    message: str
    fix: str | None = None


def wrong_arguments(node: CallingNode, schema: Mapping[str, Any]) -> Iterator[WrongArgument]:
    """Required arguments that are missing, unknown ones, and wrong values that are known before a run."""
    if isinstance(node.args, Expression | InvalidExpression):
        return  # the expression makes all arguments
    args, properties = as_mapping(node.args), properties_in(schema, schema)
    is_closed = schema.get("additionalProperties", True) is False
    for name in as_list(schema.get("required")):
        has_default = "default" in as_mapping(properties.get(name))
        if name not in args and not (has_default and isinstance(node, ToolNode)):
            message = f'the tool "{node.tool}" requires the argument "{name}"'
            yield WrongArgument(keys=("args",), surely=True, message=message)
    for name, value in args.items():
        # A schema without any properties says nothing of the arguments.
        if name not in properties and (properties or is_closed):
            message = f'the tool "{node.tool}" has no argument "{name}"'
            fix = did_you_mean(name, properties)
            yield WrongArgument(keys=("args", name), surely=is_closed, message=message, fix=fix)
        elif _is_literal(value) and (wrong := _violation(properties.get(name), value)):
            message = f'the argument "{name}" of the tool "{node.tool}": {wrong}'
            yield WrongArgument(keys=("args", name), surely=True, message=message)


def _is_literal(value: Any) -> bool:
    """Returns whether the value is known before the run."""
    if isinstance(value, Expression | InvalidExpression):
        return False
    return all(map(_is_literal, [*as_mapping(value).values(), *as_list(value)]))


def _violation(schema: Any, value: Any) -> str | None:
    """The problem of a literal value, or None. Schemas with references are not checked."""
    import jsonschema_rs

    # A reference leads into the whole schema, of which this is a part.
    if not isinstance(schema, dict) or "$ref" in str(as_mapping(schema)):
        return None
    try:
        validator = jsonschema_rs.validator_for(as_mapping(schema))
        error = next(iter(validator.iter_errors(value)), None)
    except (jsonschema_rs.ValidationError, ValueError):
        return None
    return None if error is None else error.message


def _declared(schema: Any, root: Mapping[str, Any]) -> tuple[dict[str, Any] | None, bool]:
    """What a schema declares for the fields that a name can find, also in the entries of lists.

    None if others may be there; the second value says whether the schema forbids others.
    """
    found: dict[str, list[Any]] = {}
    is_closed = False
    for _ in range(_DEEPEST_LIST):
        parts = parts_of(schema, root)
        if any(_is_open(part) for part in parts):
            return None, False
        is_closed = is_closed or any(part.get("additionalProperties") is False for part in parts)
        for part in parts:
            for name, inner in as_mapping(part.get("properties")).items():
                found.setdefault(name, []).append(inner)
        if not any("items" in part or "prefixItems" in part for part in parts):
            break
        schema = items(schema, root)
    return ({name: {"anyOf": schemas} for name, schemas in found.items()} or None), is_closed


def _is_open(part: Mapping[str, Any]) -> bool:
    """Whether values may have fields that this part of a schema does not name."""
    if part.get("additionalProperties", False) is not False or "patternProperties" in part:
        return True
    if not str(part.get("$ref", "#")).startswith("#"):
        return True
    declared = part.get("type")
    kinds = {name for name in (as_list(declared) or [declared]) if isinstance(name, str)}
    return not _OTHERS & part.keys() and (not kinds or not kinds <= _SCALARS | {"array"})
