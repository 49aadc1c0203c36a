"""Servers with names on the command line, filled in from the environment, and the agents' model beside them.

The file (`tools.node_settings.named_servers`) holds no secrets: they stand in it as ``${VARIABLE}``, and come
from the environment when a server is used.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from ..client.protocol.messages import as_object
from ..system import whole_file
from ..tools.node_settings.named_servers import is_name, known_entries, read_content, servers_file
from .command_errors import CommandError, UsageError
from .files import writing

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from ..runs.server_configs import ServerConfig
    from ..tools.node_settings.named_servers import Entry

_MODEL: Final = "model"


def is_known(name: str) -> bool:
    """Whether there is a server of this name, which may not be usable."""
    return is_name(name) and name in known_entries()


def named_server(name: str) -> ServerConfig | None:
    """The server of this name, with its variables filled in; None if there is none.

    Raises:
        CommandError: Its entry, or the whole file, cannot be used.
    """
    if not is_known(name):
        return None
    configs, faults = _read(os.environ, only=name)
    if faults or name not in configs:
        raise CommandError(f"The server '{name}' cannot be used: {'; '.join(faults).rstrip('.')}.")
    return configs[name]


def faults_of(names: Collection[str]) -> list[str]:
    """Why servers of these names cannot be used, a sentence each."""
    return _read(None, without=known_entries().keys() - set(names))[1]


def _read(environment: Mapping[str, str] | None, **which: Any) -> tuple[dict[str, ServerConfig], list[str]]:
    from ..runs.server_configs import read_mcp_file  # late, as most commands are given a URL
    from ..yaml_text import Severity

    file = servers_file()
    configs, problems = read_mcp_file(file, environment, **which)
    return configs, [each.text(str(file)) for each in problems if each.severity is Severity.ERROR]


def unknown_name(word: str) -> UsageError | None:
    """The error for a word that looks like a name and is none; None if it may be meant as a URL."""
    # A word with a dot may be a host without its scheme.
    if not is_name(word) or "." in word:
        return None
    names = ", ".join(sorted(known_entries())) or "none yet"
    return UsageError(
        f"There is no server called '{word}'. Servers with a name: {names}. Give a name or a URL, or add it:"
        f" knime-mcp config add {word} URL"
    )


def is_trusted(name: str) -> bool:
    """Whether what the server of this name says of its tools is believed."""
    return known_entries().get(name, {}).get("trust") is True


@dataclass(frozen=True, slots=True)
class KnownModel:
    """The model that agents use where no option says so; the key stands in an environment variable."""

    name: str
    url: str | None
    api_key_env: str | None

    def __str__(self) -> str:
        key = f", with the key in {self.api_key_env}" if self.api_key_env else ""
        return f"{self.name} at {self.url or 'Anthropic'}{key}"


def known_model() -> KnownModel | None:
    found = as_object(_content().get(_MODEL))
    texts = {key: value for key, value in found.items() if isinstance(value, str)}
    if "name" not in texts:
        return None
    return KnownModel(texts["name"], texts.get("url"), texts.get("apiKeyEnv"))


def keep_model(model: KnownModel | None) -> None:
    """Keeps a model in place of another one; None forgets it."""
    content = {key: value for key, value in _content().items() if key != _MODEL}
    if model is not None:
        members = {"name": model.name, "url": model.url, "apiKeyEnv": model.api_key_env}
        content[_MODEL] = {key: value for key, value in members.items() if value is not None}
    _write(content)


def write_entries(entries: Mapping[str, Entry]) -> None:
    """Writes all servers, beside what else is in the file."""
    _write({**_content(), "mcpServers": dict(entries)})


def _content() -> dict[str, Any]:
    file = servers_file()
    return read_content(file) if file.exists() else {"mcpServers": {}}


def _write(content: Mapping[str, Any]) -> None:
    """Writes the file; only the user can read it, as addresses may be nobody else's business."""
    file = servers_file()
    with writing(file):
        file.parent.mkdir(parents=True, exist_ok=True)
        with whole_file(file, private=True) as part:
            part.write_text(f"{json.dumps(content, ensure_ascii=False, indent=2)}\n", encoding="utf-8")
