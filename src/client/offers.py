"""Lists what a server offers beside tools: resources, their templates, and prompts."""

from collections.abc import Callable, Mapping
from typing import Any, Final

from ..types.errors import ProtocolError, ResultTooLarge, ServerError
from .clock import Wait
from .limits import Limits
from .protocol.messages import METHOD_NOT_FOUND
from .protocol.offers import PromptDefinition, ResourceDefinition
from .protocol.tools import parse_page

Ask = Callable[[str, dict[str, Any], Wait], Mapping[str, Any]]
_RESOURCES: Final = (("resources/list", "resources"), ("resources/templates/list", "resourceTemplates"))


def resources(ask: Ask, limits: Limits, wait: Wait) -> list[ResourceDefinition]:
    """All resources, and behind them all templates. Entries without a URI are left out."""
    return [
        definition
        for method, key in _RESOURCES
        for raw in _listed(ask, method, key, limits, wait)
        if (definition := ResourceDefinition.from_raw(raw, is_template=key != "resources")).uri
    ]


def prompts(ask: Ask, limits: Limits, wait: Wait) -> list[PromptDefinition]:
    """All prompts that have a name."""
    listed = map(PromptDefinition.from_raw, _listed(ask, "prompts/list", "prompts", limits, wait))
    return [prompt for prompt in listed if prompt.name]


def _listed(ask: Ask, method: str, key: str, limits: Limits, wait: Wait) -> list[dict[str, Any]]:
    entries: list[dict[str, Any]] = []
    cursor: str | None = None
    seen: set[str] = set()
    for _ in range(limits.pages):
        try:
            result = ask(method, {} if cursor is None else {"cursor": cursor}, wait)
        except ServerError as error:
            if error.code == METHOD_NOT_FOUND and cursor is None:
                return []  # a server need not have any
            raise
        page, cursor = parse_page(result, key)
        entries += page
        if len(entries) > limits.tools:
            raise ResultTooLarge(f"The server lists more than {limits.tools} {key}", limit=limits.tools)
        if cursor is None:
            return entries
        if cursor in seen:
            raise ProtocolError(
                f"The server's list of {key} runs in circles", fix="Ask whoever runs the server"
            )
        seen.add(cursor)
    raise ResultTooLarge(f"The server's list of {key} has more than {limits.pages} pages", limit=limits.pages)
