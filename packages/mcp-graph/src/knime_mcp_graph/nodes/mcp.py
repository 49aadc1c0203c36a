"""A node that calls a tool on an MCP server."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Final, Self

from knime_mcp.client.protocol.tools import ABSENT
from knime_mcp.yaml_text import MAPPING, TRUTH, as_mapping, did_you_mean

from ..graph_model import shown_part
from ..server_calls import arguments_of, call_node, retried
from .calling import CallingNode
from .node import Form, FormField, Raw

if TYPE_CHECKING:
    from collections.abc import Mapping

    from knime_mcp.yaml_text import Fields

    from ..document_checks import GraphChecks
    from ..document_reading import NodeReading
    from ..executor import NodeRun
    from ..run_state import NodeRecord

_log = logging.getLogger(__name__)
_BLOCKS: Final = frozenset({"text", "image", "audio", "resource", "resource_link"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Cache:
    """The caching of a read-only call's results for `ttl` seconds, for calls with the same arguments."""

    ttl: float = 300.0


@dataclass(frozen=True, slots=True, kw_only=True)
class McpNode(CallingNode):
    kind: ClassVar[str] = "mcp"
    fields: ClassVar[tuple[FormField, ...]] = (
        FormField(key="server", label="Server", form=Form.SERVER),
        FormField(key="tool", label="Tool of the server", form=Form.SERVER_TOOL),
        *CallingNode.last_fields,
        FormField(key="cache", label="cache"),
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
