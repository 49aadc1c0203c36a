"""Blacks out the client's secrets where a server repeats them.

A server's texts go into tables, files and the contexts of models. In definitions of tools only texts for
readers are changed: what a call needs, such as names of tools and parameters, stays even if it equals a
secret.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, Final, cast
from urllib.parse import parse_qsl, quote, urlsplit

from ..types.errors import MCPError, ServerError
from ..types.routing import looks_secret
from .auth import header_secrets
from .protocol.json_text import map_texts
from .protocol.server_info import ServerInfo
from .protocol.tools import ToolDefinition
from .transports.base import Step
from .words import CUT, in_one_line

_TEXTS: Final = frozenset({"$comment", "default", "description", "example", "examples", "title"})
_SHORTEST: Final = 6  # blacking out shorter secrets would hit ordinary words
_SHORTEST_IN_ERROR: Final = 4
_BLACK: Final = "[secret]"


def tools_without(secrets: Iterable[str], tools: list[ToolDefinition]) -> list[ToolDefinition]:
    """Blacks out secrets in the texts of definitions; digests are then those of the changed definitions.

    Args:
        secrets: The secrets; very short ones are not blacked out.
        tools: The definitions as the server sent them.
    """
    long = _longest_first(secrets, _SHORTEST)
    spelled = [json.dumps(secret)[1:-1] for secret in long]
    return [
        ToolDefinition.from_raw(_without_secrets(long, tool.raw))
        if long and any(map(json.dumps(tool.raw).__contains__, spelled))
        else tool
        for tool in tools
    ]


def server_without(secrets: Iterable[str], info: ServerInfo) -> ServerInfo:
    """Blacks out secrets in what a server says about itself; see `tools_without`."""
    long = _longest_first(secrets, _SHORTEST)
    parts = {name: getattr(info, name) for name in ("name", "title", "version", "instructions")}
    return replace(info, **map_texts(parts, partial(_black_out, long))) if long else info


def secrets_in(headers: Mapping[str, str], url: str) -> Iterator[str]:
    """The values that look secret among the configured headers and in the URL's query."""
    for name, value in (*headers.items(), *parse_qsl(urlsplit(url).query)):
        if looks_secret(name, value):
            yield from header_secrets([value])


def values_in(headers: Mapping[str, str], url: str) -> Iterator[str]:
    """All values of the configured headers and of the URL's query, also in their URL-encoded form."""
    query = urlsplit(url).query
    values = [value for _, value in parse_qsl(query)]
    values += [quote(value, safe="") for value in values]
    yield from (value for value in (*header_secrets(headers.values()), *values) if len(value) >= _SHORTEST)
    yield query


def error_without(secrets: Iterable[str], error: MCPError) -> MCPError:
    """Blacks out secrets that a server repeated in an error, and returns the error, changed in place."""
    forms = _forms_of(secrets)
    if forms:
        black = partial(_black_out_cut_text, forms)
        error.what, error.args = black(error.what), tuple(map_texts(list(error.args), black))
        error.fix = map_texts(error.fix, black)
        if isinstance(error, ServerError):
            error.data = map_texts(error.data, black)
    return error


def step_without(secrets: Iterable[str], step: Step) -> Step:
    """Blacks out secrets that a server repeated in its answer to a step of connecting."""
    return replace(step, detail=_black_out_cut_text(_forms_of(secrets), step.detail))


def _forms_of(secrets: Iterable[str]) -> list[str]:
    return _longest_first((form for secret in secrets for form in _forms(secret)), _SHORTEST_IN_ERROR)


def _longest_first(secrets: Iterable[str], shortest: int) -> list[str]:
    # A secret may be part of a longer one, which must be replaced first.
    return sorted({secret for secret in secrets if len(secret) >= shortest}, key=len, reverse=True)


def _forms(secret: str) -> Iterator[str]:
    """The forms of a secret in a server's texts: unchanged, in one line, and both as JSON text."""
    for text in (secret, in_one_line(secret, len(secret))):
        yield from (text, json.dumps(text)[1:-1], json.dumps(text, ensure_ascii=False)[1:-1])


def _without_secrets(secrets: list[str], value: Any) -> Any:
    match value:
        case dict():
            members = cast("dict[str, Any]", value)
            black = partial(_black_out, secrets)
            return {
                key: map_texts(inner, black) if key in _TEXTS else _without_secrets(secrets, inner)
                for key, inner in members.items()
            }
        case list():
            return [_without_secrets(secrets, inner) for inner in cast("list[Any]", value)]
        case _:
            return value


def _black_out(secrets: list[str], text: str) -> str:
    for secret in secrets:
        text = text.replace(secret, _BLACK)
    return text


def _black_out_cut_text(secrets: list[str], text: str) -> str:
    """Blacks out secrets in a text with cut parts, also where only the beginning of a secret is left."""
    for secret in secrets:
        *cut, rest = text.replace(secret, _BLACK).split(CUT)
        text = CUT.join([*(_black_out_beginning(part, secret) for part in cut), rest])
    return text


def _black_out_beginning(text: str, secret: str) -> str:
    for length in range(min(len(secret) - 1, len(text)), _SHORTEST_IN_ERROR - 1, -1):
        if text.endswith(secret[:length]):
            return text[:-length] + _BLACK
    return text
