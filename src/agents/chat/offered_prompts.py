"""The prompts that the servers of a chat offer: listed, filled in, and taken into the conversation."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from langchain_core.messages import AIMessage, HumanMessage

from ...client.protocol.offers import PromptDefinition, messages_of_prompt
from ...types.errors import ArgumentsInvalid, MCPError, ProtocolError
from ...types.texts import canonical_json
from ..message_content import ORIGIN
from ..prompter.conversation_table import ConversationRow
from ..questions import block_for_model

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from ...runs.engine import Run
    from ...types.routing import ServerRoute


@dataclass(frozen=True, slots=True)
class OfferedPrompt:
    """A prompt and the server that offers it."""

    route: ServerRoute
    definition: PromptDefinition

    @property
    def usage(self) -> str:
        """Name and arguments, as they are typed."""
        arguments = (
            f"{each.name}=…" if each.is_required else f"[{each.name}=…]" for each in self.definition.arguments
        )
        return " ".join([self.definition.name, *arguments])

    def shown(self) -> dict[str, Any]:
        """For a page."""
        definition = self.definition
        return {
            "server": self.route.url,
            "name": definition.title or definition.name,
            "hint": definition.description or "",
            "arguments": [
                {"name": each.name, "hint": each.description or "", "is_required": each.is_required}
                for each in definition.arguments
            ],
        }

    def missing(self, given: Mapping[str, str]) -> list[str]:
        """The required arguments that are not given; raises `ArgumentsInvalid` for one that there is not."""
        names = [each.name for each in self.definition.arguments]
        if unknown := [name for name in given if name not in names]:
            raise ArgumentsInvalid(
                f"The prompt '{self.definition.name}' has no argument '{unknown[0]}'",
                fix=f"It has {', '.join(names) or 'none'}",
            )
        required = [each.name for each in self.definition.arguments if each.is_required]
        return [name for name in required if not given.get(name)]


def offered_prompts(run: Run, routes: Iterable[ServerRoute]) -> tuple[list[OfferedPrompt], list[MCPError]]:
    """The prompts of all servers, and why some could not be asked."""
    found: list[OfferedPrompt] = []
    problems: list[MCPError] = []
    # A route is of one tool, and each server is asked once.
    for route in dict.fromkeys(replace(route, tool=None, digest=None) for route in routes):
        try:
            listed = run.pool.client(route).list_prompts(is_canceled=run.is_canceled)
        except MCPError as error:
            problems.append(error)
        else:
            found += [OfferedPrompt(route, definition) for definition in listed]
    return found, problems


def filled_in(run: Run, prompt: OfferedPrompt, arguments: Mapping[str, str]) -> list[ConversationRow]:
    """The messages of a prompt, as a part of the conversation that its server wrote; on record.

    Raises `MCPError` if an argument is missing, or the server does not fill it in.
    """
    if missing := prompt.missing(arguments):
        raise ArgumentsInvalid(
            f"The prompt '{prompt.definition.name}' needs {', '.join(missing)}", fix="Give it a value"
        )
    url, name = prompt.route.url, prompt.definition.name
    client = run.pool.client(prompt.route)
    noted: dict[str, Any] = {"what": "prompt", "server": url, "name": name, "arguments": dict(arguments)}
    try:
        raw = run.secrets.data(client.get_prompt(name, arguments, is_canceled=run.is_canceled), Counter())
    except MCPError as error:
        run.note("read", {**noted, "error": str(error)})
        raise
    digest = sha256(canonical_json(raw).encode()).hexdigest()
    run.note("read", {**noted, "digest": f"sha256:{digest}"})
    messages = messages_of_prompt(raw)
    if not messages:
        raise ProtocolError(f"The prompt '{name}' has no messages", server=url)
    kinds = {"assistant": AIMessage}
    return [
        ConversationRow(
            message=kinds.get(message.role, HumanMessage)(
                content=[block_for_model(message.content)], additional_kwargs={ORIGIN: url}
            )
        )
        for message in messages
    ]
