"""Tools as LangChain's `StructuredTool`, for both types of tool.

LangChain reads the names of arguments: plain `StructuredTool` loses ``config`` and ``run_manager`` and fails
on ``self``. Here a call's arguments are passed as one value. Models are bound to `functions`, which LangChain
does not rewrite; these tools only execute.

Imports LangChain: import this module only where tools are executed. ``from __future__ import annotations`` is
missing on purpose: LangChain reads annotations in every call, and would compile them each time.
"""

import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from copy import deepcopy
from functools import cached_property, partial
from inspect import signature
from typing import Any, Final, Protocol, assert_never, cast

from langchain_core.messages import ToolCall, ToolMessage
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import StructuredTool, ToolException
from langchain_core.utils.json_schema import dereference_refs

from ..client.validation.argument_schemas import properties_in, resolve
from ..types.texts import at_pointer
from ..types.tool import MCPTool, Tool, WorkflowTool
from .model.strict_schema import DATA_WORDS, SCHEMAS_BY_NAME
from .toolbox.replies import ToolReply
from .toolbox.tool_executor import ToolExecutor
from .toolbox.tool_threads import in_thread
from .toolbox.toolset import arguments_schema, bound_names, description_for_model

_MOST_PARTS: Final = 50_000
_NOT_AT_THE_TOP: Final = (
    *("$schema", "$ref", "$dynamicRef", "allOf", "anyOf", "oneOf", "not", "enum", "const", "if", "then"),
    *("else", "default", "nullable"),
)
_DEEPEST: Final = 64
_KEPT: Final = ("title", "description", "type", "enum", "default")


class ToolContext(Protocol):
    """The executor of tools, such as `ToolExecutor`. Its methods may return plain text, too."""

    def _execute_mcp_tool(self, mcp_tool: MCPTool, params: Mapping[str, Any], /) -> ToolReply | str: ...

    def _execute_workflow_tool(
        self, workflow_tool: WorkflowTool, params: Mapping[str, Any], /
    ) -> ToolReply | str: ...


class MCPStructuredTool(StructuredTool):
    """A tool that accepts arguments of any name.

    ``func`` and ``coroutine`` take the arguments as one dict, and return the model's content and an artifact.
    """

    @property
    def tool_call_schema(self) -> dict[str, Any]:
        """The schema that LangChain sends to models, in a form that all vendors' endpoints accept."""
        return (
            {**self._bindable_schema, "description": self.description}
            if self.description
            else self._bindable_schema
        )

    @property
    def args(self) -> dict[str, Any]:
        """The arguments by name, as far as the schema names them; a copy."""
        declared = deepcopy(declared_properties(cast("dict[str, Any]", self.args_schema)))
        return {name: part if isinstance(part, dict) else {} for name, part in declared.items()}

    def get_input_jsonschema(
        self,
        config: RunnableConfig | None = None,  # noqa: ARG002
        **_: Any,
    ) -> dict[str, Any]:
        """The schema of the arguments; a copy, into which adapters of other agents write."""
        return deepcopy(self._bindable_schema)

    @cached_property
    def _bindable_schema(self) -> dict[str, Any]:
        return _bindable(cast("dict[str, Any]", self.args_schema))

    def invoke(
        self,
        input: str | dict[str, Any] | ToolCall,  # noqa: A002 - LangChain's name
        config: RunnableConfig | None = None,
        **kwargs: Any,
    ) -> Any:
        return _with_status(super().invoke(self._as_call(input), config, **kwargs))

    async def ainvoke(
        self,
        input: str | dict[str, Any] | ToolCall,  # noqa: A002 - LangChain's name
        config: RunnableConfig | None = None,
        **kwargs: Any,
    ) -> Any:
        return _with_status(await super().ainvoke(self._as_call(input), config, **kwargs))

    def _as_call(self, tool_input: str | dict[str, Any] | ToolCall) -> str | dict[str, Any] | ToolCall:
        # The arguments may have an entry "type": "tool_call", too, which is all that LangChain looks for.
        if not isinstance(tool_input, dict) or tool_input.get("type") != "tool_call":
            return tool_input
        if tool_input.keys() >= {"name", "args", "id"} and isinstance(tool_input["args"], dict):
            return tool_input
        # LangChain hands on null where a model gave no arguments.
        if tool_input.keys() == {"name", "args", "id", "type"} and tool_input["args"] is None:
            return cast("ToolCall", {**tool_input, "args": {}})
        return cast(
            "ToolCall", {"name": self.name, "args": dict(tool_input), "id": None, "type": "tool_call"}
        )

    # LangChain passes arguments by name, and adds `config` and `run_manager` of its own only where `_run` or
    # `_arun` names them. Both are its documented hooks for tools.
    def _run(self, /, **arguments: Any) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride] - see above
        if self.func is None:
            raise NotImplementedError(f"{self.name} has no synchronous form")
        return self.func(arguments)

    async def _arun(self, /, **arguments: Any) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride] - see above
        if self.coroutine is None:
            return await in_thread(lambda: self._run(**arguments))
        return await self.coroutine(arguments)

    # LangChain reads both signatures in every call: made here, they are made once.
    _run.__signature__ = signature(_run)  # pyright: ignore[reportFunctionMemberAccess] - see `inspect`
    _arun.__signature__ = signature(_arun)  # pyright: ignore[reportFunctionMemberAccess]


class LangchainToolConverter:
    """Turns tools of both types into LangChain's, which `ctx` executes.

    With `raises` a call that fails raises LangChain's ``ToolException``; otherwise the failure is the
    tool's answer, with the status ``error``. With `images` the content of a
    result has them, as LangChain's content blocks.
    """

    def __init__(self, ctx: ToolContext, *, raises: bool = False, images: bool = False) -> None:
        self._ctx = ctx
        self._raises = raises
        self._images = images

    def to_langchain_tool(self, tool: Tool, name: str | None = None) -> StructuredTool:  # @ToolTypeDispatch
        """Converts a tool of either type.

        Args:
            tool: The tool.
            name: The bound name; None takes the bound name of the tool alone.

        Returns:
            A tool with ``invoke`` and ``ainvoke``. Its artifact is the `ToolReply`, with the images.

        Raises:
            ToolFormatError: The cell holds malformed JSON.
        """
        match tool:
            case MCPTool():
                return self.to_langchain_tool_from_mcp(tool, name)
            case WorkflowTool():
                return self.to_langchain_tool_from_workflow(tool, name)
            case _:
                assert_never(tool)

    def to_langchain_tool_from_mcp(self, tool: MCPTool, name: str | None = None) -> StructuredTool:
        """Converts a tool on an MCP server; its ``args_schema`` is the server's schema, unchanged."""
        return self._real(tool, name, self._ctx._execute_mcp_tool)  # pyright: ignore[reportPrivateUsage] - KNIME's name

    def to_langchain_tool_from_workflow(self, tool: WorkflowTool, name: str | None = None) -> StructuredTool:
        """Converts a KNIME workflow; its arguments are ``configuration`` and ``data_inputs``."""
        return self._real(tool, name, self._ctx._execute_workflow_tool)  # pyright: ignore[reportPrivateUsage] - KNIME's name

    def reading_tool(self, executor: ToolExecutor) -> StructuredTool:
        """The tool that reads on in results that were cut, which say so from now on."""
        definition = executor.reader_for_others()["function"]
        return self._structured(
            executor.read_on, definition["name"], definition["description"], definition["parameters"]
        )

    def _real(self, tool: Tool, name: str | None, execute: Callable[..., ToolReply | str]) -> StructuredTool:
        return self._structured(
            partial(execute, tool),
            name or bound_names([tool])[0],
            description_for_model(tool),
            arguments_schema(tool),
            _hints(tool),
        )

    def _structured(
        self,
        execute: Callable[[dict[str, Any]], ToolReply | str],
        name: str,
        description: str,
        schema: dict[str, Any],
        hints: dict[str, Any] | None = None,
    ) -> StructuredTool:
        def function(params: dict[str, Any]) -> tuple[Any, ToolReply | None]:
            reply = execute(params)
            if not isinstance(reply, ToolReply):
                return reply, None
            if self._raises and reply.failed:
                raise ToolException(reply.text)
            # Most vendors' endpoints refuse a conversation for an image in the result of a tool.
            return (reply.content if self._images else reply.text), reply

        async def coroutine(params: dict[str, Any]) -> Any:
            return await in_thread(function, params)

        return MCPStructuredTool(
            name=name,
            description=description,
            args_schema=schema,
            metadata=hints,
            func=function,
            coroutine=coroutine,
            response_format="content_and_artifact",
        )


def _hints(tool: Tool) -> dict[str, Any] | None:  # @ToolTypeDispatch
    """The hints that a server gives about its tool; callers decide whether they trust the server."""
    match tool:
        case MCPTool():
            return dict(tool.annotations) if tool.annotations else None
        case WorkflowTool():
            return None
        case _:
            assert_never(tool)


def _with_status(result: Any) -> Any:
    """Marks a failed reply as an error. LangChain marks only exceptions, which cannot carry an artifact."""
    if isinstance(result, ToolMessage) and isinstance(result.artifact, ToolReply) and result.artifact.failed:
        result.status = "error"
    return result


def _bindable(schema: dict[str, Any]) -> dict[str, Any]:
    """A schema that LangChain's agents can pass to any model, made from any schema of a server.

    Vendors refuse a whole request if the schema of one tool is no plain object. LangChain replaces
    references, and fails for all tools if one reference leads nowhere. The project's own loop passes schemas
    unchanged and learns what an endpoint refuses, see `model.tool_fitting`.
    """
    simple = simpler_schema(schema)
    with suppress(Exception):  # LangChain may raise anything for a malformed schema
        # `dereference_refs` copies each definition into each place that refers to it: from kilobytes it
        # makes gigabytes.
        if not _is_too_large(simple):
            dereference_refs(simple)
            return simple
    declared = declared_properties(simple).items()
    described = {name: _described(part) for name, part in declared if name != "$ref"}
    return {"type": "object", "properties": described}


def _described(part: dict[str, Any]) -> dict[str, Any]:
    return {word: part[word] for word in _KEPT if word in part and "$ref" not in str(part[word])}


def _is_too_large(schema: dict[str, Any]) -> bool:
    pending: list[tuple[Any, frozenset[str]]] = [(schema, frozenset())]
    for _ in range(_MOST_PARTS):
        if not pending:
            return False
        part, inside = pending.pop()
        if isinstance(part, dict):
            fields = cast("dict[str, Any]", part)
            pending += [(inner, inside) for inner in fields.values()]
            name = fields.get("$ref")
            if isinstance(name, str) and name not in inside:
                pending.append((at_pointer(schema, name), inside | {name}))
        elif isinstance(part, list):
            pending += [(inner, inside) for inner in cast("list[Any]", part)]
    return True


def simpler_schema(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Makes a schema that strict endpoints accept, as close to the server's as possible.

    The schema is an object with properties, without alternatives at the top level. Every object in it has
    ``properties``, every array has ``items``, and enums hold texts only.
    """
    whole = cast("dict[str, Any]", _completed(dict(schema), 0))
    simple = {**whole, **resolve(whole, whole)}
    for word in _NOT_AT_THE_TOP:
        simple.pop(word, None)
    if not isinstance(simple.get("required"), list):
        simple.pop("required", None)
    declared = properties_in(whole, whole).items()
    properties: dict[str, Any] = {
        name: part if isinstance(part, dict) else {} for name, part in declared if part is not False
    }
    return {**simple, "type": "object", "properties": properties}


def declared_properties(schema: Mapping[str, Any]) -> dict[str, Any]:
    properties = schema.get("properties")
    return cast("dict[str, Any]", properties) if isinstance(properties, dict) else {}


def _completed(value: Any, depth: int, *, by_name: bool = False) -> Any:
    """Completes a schema, a list of schemas, or (`by_name`) schemas by name."""
    if depth > _DEEPEST:
        return value
    if isinstance(value, list):
        return [_completed(inner, depth + 1) for inner in cast("list[Any]", value)]
    if not isinstance(value, dict):
        return value
    schema = cast("dict[str, Any]", value)
    if by_name:
        return {name: _completed(inner, depth + 1) for name, inner in schema.items()}
    completed: dict[str, Any] = {
        word: inner if word in DATA_WORDS else _completed(inner, depth + 1, by_name=word in SCHEMAS_BY_NAME)
        for word, inner in schema.items()
    }
    values = cast("list[Any] | None", schema["enum"] if isinstance(schema.get("enum"), list) else None)
    if values and not all(isinstance(value, str) for value in values):
        del completed["enum"]  # Google's endpoints accept texts only
        choice = f"One of {json.dumps(values, ensure_ascii=False)}"
        completed["description"] = f"{schema['description']} {choice}" if "description" in schema else choice
    kind = schema.get("type")
    kinds = cast("list[Any]", kind) if isinstance(kind, list) else [kind]
    if "array" in kinds and "items" not in schema:
        completed["items"] = {}
    if "object" in kinds and not isinstance(schema.get("properties"), dict):
        completed["properties"] = {}
    return completed
