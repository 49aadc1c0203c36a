"""What the shell offers at the Tab key: servers with names, their tools, and the tools' parameters.

Whoever presses Tab waits, and did not ask to start anything: a server over HTTP has two seconds to answer,
a server that is a command is not started, and what cannot be found out is not offered. What `knime-mcp list`
saw last is kept. Shells evaluate what they are offered, so of a server's texts only harmless ones get there.
"""

import hashlib
import json
import os
import re
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

import typer

from ..system import user_folder

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from ..client.protocol.tools import ToolDefinition

_SECONDS: Final = 2.0
_FRESH: Final = 600.0
_WORD: Final = re.compile(r"[A-Za-z0-9_][\w./:@-]*", re.ASCII)
_UNUSUAL: Final = re.compile(r"[^\w.,-]+")

Offer = tuple[str, str]
"""A word, and what is said about it."""


def first_word() -> str | None:
    """The command on the line that the shell wants to have completed, None outside of completion."""
    # fish and zsh give the first, bash the second.
    typed = os.environ.get("_TYPER_COMPLETE_ARGS") or os.environ.get("COMP_WORDS") or ""
    words = typed.split()
    return words[1] if len(words) > 1 else None


def servers(incomplete: str) -> list[Offer]:
    from ..tools.node_settings.named_servers import known_entries, where

    with suppress(Exception):
        entries = known_entries().items()
        return [(name, where(entry)) for name, entry in entries if name.startswith(incomplete)]
    return []


def tools(context: typer.Context, incomplete: str) -> list[Offer]:
    found = _tools(context).items()
    return [(name, tool["description"]) for name, tool in found if name.startswith(incomplete)]


def arguments(context: typer.Context, incomplete: str) -> list[Offer]:
    """``key=`` for each parameter that is not given yet; behind it, the values of which one can be chosen.

    Where nothing is offered, shells offer files.
    """
    tool = _tools(context).get(str(context.params.get("tool")))
    if tool is None:
        return []
    typed = list(cast("Sequence[str]", context.params.get("arguments") or ()))
    *before, last = typed or [""]
    # bash makes three words of key=value, and click drops a lone =.
    if last == "=" or last in tool["parameters"]:
        name = before[-1] if last == "=" and before else last
        _, choices = tool["parameters"].get(name, ("", []))
        return [(choice, "") for choice in choices if choice.startswith(incomplete)]
    name, equals, value = incomplete.partition("=")
    if equals:
        _, choices = tool["parameters"].get(name, ("", []))
        return [(f"{name}={choice}", "") for choice in choices if choice.startswith(value)]
    given = {word.partition("=")[0].rstrip(":") for word in typed}
    parameters = tool["parameters"].items()
    return [(f"{own}=", about) for own, (about, _) in parameters if own.startswith(name) and own not in given]


def keep_tools(server: str, definitions: "Iterable[ToolDefinition]") -> None:
    """Keeps what Tab offers for a server; that it cannot be kept is nobody's business."""
    with suppress(OSError):
        file = _file(server)
        file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        harmless = (definition for definition in definitions if _WORD.fullmatch(definition.name))
        text = json.dumps({definition.name: _told(definition) for definition in harmless})
        file.write_text(text, encoding="utf-8")


def _told(definition: "ToolDefinition") -> dict[str, Any]:
    from ..client.protocol.messages import as_object, as_text

    properties = as_object(definition.input_schema.get("properties"))
    shapes = {name: as_object(shape) for name, shape in properties.items() if _WORD.fullmatch(name)}
    return {
        "description": _about(definition.description),
        "parameters": {
            name: (_about(as_text(shape.get("description"))), _choices(shape))
            for name, shape in shapes.items()
        },
    }


def _about(text: str | None) -> str:
    return _UNUSUAL.sub(" ", text or "").strip()[:48]


def _choices(shape: dict[str, Any]) -> list[str]:
    values = shape.get("enum", ["true", "false"] if shape.get("type") == "boolean" else [])
    if not isinstance(values, list):
        return []
    return [value for value in cast("list[Any]", values) if isinstance(value, str) and _WORD.fullmatch(value)]


def _tools(context: typer.Context) -> dict[str, Any]:
    server = context.params.get("url")
    if not isinstance(server, str) or context.params.get("stdio"):
        return {}
    with suppress(Exception):
        file = _file(server)
        if not file.is_file() or time.time() - file.stat().st_mtime > _FRESH:
            with suppress(Exception):
                # A server that does not answer changes nothing: what is kept from earlier is better.
                keep_tools(server, _listed(server))
        return json.loads(file.read_text(encoding="utf-8"))
    return {}


def _listed(server: str) -> "Iterator[ToolDefinition]":
    from ..client.limits import Timeouts
    from ..client.mcp_client import MCPClient
    from .named_servers import named_server

    clocks = Timeouts(connect=_SECONDS, idle=_SECONDS, total=_SECONDS)
    config = named_server(server)
    if config is None:
        client = MCPClient(server.partition("#")[0], timeouts=clocks)
    elif config.kind == "url":
        url = config.url.partition("#")[0]
        client = MCPClient(url, headers=config.headers, secrets=config.taken, timeouts=clocks)
    else:
        raise LookupError  # only `knime-mcp list` may have seen its tools
    with client:
        yield from client.list_tools()


def _file(server: str) -> Path:
    digest = hashlib.sha256(server.encode()).hexdigest()
    return user_folder("cache") / "knime-mcp" / "tools" / f"{digest}.json"
