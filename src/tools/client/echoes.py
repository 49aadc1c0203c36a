"""Secrets of ours in what a server says, taken out before anybody sees them.

Its texts go into tables, files and the contexts of models. Of its tools only texts are changed: what a call
depends on, as the names of tools and parameters, stays even where it happens to be somebody's password.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, Final, cast
from urllib.parse import parse_qsl, quote, urlsplit

from ...types.errors import MCPError, ServerError
from ...types.routing import looks_secret
from ..auth import header_secrets
from ..protocol.json_text import map_texts
from ..protocol.server_info import ServerInfo
from ..protocol.tools import ToolDefinition
from ..words import CUT, in_one_line

_TEXTS: Final = frozenset({"$comment", "default", "description", "example", "examples", "title"})
_SHORTEST: Final = 6  # shorter ones would black out ordinary words
_SHORTEST_IN_ERROR: Final = 4
_BLACK: Final = "[secret]"


def tools_without(secrets: Iterable[str], tools: list[ToolDefinition]) -> list[ToolDefinition]:
    """Black out secrets in the texts of definitions, whose digests are then those of what is left.

    Args:
        secrets: What must not be seen; very short ones are left alone.
        tools: The definitions as they came.
    """
    long = _longest_first(secrets, _SHORTEST)
    spelled = [json.dumps(secret)[1:-1] for secret in long]
    return [
        ToolDefinition.from_raw(_without(long, tool.raw))
        if long and any(map(json.dumps(tool.raw).__contains__, spelled))
        else tool
        for tool in tools
    ]


def server_without(secrets: Iterable[str], info: ServerInfo) -> ServerInfo:
    """Black out secrets in what a server says about itself; see `tools_without`."""
    long = _longest_first(secrets, _SHORTEST)
    parts = {name: getattr(info, name) for name in ("name", "title", "version", "instructions")}
    return replace(info, **map_texts(parts, partial(_blacked_out, long))) if long else info


def secrets_in(headers: Mapping[str, str], url: str) -> Iterator[str]:
    """What looks like a secret among a person's own headers and in the query of a URL."""
    for name, value in (*headers.items(), *parse_qsl(urlsplit(url).query)):
        if looks_secret(name, value):
            yield from header_secrets([value])


def values_in(headers: Mapping[str, str], url: str) -> Iterator[str]:
    """All that a person has put there, whatever it looks like, and as it stands in a URL."""
    query = urlsplit(url).query
    values = [value for _, value in parse_qsl(query)]
    values += [quote(value, safe="") for value in values]
    yield from (value for value in (*header_secrets(headers.values()), *values) if len(value) >= _SHORTEST)
    yield query


def error_without(secrets: Iterable[str], error: MCPError) -> MCPError:
    """Black out secrets that a server has echoed into its error, which is changed in place."""
    forms = _longest_first((form for secret in secrets for form in _forms(secret)), _SHORTEST_IN_ERROR)
    if forms:
        black = partial(_blacked_out_of_cut, forms)
        error.what, error.args = black(error.what), tuple(map_texts(list(error.args), black))
        error.fix = map_texts(error.fix, black)
        if isinstance(error, ServerError):
            error.data = map_texts(error.data, black)
    return error


def _longest_first(secrets: Iterable[str], shortest: int) -> list[str]:
    # One may be a part of another.
    return sorted({secret for secret in secrets if len(secret) >= shortest}, key=len, reverse=True)


def _forms(secret: str) -> Iterator[str]:
    """A secret as it stands in a server's words: as it is, in one line, and both as JSON text."""
    for text in (secret, in_one_line(secret, len(secret))):
        yield from (text, json.dumps(text)[1:-1], json.dumps(text, ensure_ascii=False)[1:-1])


def _without(secrets: list[str], value: Any) -> Any:
    match value:
        case dict():
            members = cast("dict[str, Any]", value)
            black = partial(_blacked_out, secrets)
            return {
                key: map_texts(inner, black) if key in _TEXTS else _without(secrets, inner)
                for key, inner in members.items()
            }
        case list():
            return [_without(secrets, inner) for inner in cast("list[Any]", value)]
        case _:
            return value


def _blacked_out(secrets: list[str], text: str) -> str:
    for secret in secrets:
        text = text.replace(secret, _BLACK)
    return text


def _blacked_out_of_cut(secrets: list[str], text: str) -> str:
    """Likewise for a text of which parts may have been cut off, and a secret with them but for its start."""
    for secret in secrets:
        *cut, rest = text.replace(secret, _BLACK).split(CUT)
        text = CUT.join([*(_without_beginning(part, secret) for part in cut), rest])
    return text


def _without_beginning(text: str, secret: str) -> str:
    for length in range(min(len(secret) - 1, len(text)), _SHORTEST_IN_ERROR - 1, -1):
        if text.endswith(secret[:length]):
            return text[:-length] + _BLACK
    return text
