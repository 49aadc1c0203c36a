"""Makes the nodes of the model from what a document says, in either dialect."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final, cast

from ..model import Dialect
from ..nodes import (
    Cache,
    Condition,
    EntryNode,
    ExitNode,
    Expression,
    ForEachNode,
    InvalidExpression,
    McpNode,
    Node,
    ParallelNode,
    Retry,
    SwitchNode,
    Template,
    ToolNode,
    TransformNode,
    key_path,
)
from .dialect import looks_like_jsonata
from .fitting import did_you_mean
from .schema import (
    NODE_TYPES,
    CacheYaml,
    ConditionYaml,
    EntryYaml,
    ExitYaml,
    ForEachYaml,
    McpYaml,
    NodeYaml,
    ParallelYaml,
    RetryYaml,
    SwitchYaml,
    ToolNodeYaml,
    TransformYaml,
)
from .shapes import kind_of

if TYPE_CHECKING:
    from ..nodes import Position
    from .fitting import Findings
    from .yaml_source import Path

_DURATION: Final = re.compile(r"\s*([0-9]+(?:\.[0-9]+)?)\s*(ms|s|m|h)\s*")
_UNITS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}


class NodeBuilder:
    """Builds the nodes of one document.

    Args:
        findings: Takes what is wrong.
        dialect: How the document is written.
    """

    def __init__(self, findings: Findings, dialect: Dialect) -> None:
        self._findings = findings
        self._dialect = dialect
        self._node = "Node"

    def node(self, raw: Any, path: Path) -> Node | None:
        """Builds one node.

        Args:
            raw: What the document says.
            path: Where it stands.

        Returns:
            The node, or None after what is wrong was noted.
        """
        if not isinstance(raw, dict):
            self._findings.error(f"a node must be a mapping, not {kind_of(raw)}", path)
            return None
        values = cast("dict[str, Any]", raw)
        self._node = f'Node "{values.get("id")}"'
        kind = values.get("type")
        model = NODE_TYPES.get(kind) if isinstance(kind, str) else None
        if model is None:
            self._unknown_type(values, path)
            return None
        fitted = self._findings.fit(model, values, path)
        return None if fitted is None else self._built(fitted, path)

    def _unknown_type(self, values: dict[str, Any], path: Path) -> None:
        if "type" not in values:
            self._findings.error("'type' is missing", path, f"Types are {', '.join(NODE_TYPES)}")
            return
        kind = values["type"]
        known = ", ".join(NODE_TYPES)
        if isinstance(kind, str):
            fix = did_you_mean(kind, NODE_TYPES)
            self._findings.error(f"there is no node type '{kind}'; known are {known}", (*path, "type"), fix)
        else:
            self._findings.error(f"'type' must be one of {known}, not {kind_of(kind)}", (*path, "type"))

    def _built(self, raw: NodeYaml, path: Path) -> Node | None:  # @NodeTypeDispatch
        position = self._findings.source.at(path)
        match raw:
            case EntryYaml():
                return EntryNode(id=raw.id, next=raw.next, position=position)
            case ExitYaml():
                return ExitNode(id=raw.id, position=position)
            case TransformYaml():
                expression = self._expression(raw.transform.expr, (*path, "transform", "expr"))
                return TransformNode(
                    id=raw.id, expression=expression, next=raw.next, on_error=raw.on_error, position=position
                )
            case SwitchYaml():
                return self._switch(raw, path)
            case McpYaml():
                return McpNode(
                    id=raw.id,
                    server=raw.server,
                    tool=raw.tool,
                    args=self._args(raw.args, (*path, "args")),
                    next=raw.next,
                    on_error=raw.on_error,
                    retry=self._retry(raw.retry, (*path, "retry")),
                    timeout=self._optional_seconds(raw.timeout, (*path, "timeout")),
                    cache=self._cache(raw.cache, (*path, "cache")),
                    position=position,
                    places=self._places(raw, path),
                )
            case _:
                return self._built_beyond(raw, path)

    def _places(self, raw: McpYaml, path: Path) -> dict[tuple[str, ...], Position]:
        keys = [("server",), ("tool",), ("args",), *(("args", name) for name in raw.args)]
        return {key: self._findings.source.at((*path, *key)) for key in keys}

    def _built_beyond(self, raw: NodeYaml, path: Path) -> Node | None:
        """The types that the reference does not have."""
        position = self._findings.source.at(path)
        match raw:
            case ParallelYaml():
                return ParallelNode(
                    id=raw.id,
                    branches=tuple(raw.branches),
                    next=raw.next,
                    on_error=raw.on_error,
                    max_concurrency=raw.max_concurrency,
                    position=position,
                )
            case ForEachYaml():
                text = raw.items if isinstance(raw.items, str) else raw.items.expr
                return ForEachNode(
                    id=raw.id,
                    items=self._expression(text, (*path, "items")),
                    body=raw.do,
                    next=raw.next,
                    on_error=raw.on_error,
                    max_concurrency=raw.max_concurrency,
                    max_items=raw.max_items,
                    position=position,
                )
            case ToolNodeYaml():
                return ToolNode(
                    id=raw.id,
                    tool=raw.tool,
                    args=self._args(raw.args, (*path, "args")),
                    next=raw.next,
                    on_error=raw.on_error,
                    retry=self._retry(raw.retry, (*path, "retry")),
                    timeout=self._optional_seconds(raw.timeout, (*path, "timeout")),
                    position=position,
                )
            case _:
                raise AssertionError(type(raw))

    def _switch(self, raw: SwitchYaml, path: Path) -> SwitchNode | None:
        ways = [
            self._condition(condition, (*path, "conditions", index))
            for index, condition in enumerate(raw.conditions)
        ]
        default = raw.next
        if self._dialect is Dialect.NEXT and default is None:
            fix = "It is taken if no condition holds"
            self._findings.error(f"the switch '{raw.id}' has no 'next'", path, fix)
        if self._dialect is Dialect.TARGET and default is not None:
            said = "'next' of a switch means nothing in the dialect 'target' and is ignored"
            fix = "Add a condition with only a 'target' at the end, or choose the dialect 'next'"
            self._findings.warn(said, (*path, "next"), fix)
            default = None
        found = tuple(way for way in ways if way is not None)
        position = self._findings.source.at(path)
        return SwitchNode(id=raw.id, conditions=found, default=default, position=position)

    def _condition(self, raw: ConditionYaml, path: Path) -> Condition | None:
        wanted, other = ("target", "next") if self._dialect is Dialect.TARGET else ("next", "target")
        way = raw.target if self._dialect is Dialect.TARGET else raw.next
        if way is None:
            there = raw.next if self._dialect is Dialect.TARGET else raw.target
            fix = f"Write '{wanted}' instead of '{other}', or choose the dialect '{other}'" if there else None
            self._findings.error(f"'{wanted}' is missing", path, fix)
            return None
        always = raw.rule is None
        if always and self._dialect is Dialect.NEXT:
            # The reference lets null through, as a rule that never holds.
            fix = "Write the rule, or remove the condition"
            self._findings.warn("a condition without 'rule' never holds", path, fix)
            always = False
        position = self._findings.source.at((*path, "rule") if raw.rule is not None else path)
        return Condition(rule=raw.rule, next=way, always=always, position=position)

    def _args(self, raw: dict[str, Any], path: Path) -> Template:
        if self._dialect is Dialect.NEXT:
            for name, value in raw.items():
                if name != "expr" and isinstance(value, str) and looks_like_jsonata(value):
                    said = f"{self._node}: the argument '{name}' is sent as this text, it is no expression"
                    self._findings.warn(said, (*path, name), "Expressions are written {expr: ...}")
            return self._template(raw, path)
        found: dict[str, Template] = {}
        for name, value in raw.items():
            is_expression = isinstance(value, str) and value.startswith("$")
            found[name] = self._expression(value, (*path, name)) if is_expression else value
        return found

    def _template(self, value: Any, path: Path) -> Template:
        if isinstance(value, list):
            entries = cast("list[Any]", value)
            return [self._template(entry, (*path, index)) for index, entry in enumerate(entries)]
        if not isinstance(value, dict):
            return value
        values = cast("dict[str, Any]", value)
        if "expr" not in values:
            return {name: self._template(entry, (*path, name)) for name, entry in values.items()}
        if len(values) == 1:
            return self._marked(values["expr"], path)
        where = key_path(path[path.index("args") :])
        self._findings.error(
            f"{self._node}: Invalid JSONata syntax in args: Invalid expression object at {where}:"
            f' object with "expr" property must have only that property. Found keys: {", ".join(values)}',
            path,
        )
        return values

    def _marked(self, value: Any, path: Path) -> Template:
        if isinstance(value, str):
            return self._expression(value, (*path, "expr"))
        kind = {bool: "boolean", int: "number", float: "number"}.get(cast("type[Any]", type(value)), "object")
        said = f'Invalid expression object: "expr" property must be a string, got {kind}'
        self._findings.warn(
            f"{self._node}: {said}", (*path, "expr"), "The node will fail when it runs: put it in quotes"
        )
        return InvalidExpression(message=said, position=self._findings.source.at((*path, "expr")))

    def _expression(self, text: str, path: Path) -> Expression:
        return Expression(text=text, position=self._findings.source.value_at(path))

    def _retry(self, raw: int | RetryYaml | None, path: Path) -> Retry | None:
        if raw is None or isinstance(raw, int):
            return None if raw is None else Retry(attempts=raw)
        return Retry(
            attempts=raw.attempts,
            delay=self._seconds(raw.delay, (*path, "delay")),
            backoff=raw.backoff,
            max_delay=self._seconds(raw.max_delay, (*path, "maxDelay")),
            tool_errors=raw.tool_errors,
        )

    def _cache(self, raw: bool | CacheYaml | None, path: Path) -> Cache | None:
        if isinstance(raw, CacheYaml):
            return Cache(ttl=self._seconds(raw.ttl, (*path, "ttl")))
        return Cache() if raw else None

    def _optional_seconds(self, raw: str | float | None, path: Path) -> float | None:
        return None if raw is None else self._seconds(raw, path)

    def _seconds(self, raw: str | float, path: Path) -> float:
        if not isinstance(raw, str):
            return float(raw)
        match = _DURATION.fullmatch(raw)
        seconds = float(match[1]) * _UNITS[match[2]] if match else 0.0
        if seconds <= 0:
            said = f"'{raw}' is no length of time"
            self._findings.error(said, path, "Write seconds as a number, or a text such as 500ms, 30s or 2m")
        return seconds or 1.0
