"""A model behind Anthropic's Messages API.

Always as a stream: it refuses long answers otherwise. https://platform.claude.com/docs/en/api/messages
"""

from __future__ import annotations

import base64
from contextlib import aclosing
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from langchain_core.messages import AIMessage, BaseMessage, SystemMessage, ToolMessage

from ...client.protocol.messages import as_object
from ..message_content import GIVEN_BACK, blocks_of, image_of, mappings, read_calls, shown_block, text_of
from .agent_model import AgentModel, events_of
from .model_errors import AnsweredError, Construct, ModelAnswerInvalid

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from .agent_model import ModelRequest
    from .chat_model import ChatModelSettings
    from .endpoint import Endpoint

_BLOCKS: Final = "blocks"  # in `GIVEN_BACK`: text and thoughts as they came; signatures hold for their order
_TOKEN_LIMIT: Final = 32_000  # the API demands one; a model that writes less refuses it with its own
_JOINED: Final = {"text_delta": "text", "thinking_delta": "thinking", "signature_delta": "signature"}
_READ: Final = ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")


class AnthropicModel(AgentModel):
    """A model at Anthropic's service, or at another that speaks its protocol."""

    # The others would be the same request once more.
    changes = frozenset(
        {
            *(Construct.IMAGES, Construct.ONE_IMAGE, Construct.LARGE_LIMIT, Construct.CALL_IDS),
            *(Construct.ADAPTIVE, Construct.THOUGHTS, Construct.ROLES, Construct.SYSTEM),
        }
    )

    def __init__(self, settings: ChatModelSettings, endpoint: Endpoint) -> None:
        super().__init__(replace(settings, token_limit=settings.token_limit or _TOKEN_LIMIT), endpoint)

    async def answer(self, request: ModelRequest) -> AIMessage:
        answer = _Answer(request)
        async with (
            self._answered("/messages", self._body(request)) as body,
            aclosing(events_of(body)) as events,
        ):
            async for event in events:
                answer.take(event or {})
        return answer.message()

    def _body(self, request: ModelRequest) -> dict[str, Any]:
        settings, more = self.settings, dict(self.settings.more or {})
        system, messages = _sent_messages(request.messages)
        body: dict[str, Any] = {
            "model": settings.listed_name,
            "max_tokens": request.token_limit or settings.token_limit,
            "messages": messages,
            "stream": True,
        }
        if system:
            body["system"] = system
        if settings.temperature is not None:
            body["temperature"] = settings.temperature
        if request.tools:
            # Without this each turn pays for the tools and for all turns before it in full.
            body["cache_control"] = {"type": "ephemeral"}
            body["tools"] = [_tool(tool["function"]) for tool in request.tools]
            match request.tool_choice:
                case None | "auto":
                    pass
                case "none":
                    body["tool_choice"] = {"type": "none"}
                case choice:
                    body["tool_choice"] = {"type": "tool", "name": choice["function"]["name"]}
        output: dict[str, Any] = {}
        if effort := more.pop("reasoning_effort", None):
            output["effort"] = effort
            # Newer models think only if they are asked to, and may not with these.
            may_think = settings.temperature in (None, 1) and not isinstance(request.tool_choice, dict)
            if may_think and Construct.ADAPTIVE not in self.refused:
                body["thinking"] = {"type": "adaptive"}
        if request.response_format is not None:
            schema = request.response_format["json_schema"]["schema"]
            output["format"] = {"type": "json_schema", "schema": schema}
        if output:
            body["output_config"] = output
        if stop := more.pop("stop", None):
            body["stop_sequences"] = stop
        # Last, as a person's own fields count more than ours.
        return body | more


def _sent_messages(messages: Sequence[BaseMessage]) -> tuple[str, list[dict[str, Any]]]:
    """The system's text, and the turns: results of tools are the user's, whose messages are one turn."""
    system: list[str] = []
    turns: list[dict[str, Any]] = []
    for message in messages:
        if isinstance(message, SystemMessage):
            system.append(text_of(message))
            continue
        role = "assistant" if isinstance(message, AIMessage) else "user"
        blocks = _blocks(message)
        if turns and turns[-1]["role"] == role:
            turns[-1]["content"] += blocks
        elif blocks:
            turns.append({"role": role, "content": blocks})
    return "\n\n".join(filter(None, system)), turns


def _blocks(message: BaseMessage) -> list[dict[str, Any]]:
    if isinstance(message, ToolMessage):
        result = {"type": "tool_result", "tool_use_id": message.tool_call_id, "content": text_of(message)}
        return [{**result, "is_error": message.status == "error"}]
    content = [block for part in blocks_of(message) if (block := _block(part)) is not None]
    if not isinstance(message, AIMessage) or not message.tool_calls:
        return content
    # With the thoughts before its calls, which Anthropic wants back.
    returned = as_object(message.additional_kwargs.get(GIVEN_BACK))
    blocks = mappings(as_object(returned.get("message")).get(_BLOCKS)) or content
    calls = (
        {"type": "tool_use", "id": call["id"], "name": call["name"], "input": call["args"]}
        for call in message.tool_calls
    )
    return [*blocks, *calls]


def _block(part: Mapping[str, Any]) -> dict[str, Any] | None:
    """A text or an image in the API's form, which refuses blank texts."""
    image = image_of(part)
    if image is not None:
        data = base64.b64encode(image[0]).decode()
        return {"type": "image", "source": {"type": "base64", "media_type": image[1], "data": data}}
    link = part.get("image_url")
    if part.get("type") == "image_url" and link:
        url = as_object(link).get("url", link)
        return {"type": "image", "source": {"type": "url", "url": url}}
    text = shown_block(part)
    return {"type": "text", "text": text} if text.strip() else None


def _tool(function: Mapping[str, Any]) -> dict[str, Any]:
    # The API demands the type at the top, which a server's schema may leave out.
    schema = {"type": "object", **function.get("parameters", {})}
    return {"name": function["name"], "description": function["description"], "input_schema": schema}


class _Answer:
    """An answer that is put together from the events of its stream."""

    def __init__(self, request: ModelRequest) -> None:
        self._on_text = request.on_text
        self._head: dict[str, Any] | None = None
        self._blocks: dict[int, dict[str, Any]] = {}
        self._written: dict[int, list[str]] = {}  # joined once: arguments come in thousands of pieces
        self._usage: dict[str, Any] = {}
        self._end: dict[str, Any] = {}

    def take(self, event: dict[str, Any]) -> None:
        match event.get("type"):
            case "message_start":
                self._head = as_object(event.get("message"))
                self._count(self._head)
            case "content_block_start":
                self._blocks[event["index"]] = dict(as_object(event.get("content_block")))
            case "content_block_delta":
                self._extend(event["index"], as_object(event.get("delta")))
            case "message_delta":
                self._end |= as_object(event.get("delta"))
                self._count(event)
            case "error":
                raise AnsweredError(event)  # in the middle of a stream it has no HTTP status
            case _:
                pass

    def _count(self, counted: dict[str, Any]) -> None:
        usage = as_object(counted.get("usage"))
        self._usage |= {name: number for name, number in usage.items() if number is not None}

    def _extend(self, index: int, delta: dict[str, Any]) -> None:
        block = self._blocks.setdefault(index, {"type": "text", "text": ""})
        if delta.get("type") == "input_json_delta":
            self._written.setdefault(index, []).append(str(delta.get("partial_json") or ""))
        elif (name := _JOINED.get(str(delta.get("type")))) and delta.get(name):
            block[name] = f"{block.get(name) or ''}{delta[name]}"
            if name == "text" and self._on_text is not None:
                self._on_text(delta[name])

    def message(self) -> AIMessage:
        """The answer; calls with arguments that cannot be read are set aside in it."""
        if self._head is None:
            raise ModelAnswerInvalid.without_message()
        reason = self._end.get("stop_reason")
        # A stream that ends without one was cut off on its way.
        if reason is None:
            raise ModelAnswerInvalid.broken_off()
        calls = {index: block for index, block in self._blocks.items() if block.get("type") == "tool_use"}
        fields = read_calls(
            (call.get("id"), call.get("name"), "".join(self._written.get(index, [])) or call.get("input"))
            for index, call in calls.items()
        )
        # The API refuses blank texts, which its models write beside calls.
        blocks = [
            block
            for index, block in self._blocks.items()
            if index not in calls and (block.get("type") != "text" or str(block.get("text") or "").strip())
        ]
        details = as_object(self._end.get("stop_details"))
        if reason == "refusal" and details.get("explanation"):
            fields["additional_kwargs"]["refusal"] = details["explanation"]
        if any(block.get("type") != "text" for block in blocks):
            fields["additional_kwargs"][GIVEN_BACK] = {"message": {_BLOCKS: blocks}}
        read, wrote = sum(self._usage.get(name, 0) for name in _READ), self._usage.get("output_tokens", 0)
        usage: Any = {"input_tokens": read, "output_tokens": wrote, "total_tokens": read + wrote}
        return AIMessage(
            content="".join(block["text"] for block in blocks if block.get("type") == "text"),
            response_metadata={"finish_reason": reason, "model_name": self._head.get("model", "")},
            # Some gateways leave out at the end of a stream what was read: a count that cannot be true.
            usage_metadata=usage if read else None,
            id=self._head.get("id"),
            **fields,
        )
