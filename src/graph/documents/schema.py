"""The document format as pydantic models: what may stand where. Meaning is added by `building`.

Keys of the reference come first in each model, ours after them; `docs/graph-documents.md` describes all.
Unknown keys are kept, so that `fitting` can point at them.
"""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field
from pydantic.alias_generators import to_camel

from ..model import DEFAULT_EXECUTION_TIME_MS, DEFAULT_NODE_EXECUTIONS

Positive = Annotated[int, Field(gt=0)]
#: JavaScript's large whole numbers are floats here.
Limit = Annotated[
    Positive, BeforeValidator(lambda it: int(it) if isinstance(it, float) and it.is_integer() else it)
]
Duration = str | Annotated[float, Field(gt=0, allow_inf_nan=False)]


class Raw(BaseModel):
    """A mapping of a document. Strict: text is text and a number is a number."""

    model_config = ConfigDict(strict=True, extra="allow", frozen=True, alias_generator=to_camel)


class ServerMetadataYaml(Raw):
    """``server``."""

    name: str
    version: str
    title: str | None = None
    instructions: str | None = None


class ExecutionLimitsYaml(Raw):
    """``executionLimits``."""

    max_node_executions: Limit = DEFAULT_NODE_EXECUTIONS
    max_execution_time_ms: Limit = DEFAULT_EXECUTION_TIME_MS


class DocumentYaml(Raw):
    """The whole document; ``nodes`` is the layout with all nodes in one list."""

    version: str
    server: ServerMetadataYaml
    execution_limits: ExecutionLimitsYaml | None = None
    mcp_servers: dict[str, Any] | None = None
    tools: list[Any] | None = None
    nodes: list[Any] | None = None


class AnnotationsYaml(Raw):
    """``annotations`` of a tool, as MCP has them."""

    title: str | None = None
    read_only_hint: bool | None = None
    destructive_hint: bool | None = None
    idempotent_hint: bool | None = None
    open_world_hint: bool | None = None


class ToolYaml(Raw):
    """An entry of ``tools``."""

    name: str
    description: str
    input_schema: dict[str, Any]
    output_schema: dict[str, Any]
    nodes: list[Any] | None = None
    title: str | None = None
    annotations: AnnotationsYaml | None = None


class StdioYaml(Raw):
    """A server that is a command."""

    type: Literal["stdio"] | None = None
    command: str
    args: list[str]
    cwd: str | None = None
    env: dict[str, str] | None = None


class LenientStdioYaml(StdioYaml):
    """The same in a ``mcp.json`` file, where other programs let ``args`` be left out."""

    args: list[str] = []


class HttpYaml(Raw):
    """A server behind streamable HTTP."""

    type: Literal["streamableHttp", "http", "streamable-http"]
    url: str
    headers: dict[str, str] | None = None
    request_init: dict[str, Any] | None = None


class SseYaml(Raw):
    """A server behind HTTP+SSE."""

    type: Literal["sse"]
    url: str
    headers: dict[str, str] | None = None
    event_source_init: dict[str, Any] | None = None
    request_init: dict[str, Any] | None = None


class NodeYaml(Raw):
    """What all nodes have; ``tool`` says where a node belongs when all nodes stand in one list."""

    id: str
    type: str


class EntryYaml(NodeYaml):
    """``type: entry``."""

    next: str
    tool: str | None = None


class ExitYaml(NodeYaml):
    """``type: exit``; the reference accepts a ``next`` and never follows it."""

    next: str | None = None
    tool: str | None = None


class ExprYaml(Raw):
    """A mapping that holds an expression."""

    expr: str


class TransformYaml(NodeYaml):
    """``type: transform``."""

    transform: ExprYaml
    next: str
    on_error: str | None = None
    tool: str | None = None


class RetryYaml(Raw):
    """``retry`` in its long form."""

    attempts: Positive = 3
    delay: Duration = 0.5
    backoff: Annotated[float, Field(ge=1, allow_inf_nan=False)] = 2.0
    max_delay: Duration = 30.0
    tool_errors: bool = False


class CacheYaml(Raw):
    """``cache`` in its long form."""

    ttl: Duration = 300.0


class McpYaml(NodeYaml):
    """``type: mcp``; ``tool`` is the tool on the server."""

    server: str
    tool: str
    args: dict[str, Any]
    next: str
    on_error: str | None = None
    retry: Positive | RetryYaml | None = None
    timeout: Duration | None = None
    cache: bool | CacheYaml | None = None


class ConditionYaml(Raw):
    """An entry of ``conditions``: ``target`` in one dialect, ``next`` in the other."""

    rule: Any = None
    target: str | None = None
    next: str | None = None


class SwitchYaml(NodeYaml):
    """``type: switch``."""

    conditions: list[ConditionYaml]
    next: str | None = None
    tool: str | None = None


class ParallelYaml(NodeYaml):
    """``type: parallel``."""

    branches: Annotated[list[str], Field(min_length=1)]
    next: str
    on_error: str | None = None
    max_concurrency: Positive | None = None
    tool: str | None = None


class ForEachYaml(NodeYaml):
    """``type: forEach``."""

    items: str | ExprYaml
    do: str
    next: str
    on_error: str | None = None
    max_concurrency: Positive = 1
    max_items: Positive = 1000
    tool: str | None = None


class ToolNodeYaml(NodeYaml):
    """``type: tool``; ``tool`` is the other tool of the document."""

    tool: str
    args: dict[str, Any]
    next: str
    on_error: str | None = None
    retry: Positive | RetryYaml | None = None
    timeout: Duration | None = None


NODE_TYPES: Final[dict[str, type[NodeYaml]]] = {
    "entry": EntryYaml,
    "exit": ExitYaml,
    "transform": TransformYaml,
    "mcp": McpYaml,
    "switch": SwitchYaml,
    "parallel": ParallelYaml,
    "forEach": ForEachYaml,
    "tool": ToolNodeYaml,
}
