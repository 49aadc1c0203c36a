"""Secrets of ours in what a server says about itself and its tools, taken out before anybody sees them.

Such texts go into tables, files and the contexts of models. Only texts are changed: what a call depends on,
as the names of tools and parameters, stays even where it happens to be somebody's password.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any, Final, cast
from urllib.parse import parse_qsl, urlsplit

from ...types.routing import looks_secret
from ..auth import header_secrets
from ..protocol.server_info import ServerInfo
from ..protocol.tools import ToolDefinition

_TEXTS: Final = frozenset({"$comment", "default", "description", "example", "examples", "title"})
_SHORTEST: Final = 6
_BLACK: Final = "[secret]"


def tools_without(secrets: Iterable[str], tools: list[ToolDefinition]) -> list[ToolDefinition]:
    """Black out secrets in the texts of definitions, whose digests are then those of what is left.

    Args:
        secrets: What must not be seen; very short ones are left alone, they would black out ordinary words.
        tools: The definitions as they came.
    """
    long = _long_ones(secrets)
    spelled = [json.dumps(secret)[1:-1] for secret in long]
    return [
        ToolDefinition.from_raw(_without(long, tool.raw))
        if long and any(map(json.dumps(tool.raw).__contains__, spelled))
        else tool
        for tool in tools
    ]


def server_without(secrets: Iterable[str], info: ServerInfo) -> ServerInfo:
    """Black out secrets in what a server says about itself; see `tools_without`."""
    long = _long_ones(secrets)
    parts = {name: getattr(info, name) for name in ("name", "title", "version", "instructions")}
    return replace(info, **_blacked_out(long, parts)) if long else info


def secrets_in(headers: Mapping[str, str], url: str) -> Iterator[str]:
    """What looks like a secret among a person's own headers and in the query of a URL."""
    for name, value in (*headers.items(), *parse_qsl(urlsplit(url).query)):
        if looks_secret(name, value):
            yield from header_secrets([value])


def _long_ones(secrets: Iterable[str]) -> list[str]:
    # The longest first: one may be a part of another.
    return sorted({secret for secret in secrets if len(secret) >= _SHORTEST}, key=len, reverse=True)


def _without(secrets: list[str], value: Any) -> Any:
    match value:
        case dict():
            members = cast("dict[str, Any]", value)
            return {
                key: (_blacked_out if key in _TEXTS else _without)(secrets, inner)
                for key, inner in members.items()
            }
        case list():
            return [_without(secrets, inner) for inner in cast("list[Any]", value)]
        case _:
            return value


def _blacked_out(secrets: list[str], value: Any) -> Any:
    match value:
        case str():
            for secret in secrets:
                value = value.replace(secret, _BLACK)
            return value
        case dict():
            members = cast("dict[str, Any]", value)
            return {key: _blacked_out(secrets, inner) for key, inner in members.items()}
        case list():
            return [_blacked_out(secrets, inner) for inner in cast("list[Any]", value)]
        case _:
            return value
