"""Nodes that call a tool: one on an MCP server, or another one of the same document."""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Final, Self

from knime_mcp.client.protocol.tools import ABSENT
from knime_mcp.yaml_text import MAPPING, TRUTH, as_mapping, did_you_mean, one_of

from ..graph_model import shown_part, with_defaults
from ..run_control import FINAL, RunError
from ..run_state import shorter
from ..server_calls import arguments_of, call_node, retried
from .node import Form, Node, NodeField, Raw, Shape

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from knime_mcp.yaml_text import Fields

    from ..document_checks import GraphChecks
    from ..document_reading import NodeReading
    from ..executor import NodeRun
    from ..graph_model import GraphTool, Part, Retry, Template
    from ..run_state import NodeRecord

_log = logging.getLogger(__name__)
_BLOCKS: Final = frozenset({"text", "image", "audio", "resource", "resource_link"})
_DEEPEST: Final = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class CallingNode(Node):
    """A node with a tool and its arguments.

    Attributes:
        args: Arguments: name to template (JSON with `Expression` values in it), or an expression for all.
        retry: Its retries; None: none.
        timeout: Seconds for one call; None: the default.
    """

    shape: ClassVar[Shape] = Shape.CALL
    last_fields: ClassVar[tuple[NodeField, ...]] = (
        NodeField(key="args", label="Arguments", form=Form.ARGUMENTS),
        NodeField(key="retry", label="retry"),
        NodeField(key="timeout", label="timeout"),
    )

    tool: str
    args: Template
    retry: Retry | None = None
    timeout: float | None = None

    @classmethod
    def call(cls, fields: Fields, reading: NodeReading) -> dict[str, Any]:
        return {
            **reading.common(fields),
            "tool": fields.text("tool"),
            "args": reading.args(fields.mapping("args"), (*fields.path, "args")),
            "retry": reading.retry(fields),
            "timeout": reading.seconds(fields, "timeout", default=None),
        }

    @property
    def parts(self) -> tuple[tuple[str, Part], ...]:
        return (("args", self.args),)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cache:
    """The caching of a read-only call's results for `ttl` seconds, for calls with the same arguments."""

    ttl: float = 300.0


@dataclass(frozen=True, slots=True, kw_only=True)
class McpNode(CallingNode):
    kind: ClassVar[str] = "mcp"
    fields: ClassVar[tuple[NodeField, ...]] = (
        NodeField(key="server", label="Server", form=Form.SERVER),
        NodeField(key="tool", label="Tool of the server", form=Form.SERVER_TOOL),
        *CallingNode.last_fields,
        NodeField(key="cache", label="cache"),
    )
    new: ClassVar[Raw] = {"server": "", "tool": "", "args": {}}

    server: str  # key in `GraphDocument.servers`
    cache: Cache | None = None  # None: no caching

    @classmethod
    def read(cls, fields: Fields, reading: NodeReading) -> Self:
        call = cls.call(fields, reading)
        return cls(**call, server=fields.text("server"), cache=_cache(fields, reading))

    @classmethod
    def detail(cls, raw: Mapping[str, Any]) -> str:
        return f"{raw.get('tool') or '?'} @ {raw.get('server') or '?'}"

    def check(self, checks: GraphChecks, tool: str) -> None:
        if self.server not in checks.servers:
            checks.findings.error(
                f'MCP node "{self.id}" in tool "{tool}" references non-existent server "{self.server}"',
                (*self.written.path, "server"),
                did_you_mean(self.server, checks.servers) or "Add it to mcpServers",
            )

    def run(self, run: NodeRun) -> Any:
        line, record = run.line, run.record
        record.input = arguments_of(self.args, line)
        if self.cache is not None:
            kept = run.executor.cache.get(self, record)
            if kept is not ABSENT:
                return kept
        output = retried(self.retry, line, record, lambda: call_node(self, record, line, run.executor.call))
        if self.cache is not None:
            run.executor.cache.put(self, record, output)
        if record.lost:
            self._tell_of_lost_blocks(run, record)
        return output

    def _tell_of_lost_blocks(self, run: NodeRun, record: NodeRecord) -> None:
        """Warns once of a node whose output lacks blocks of the result, unless the tool asks for them."""
        tool, told = run.line.run.tool, run.executor.told
        place = (tool.name, self.id)
        parts = (shown_part(part) for node in tool.nodes for _, part in node.parts)
        if place in told or any("$nodeContent" in str(part) for part in parts):
            return
        told.add(place)
        kinds = {str(as_mapping(block).get("type")) for block in record.lost}
        _log.warning(
            "Tool '%s', node '%s': its output lacks %d of the %d blocks of the result (%s)."
            " $nodeContent('%s') gives all of them.",
            *place,
            len(record.lost),
            len(record.content),
            ", ".join(sorted(kinds & _BLOCKS) or ["unknown"]),
            self.id,
        )


def _cache(fields: Fields, reading: NodeReading) -> Cache | None:
    raw = fields.get("cache", TRUTH, MAPPING, default=None)
    if not isinstance(raw, dict):
        return Cache() if raw else None
    inner = fields.inside("cache")
    cache = Cache(ttl=reading.seconds(inner, "ttl", default=Cache().ttl))
    inner.end()
    return cache


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolNode(CallingNode):
    kind: ClassVar[str] = "tool"
    fields: ClassVar[tuple[NodeField, ...]] = (
        NodeField(key="tool", label="Tool", form=Form.TOOL),
        *CallingNode.last_fields,
    )
    new: ClassVar[Raw] = {"tool": "", "args": {}}

    @classmethod
    def read(cls, fields: Fields, reading: NodeReading) -> Self:
        return cls(**cls.call(fields, reading))

    @classmethod
    def detail(cls, raw: Mapping[str, Any]) -> str:
        return f"tool {raw.get('tool') or '?'}"

    def check(self, checks: GraphChecks, tool: str) -> None:
        if self.tool not in checks.tools:
            checks.findings.error(
                f'Node "{self.id}" in tool "{tool}" calls the tool "{self.tool}", which this document'
                " does not have",
                (*self.written.path, "tool"),
                one_of(self.tool, checks.tools),
            )

    def ways_to_end(self, graph: Mapping[str, Sequence[str]], ending: Collection[str]) -> Sequence[str]:
        if self.tool in ending:
            return graph[self.id]
        # It may fail before it calls, as with wrong arguments, and go on there.
        return [] if self.on_error is None else [self.on_error]

    def run(self, run: NodeRun) -> Any:
        arguments = run.record.input = arguments_of(self.args, run.line)
        tool = run.record.called = run.executor.document.tool(self.tool)
        if tool is None:
            raise RunError(f"Tool not found: {self.tool}", kind="graph")

        def attempt() -> Any:
            try:
                return self._run_inside(run, tool, arguments)
            except RunError as error:
                # A limit of the inner tool is an error of this call, which may be caught; one of the whole
                # run is not.
                if error.kind in FINAL - {"limit"} or (error.kind == "limit" and run.line.run.left <= 0):
                    raise
                kind = "arguments" if error.kind == "arguments" else "call"
                failure = RunError(error.sentence, kind=kind, code=error.code, details=error.details)
                failure.may_have_run = error.may_have_run
                raise failure from None

        return retried(self.retry, run.line, run.record, attempt)

    def _run_inside(self, run: NodeRun, tool: GraphTool, arguments: dict[str, Any]) -> Any:
        outer = run.line.run
        if outer.depth >= _DEEPEST:
            raise RunError(f"Tools call each other more than {_DEEPEST} levels deep", kind="limit")
        seconds = min(self.timeout or outer.left, outer.left)
        inner = replace(
            outer,
            tool=tool,
            arguments=with_defaults(tool.input_schema, arguments),
            limits=shorter(outer.limits, max(1, round(seconds * 1000))),
            is_canceled=run.line.is_stopped,
            depth=outer.depth + 1,
            caller=outer,
            history=outer.history.nested(),
        )
        return run.finish(inner, run.line.branch_of(run.record, tool.name))
