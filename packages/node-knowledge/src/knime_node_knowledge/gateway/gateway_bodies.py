"""The bodies of requests and answers, with the fields of the design documents."""

from __future__ import annotations

from datetime import datetime  # noqa: TC003 - pydantic reads it
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field

_EXAMPLE = {"nodes": [{"node_type": "AI_AGENT", "subtype": "OPENAI_CHATGPT"}]}


def _present(value: Any) -> Any:
    return {} if value is None else value


Arguments = Annotated[dict[str, Any], BeforeValidator(_present)]
"""Arguments of a tool. Clients in some languages send null for none."""


def _encodable(request_id: str | int) -> str | int:
    str(request_id).encode()  # raises an error now rather than when the id is sent back
    return request_id


class _Request(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, hide_input_in_errors=True)


class MCPToolSchema(BaseModel):
    """A tool in the list of the simple endpoint."""

    model_config = ConfigDict(from_attributes=True)

    name: str
    description: str
    parameters: dict[str, Any]


class MCPToolsResponse(BaseModel):
    """The list of tools of the simple endpoint."""

    tools: list[MCPToolSchema]


class MCPInvokeRequest(_Request):
    """A call of a tool through the simple endpoint."""

    tool_name: str = Field(min_length=1, max_length=200, examples=["get_node_details"])
    params: Arguments = Field(default_factory=dict, examples=[_EXAMPLE])


class MCPInvokeResponse(BaseModel):
    """The result of a call through the simple endpoint."""

    success: bool
    tool_name: str
    result: dict[str, Any] | None = None
    error: str | None = None
    execution_time_ms: float
    timestamp: datetime


class MCPErrorResponse(BaseModel):
    """An error without an envelope."""

    success: bool = False
    error: str
    error_type: str
    details: dict[str, Any] | None = None


class MCPTool(MCPToolSchema):
    """A tool in the list with an envelope or in the internal list."""

    category: str
    tags: list[str]


class MCPToolList(BaseModel):
    """The list of tools, without an envelope."""

    tools: list[MCPTool]


class MCPToolDetails(BaseModel):
    """A tool, with guidance and examples of its use."""

    name: str
    description: str
    version: str
    available: bool
    category: str
    workflow_guidance: str
    usage_examples: list[dict[str, Any]]
    processing_time_ms: float
    request_id: str


class MCPHealth(BaseModel):
    """The health of the tools."""

    healthy: bool
    version: str
    available_tools: list[str]
    timestamp: int
    error: str | None
    request_id: str
    processing_time_ms: float


class PublicHealth(BaseModel):
    """The gateway's health, for load balancers."""

    status: Literal["healthy", "unhealthy"]
    version: str
    timestamp: int


class ToolCall(_Request):
    """A call of a tool by its name, with arguments."""

    name: str = Field(min_length=1, max_length=200, examples=["get_node_details"])
    arguments: Arguments = Field(default_factory=dict, examples=[_EXAMPLE])


class RPCParams(ToolCall):
    """The call in a JSON-RPC request. The `_meta` that MCP clients send is ignored."""

    meta: dict[str, Any] | None = Field(None, alias="_meta")


class RPCToolCall(_Request):
    """A call as a JSON-RPC request, as MCP clients send it."""

    jsonrpc: Literal["2.0"]
    id: Annotated[str | int, AfterValidator(_encodable)]
    method: Literal["tools/call"]
    params: RPCParams


class TextContent(BaseModel):
    """A text in the result of a call."""

    type: Literal["text"] = "text"
    text: str


class ToolResult(BaseModel):
    """The result of a call in MCP's form, with the gateway's additions."""

    model_config = ConfigDict(serialize_by_alias=True)

    content: list[TextContent]
    is_error: bool = Field(alias="isError")
    structured_content: dict[str, Any] = Field(alias="structuredContent")
    tool_name: str = Field(alias="_tool_name")
    execution_time_ms: float = Field(alias="_execution_time_ms")
    request_id: str = Field(alias="_request_id")


class InternalToolFailure(BaseModel):
    """The result of a failed call through the internal endpoint, without `structuredContent`."""

    model_config = ConfigDict(serialize_by_alias=True)

    content: list[TextContent]
    is_error: Literal[True] = Field(True, alias="isError")
    tool_name: str | None = Field(None, alias="_tool_name")
    execution_time_ms: float | None = Field(None, alias="_execution_time_ms")
    request_id: str = Field(alias="_request_id")
    error_type: str
    details: dict[str, Any] | None = None


class _RPCAnswer(BaseModel):
    jsonrpc: Literal["2.0"] = "2.0"
    id: str | int


class RPCToolList(_RPCAnswer):
    """The list of tools in a JSON-RPC envelope."""

    result: MCPToolList


class RPCToolResult(_RPCAnswer):
    """The result of a call in a JSON-RPC envelope."""

    result: ToolResult


class RPCErrorData(InternalToolFailure):
    """The details of an error, for programs and for people."""

    user_message: str


class RPCErrorObject(BaseModel):
    """A JSON-RPC error object."""

    code: int
    message: str
    data: RPCErrorData


class RPCErrorResponse(_RPCAnswer):
    """An error in a JSON-RPC envelope."""

    error: RPCErrorObject


class NodeKnowledgeResult(BaseModel):
    """The knowledge about one requested node."""

    node_name: str
    knowledge: str
    metadata: dict[str, Any] = Field(default_factory=dict)
    similarity_score: float | None = None


class NodeKnowledgeResponse(BaseModel):
    """The knowledge about nodes."""

    success: bool
    results: list[NodeKnowledgeResult]
    total_nodes: int
    processing_time_ms: int
