"""What a server offers beside tools: resources, templates of resources, and prompts.

https://modelcontextprotocol.io/specification/2025-11-25/server/resources and …/prompts. Templates are those
of RFC 6570; values of variables are texts, as a row of a table has them, and lists are not exploded.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any, Final, NamedTuple, cast
from urllib.parse import quote

from ...types.texts import canonical_json
from .messages import as_list, as_object, as_text
from .tools import ContentBlock, read_blocks

_EXPRESSION: Final = re.compile(r"\{([+#./;?&]?)([^{}]*)\}")
_LENGTH: Final = re.compile("[1-9][0-9]{0,3}")  # RFC 6570, section 2.4.1
_UNRESERVED: Final = "-._~"
_RESERVED: Final = _UNRESERVED + ":/?#[]@!$&'()*+,;=%"


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceDefinition:
    """A resource that a server lists, or a template of resources."""

    uri: str  # of a template, with its variables in braces
    name: str = ""
    title: str | None = None
    description: str | None = None
    mime_type: str | None = None
    size: int | None = None
    is_template: bool = False
    raw: dict[str, Any] = field(default_factory=dict[str, Any], repr=False, compare=False)

    @classmethod
    def from_raw(cls, raw: Mapping[str, Any], *, is_template: bool = False) -> "ResourceDefinition":
        size = raw.get("size")
        return cls(
            uri=as_text(raw.get("uriTemplate" if is_template else "uri")) or "",
            name=as_text(raw.get("name")) or "",
            title=as_text(raw.get("title")),
            description=as_text(raw.get("description")),
            mime_type=as_text(raw.get("mimeType")),
            size=size if isinstance(size, int) and not isinstance(size, bool) else None,
            is_template=is_template,
            raw=dict(raw),
        )


class PromptArgument(NamedTuple):
    """An argument of a prompt, which is always a text."""

    name: str
    description: str | None
    is_required: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptDefinition:
    """A prompt that a server lists."""

    name: str
    title: str | None = None
    description: str | None = None
    arguments: tuple[PromptArgument, ...] = ()
    raw: dict[str, Any] = field(default_factory=dict[str, Any], repr=False, compare=False)

    @classmethod
    def from_raw(cls, raw: Mapping[str, Any]) -> "PromptDefinition":
        arguments = map(as_object, as_list(raw.get("arguments")))
        return cls(
            name=as_text(raw.get("name")) or "",
            title=as_text(raw.get("title")),
            description=as_text(raw.get("description")),
            arguments=tuple(
                PromptArgument(name, as_text(each.get("description")), each.get("required") is True)
                for each in arguments
                if (name := as_text(each.get("name")))
            ),
            raw=dict(raw),
        )

    @property
    def digest(self) -> str:
        """Identifies what a person saw of the prompt before it was used: name, description, arguments."""
        said = [self.name, self.description, [list(argument) for argument in self.arguments]]
        return f"sha256:{sha256(canonical_json(said).encode()).hexdigest()}"


class PromptMessage(NamedTuple):
    role: str  # user or assistant
    content: ContentBlock


def contents_of(raw: Mapping[str, Any]) -> tuple[ContentBlock, ...]:
    """The contents in the result of ``resources/read``. Never fails: what cannot be read is unknown."""
    contents = raw.get("contents")
    if isinstance(contents, dict):  # one instead of a list
        contents = [cast("object", contents)]
    return tuple(
        block for each in as_list(contents) for block in read_blocks({"type": "resource", "resource": each})
    )


def messages_of_prompt(raw: Mapping[str, Any]) -> tuple[PromptMessage, ...]:
    """The messages in the result of ``prompts/get``; one with several blocks becomes several."""
    found: list[PromptMessage] = []
    for message in map(as_object, as_list(raw.get("messages"))):
        content = message.get("content")
        # A message has one content by the specification; some servers send several in a list.
        blocks = cast("list[Any]", content) if isinstance(content, list) else [content]
        role = as_text(message.get("role")) or "user"
        found += [PromptMessage(role, block) for block in read_blocks(blocks)]
    return tuple(found)


def variables_of(template: str) -> list[str]:
    """The names of a template's variables, each once."""
    names = (name for match in _EXPRESSION.finditer(template) for name, _ in _specs(match[2]))
    return list(dict.fromkeys(names))


def expanded(template: str, values: Mapping[str, str | None]) -> str:
    """The URI of a template; variables without a value are left out (RFC 6570, section 3.2)."""
    return _EXPRESSION.sub(lambda match: _expression(match[1], match[2], values), template)


def _specs(listed: str) -> Iterator[tuple[str, int | None]]:
    """Names of variables with the number of characters that are wanted of them."""
    for spec in listed.split(","):
        name, _, length = spec.strip().removesuffix("*").partition(":")
        if name:
            yield name, int(length) if _LENGTH.fullmatch(length) else None


def _expression(operator: str, listed: str, values: Mapping[str, str | None]) -> str:
    is_named = operator in (";", "?", "&")
    safe = _RESERVED if operator in ("+", "#") else _UNRESERVED
    parts: list[str] = []
    for name, length in _specs(listed):
        value = values.get(name)
        if value is None:
            continue
        # Cut before it is encoded: the length counts characters
        # (https://www.rfc-editor.org/rfc/rfc6570#section-2.4.1).
        text = quote(value if length is None else value[:length], safe=safe)
        # Of an empty value the path-style form has the name alone (RFC 6570,
        # section 3.2.7), the query `name=`.
        empty = name if operator == ";" else f"{name}="
        parts.append((f"{name}={text}" if text else empty) if is_named else text)
    first, between = {"": ("", ","), "+": ("", ","), "#": ("#", ","), "?": ("?", "&")}.get(
        operator, (operator, operator)
    )
    return first + between.join(parts) if parts else ""
