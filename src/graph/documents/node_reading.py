"""Reads the nodes of a document, in either dialect."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final, cast

from ...yaml_text import MAPPING, NUMBER, TEXT, TRUTH, WHOLE, Fields, did_you_mean, key_path, kind_of
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
)
from .dialect import looks_like_jsonata

if TYPE_CHECKING:
    from collections.abc import Callable

    from ...yaml_text import Findings, Path

_DURATION: Final = re.compile(r"\s*([0-9]+(?:\.[0-9]+)?)\s*(ms|s|m|h)\s*")
_UNITS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}


class NodeReading:
    """Reads the nodes of one document.

    Args:
        findings: Collects the problems.
        dialect: The dialect of the document.
    """

    def __init__(self, findings: Findings, dialect: Dialect) -> None:
        self._findings = findings
        self._dialect = dialect
        self._node = "Node"
        # @NodeTypeDispatch
        self._types: dict[str, Callable[[Fields], Node]] = {
            "entry": self._entry,
            "exit": self._exit,
            "transform": self._transform,
            "mcp": self._mcp,
            "switch": self._switch,
            "parallel": self._parallel,
            "forEach": self._for_each,
            "tool": self._tool,
        }

    def node(self, raw: Any, path: Path) -> Node | None:
        """Reads one node.

        Args:
            raw: The document's value.
            path: Its key path.

        Returns:
            The node, or None, after reporting the errors, if it is invalid.
        """
        if not isinstance(raw, dict):
            self._findings.error(f"a node must be a mapping, not {kind_of(raw)}", path)
            return None
        values = cast("dict[str, Any]", raw)
        self._node = f'Node "{values.get("id")}"'
        fields = Fields(self._findings, values, path)
        kind = fields.get("type", default=None)
        build = self._types.get(kind) if isinstance(kind, str) else None
        if build is None:
            self._unknown_type(values, path)
            return None
        node = build(fields)
        return node if fields.end() else None

    def _unknown_type(self, values: dict[str, Any], path: Path) -> None:
        known = ", ".join(self._types)
        if "type" not in values:
            self._findings.error("'type' is missing", path, f"The types are {known}")
            return
        kind = values["type"]
        if isinstance(kind, str):
            fix = did_you_mean(kind, self._types)
            self._findings.error(f"unknown node type '{kind}'; the types are {known}", (*path, "type"), fix)
        else:
            self._findings.error(f"'type' must be one of {known}, not {kind_of(kind)}", (*path, "type"))

    def _entry(self, fields: Fields) -> EntryNode:
        fields.optional_text("tool")
        return EntryNode(id=fields.text("id"), next=fields.text("next"), position=fields.position)

    def _exit(self, fields: Fields) -> ExitNode:
        fields.optional_text("tool")
        fields.optional_text("next")  # the reference accepts it but never follows it
        return ExitNode(id=fields.text("id"), position=fields.position)

    def _transform(self, fields: Fields) -> TransformNode:
        fields.optional_text("tool")
        transform = fields.inside("transform")
        expression = self._expression(transform.text("expr"), (*transform.path, "expr"))
        transform.end()
        return TransformNode(
            id=fields.text("id"),
            expression=expression,
            next=fields.text("next"),
            on_error=fields.optional_text("onError"),
            position=fields.position,
        )

    def _mcp(self, fields: Fields) -> McpNode:
        args = fields.mapping("args")
        keys = [("server",), ("tool",), ("args",), *(("args", name) for name in args)]
        return McpNode(
            id=fields.text("id"),
            server=fields.text("server"),
            tool=fields.text("tool"),
            args=self._args(args, (*fields.path, "args")),
            next=fields.text("next"),
            on_error=fields.optional_text("onError"),
            retry=self._retry(fields),
            timeout=self._seconds(fields, "timeout", default=None),
            cache=self._cache(fields),
            position=fields.position,
            places={key: self._findings.source.at((*fields.path, *key)) for key in keys},
        )

    def _parallel(self, fields: Fields) -> ParallelNode:
        fields.optional_text("tool")
        branches = fields.texts("branches")
        if fields.fit and not branches:
            fields.misfit("'branches' must have at least one entry", (*fields.path, "branches"))
        return ParallelNode(
            id=fields.text("id"),
            branches=tuple(branches),
            next=fields.text("next"),
            on_error=fields.optional_text("onError"),
            max_concurrency=fields.number("maxConcurrency", WHOLE, default=None),
            position=fields.position,
        )

    def _for_each(self, fields: Fields) -> ForEachNode:
        fields.optional_text("tool")
        items = fields.get("items", TEXT, MAPPING)
        if isinstance(items, dict):
            written = fields.inside("items")
            items = written.text("expr")
            written.end()
        return ForEachNode(
            id=fields.text("id"),
            items=self._expression(items, (*fields.path, "items")),
            body=fields.text("do"),
            next=fields.text("next"),
            on_error=fields.optional_text("onError"),
            max_concurrency=fields.number("maxConcurrency", WHOLE, default=1),
            max_items=fields.number("maxItems", WHOLE, default=1000),
            position=fields.position,
        )

    def _tool(self, fields: Fields) -> ToolNode:
        return ToolNode(
            id=fields.text("id"),
            tool=fields.text("tool"),
            args=self._args(fields.mapping("args"), (*fields.path, "args")),
            next=fields.text("next"),
            on_error=fields.optional_text("onError"),
            retry=self._retry(fields),
            timeout=self._seconds(fields, "timeout", default=None),
            position=fields.position,
        )

    def _switch(self, fields: Fields) -> SwitchNode:
        fields.optional_text("tool")
        name, default = fields.text("id"), fields.optional_text("next")
        ways = [self._condition(condition) for condition in fields.mappings("conditions")]
        if self._dialect is Dialect.NEXT and default is None and fields.fit:
            fix = "It is taken if no condition holds"
            self._findings.error(f"the switch '{name}' has no 'next'", fields.path, fix)
        if self._dialect is Dialect.TARGET and default is not None:
            message = "'next' of a switch has no effect in the dialect 'target' and is ignored"
            fix = "Add a condition with only a 'target' at the end, or choose the dialect 'next'"
            self._findings.warn(message, (*fields.path, "next"), fix)
            default = None
        conditions = tuple(way for way in ways if way is not None)
        return SwitchNode(id=name, conditions=conditions, default=default, position=fields.position)

    def _condition(self, fields: Fields) -> Condition | None:
        wanted, other = ("target", "next") if self._dialect is Dialect.TARGET else ("next", "target")
        way, there = fields.optional_text(wanted), fields.optional_text(other)
        rule = fields.get("rule", default=None)
        if not fields.end():
            return None
        if way is None:
            fix = f"Write '{wanted}' instead of '{other}', or choose the dialect '{other}'" if there else None
            self._findings.error(f"'{wanted}' is missing", fields.path, fix)
            return None
        always = rule is None
        if always and self._dialect is Dialect.NEXT:
            # The reference accepts null as a rule that never holds.
            fix = "Write the rule, or remove the condition"
            self._findings.warn("a condition without 'rule' never holds", fields.path, fix)
            always = False
        position = fields.position if rule is None else self._findings.source.at((*fields.path, "rule"))
        return Condition(rule=rule, next=way, always=always, position=position)

    def _args(self, raw: dict[str, Any], path: Path) -> Template:
        if self._dialect is Dialect.NEXT:
            for name, value in raw.items():
                if name != "expr" and isinstance(value, str) and looks_like_jsonata(value):
                    message = f"{self._node}: the argument '{name}' is sent as text and not evaluated"
                    self._findings.warn(message, (*path, name), "Write an expression as {expr: ...}")
            return self._template(raw, path)
        templates: dict[str, Template] = {}
        for name, value in raw.items():
            is_expression = isinstance(value, str) and value.startswith("$")
            templates[name] = self._expression(value, (*path, name)) if is_expression else value
        return templates

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
        message = f'Invalid expression object: "expr" property must be a string, got {kind}'
        self._findings.warn(
            f"{self._node}: {message}", (*path, "expr"), "The node will fail when it runs: put it in quotes"
        )
        return InvalidExpression(message=message, position=self._findings.source.at((*path, "expr")))

    def _expression(self, text: str, path: Path) -> Expression:
        return Expression(text=text, position=self._findings.source.value_at(path))

    def _retry(self, fields: Fields) -> Retry | None:
        raw = fields.number("retry", WHOLE, MAPPING, default=None)
        if not isinstance(raw, dict):
            return None if raw is None else Retry(attempts=raw)
        inner, usual = fields.inside("retry"), Retry()
        retry = Retry(
            attempts=inner.number("attempts", WHOLE, default=usual.attempts),
            delay=self._seconds(inner, "delay", default=usual.delay),
            backoff=float(inner.number("backoff", NUMBER, default=usual.backoff, least=1)),
            max_delay=self._seconds(inner, "maxDelay", default=usual.max_delay),
            tool_errors=inner.get("toolErrors", TRUTH, default=usual.tool_errors),
        )
        inner.end()
        return retry

    def _cache(self, fields: Fields) -> Cache | None:
        raw = fields.get("cache", TRUTH, MAPPING, default=None)
        if not isinstance(raw, dict):
            return Cache() if raw else None
        inner = fields.inside("cache")
        cache = Cache(ttl=self._seconds(inner, "ttl", default=Cache().ttl))
        inner.end()
        return cache

    def _seconds(self, fields: Fields, key: str, default: float | None) -> Any:
        """A length of time in seconds, or the default."""
        raw = fields.number(key, TEXT, NUMBER, default=default)
        if not isinstance(raw, str):
            return None if raw is None else float(raw)
        match = _DURATION.fullmatch(raw)
        seconds = float(match[1]) * _UNITS[match[2]] if match else 0.0
        if seconds <= 0:
            fix = "Write seconds as a number, or a text such as 500ms, 30s or 2m"
            self._findings.error(f"'{raw}' is not a duration", (*fields.path, key), fix)
        return seconds
