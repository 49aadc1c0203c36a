"""Servers with names: the file in which ``knime-mcp config`` keeps them, and a node's route to one.

The file is a ``mcp.json`` as other programs have it, so that entries can be copied from one to the other.
What stands in it as ``${VARIABLE}`` is a secret of the command line. A node cannot use it, as its settings
and the tools that it lists hold names of credentials only. An entry with ``"trust": true`` is a server that
agents of the command line believe; ``"model"`` beside the servers is the model that they use.
"""

from __future__ import annotations

import json
import os
import re
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, cast

from ...client.protocol.messages import as_object
from ...system import user_folder
from ...types.errors import FileFailed, SettingInvalid
from ...types.routing import ServerRoute
from ...types.texts import origin_and_path, why_no_json

Entry = dict[str, Any]

REFERENCE: Final = re.compile(r"\$\{([^}]*)\}")
_FILE: Final = "KNIME_MCP_SERVERS"
_NAME: Final = re.compile(r"[A-Za-z0-9_][\w.-]*", re.ASCII)
_COMMENTS: Final = re.compile(r'("(?:\\.|[^"\\])*")|//[^\n]*|/\*.*?\*/', re.DOTALL)
_LAST_COMMA: Final = re.compile(r'("(?:\\.|[^"\\])*")|,(?=\s*[}\]])')


def servers_file() -> Path:
    """The file: the one that ``KNIME_MCP_SERVERS`` names, or else one of the user's own settings."""
    named = os.environ.get(_FILE)
    if named:
        return Path(named)
    return user_folder("settings") / "knime-mcp" / "servers.json"


def is_name(word: str) -> bool:
    """Whether a word can be the name of a server: no URL, and nothing that could begin one."""
    return _NAME.fullmatch(word) is not None and not word.startswith("stdio:")


def read_content(file: Path) -> dict[str, Any]:
    """A ``mcp.json`` as it is written, without VS Code's comments.

    Raises:
        FileFailed: The file is missing, or not a JSON object.
    """
    try:
        text = file.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise FileFailed(f"{file} cannot be read: {error.strerror or error}") from None
    except UnicodeDecodeError:
        raise FileFailed(f"{file} is not UTF-8 text") from None
    # In this order, as a comment may stand behind the last comma.
    for pattern in (_COMMENTS, _LAST_COMMA):
        # Both expressions match strings first and keep them: what looks like a comment in a URL is none.
        text = pattern.sub(lambda match: match[1] or "", text)
    try:
        found = json.loads(text or "{}")
    except (ValueError, RecursionError) as error:
        raise FileFailed(f"{file} cannot be read as JSON: {why_no_json(error)}") from None
    if not isinstance(found, dict):
        raise FileFailed(f"{file} has no object 'mcpServers' with a server per name")
    return cast("dict[str, Any]", found)


def read_entries(file: Path) -> dict[str, Entry]:
    """The entries of a ``mcp.json`` by name. Raises `FileFailed`, see `read_content`, or if it has none."""
    content = read_content(file)
    inner = as_object(content.get("mcp"))  # the settings.json of VS Code has the servers one level deeper
    # Most programs write `mcpServers`, VS Code `servers`, Zed `context_servers`, opencode `mcp`.
    found_at = next((key for key in ("mcpServers", "servers", "context_servers") if key in content), None)
    servers = inner.get("servers", inner) if found_at is None else content[found_at]
    if not isinstance(servers, dict):
        raise FileFailed(f"{file} has no object 'mcpServers' with a server per name")
    entries = cast("dict[str, Any]", servers)
    return {name: cast("Entry", entry) for name, entry in entries.items() if isinstance(entry, dict)}


def known_entries() -> dict[str, Entry]:
    """The servers that have a name; none without the file. Raises as `read_entries` does."""
    file = servers_file()
    return read_entries(file) if file.exists() else {}


def where(entry: Entry) -> str:
    """The place of a server: arguments and queries may hold secrets and are not shown."""
    url = _url(entry)
    return f"the command {entry.get('command', '?')}" if url is None else origin_and_path(url)


def named_route(word: str) -> ServerRoute:
    """The route of a node to the server of this name, ``stdio:<name>`` if it is a command.

    Raises:
        SettingInvalid: There is no such server, or a node cannot use it. The word is not shown: it may be
            anything that somebody has pasted.
        FileFailed: The file cannot be read.
    """
    entries = known_entries()
    if word not in entries:
        names = ", ".join(sorted(filter(is_name, entries))) or "none yet"
        raise SettingInvalid(
            "The server URL does not start with http:// or https://, and is not the name of a server",
            setting="server_url",
            fix="Enter the full URL, such as https://host/mcp, or a name. Servers with a name on this"
            f" computer: {names}. Add one: knime-mcp config add NAME URL",
        )
    entry = entries[word]
    url = _url(entry)
    if url is None:
        return ServerRoute(f"stdio:{word}")
    headers = headers_of(entry)
    texts = " ".join((url, *headers.values()))
    if variables := REFERENCE.findall(texts):
        raise SettingInvalid(
            f"The server '{word}' takes a secret from the environment ({', '.join(variables)}), which a node"
            " cannot keep",
            setting="server_url",
            fix=f"Name a credential instead: knime-mcp config add {word} URL --credential NAME --force. Then"
            " add a Credentials Configuration node with this credential, and connect its flow variable port",
        )
    route = ServerRoute.parse(url)
    kind = entry.get("type", entry.get("transport"))
    return replace(
        route,
        headers=(*route.headers, *headers.items()),
        transport="sse" if kind == "sse" else route.transport,
    )


def headers_of(entry: Entry) -> dict[str, str]:
    init = entry.get("requestInit")  # where programs in JavaScript write headers
    inner: Any = cast("Entry", init).get("headers") if isinstance(init, dict) else None
    found: dict[str, str] = {}
    for part in (inner, entry.get("headers")):
        if isinstance(part, dict):
            found |= {name: str(value) for name, value in cast("dict[str, Any]", part).items()}
    return found


def _url(entry: Entry) -> str | None:
    url = entry.get("url") or entry.get("serverUrl") or entry.get("httpUrl")
    return url if isinstance(url, str) else None
