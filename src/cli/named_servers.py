"""Servers with names on the command line: filled in from the environment, written, and taken from programs.

The file (`tools.node_settings.named_servers`) holds no secrets: they stand in it as ``${VARIABLE}``, and come
from the environment when a server is used.
"""

from __future__ import annotations

import json
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast
from urllib.parse import unquote

from ..client.protocol.messages import as_object
from ..system import replace_file, user_folder
from ..tools.node_settings.named_servers import (
    REFERENCE,
    is_name,
    known_entries,
    read_content,
    servers_file,
)
from ..types.secret_rules import secrets_in_environment
from .command_errors import CommandError, UsageError
from .files import writing

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from ..runs.server_configs import ServerConfig
    from ..tools.node_settings.named_servers import Entry

_MODEL: Final = "model"
_ANY: Final = "any"  # of a program that has one word for all servers with a URL
_KINDS: Final = {
    **dict.fromkeys(
        ("http", "streamablehttp", "httpstream", "streaminghttp", "streamable"), "streamableHttp"
    ),
    **dict.fromkeys(("stdio", "local", "command"), "stdio"),
    **dict.fromkeys(("sse", "httpsse"), "sse"),
    "remote": _ANY,
}
# Names in capitals only, as a password may have a dollar in it.
_VARIABLES: Final = re.compile(
    r"(?<![\w$])\$([A-Z_][A-Z0-9_]+)\b|(?<!\$)\{env:([A-Za-z_]\w*)\}|%([A-Z_][A-Z0-9_]{2,})%", re.ASCII
)
_VARIABLES_IN_URLS: Final = re.compile(
    r"(?<!\$)\$([A-Z_][A-Z0-9_]+)\b|(?<!\$)\{env:([A-Za-z_]\w*)\}", re.ASCII
)  # %…% encodes characters there
_URLS: Final = ("url", "serverUrl", "httpUrl")
_QUERY: Final = re.compile(r"([?&])([^=&#]+)=([^&#]*)")


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
    file = servers_file()
    from ..runs.server_configs import read_mcp_file  # late, as most commands are given a URL
    from ..yaml_text import Severity

    configs, problems = read_mcp_file(file, os.environ, only=name)
    wrong = [problem.text(str(file)) for problem in problems if problem.severity is Severity.ERROR]
    if wrong or name not in configs:
        raise CommandError(f"The server '{name}' cannot be used: {'; '.join(wrong).rstrip('.')}.")
    return configs[name]


def faults_of(file: Path, names: Collection[str]) -> list[str]:
    """Why servers of these names cannot be used, a sentence each."""
    from ..runs.server_configs import read_mcp_file
    from ..yaml_text import Severity

    others = known_entries().keys() - set(names)
    _, problems = read_mcp_file(file, None, without=others)
    return [problem.text(str(file)) for problem in problems if problem.severity is Severity.ERROR]


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


@dataclass(frozen=True, slots=True)
class KnownModel:
    """The model that agents use where no option says so; the key stands in an environment variable."""

    name: str
    url: str | None
    api_key_env: str | None


def known_model() -> KnownModel | None:
    found = as_object(_content().get(_MODEL))
    name, url, variable = (found.get(key) for key in ("name", "url", "apiKeyEnv"))
    if not isinstance(name, str):
        return None
    return KnownModel(
        name, url if isinstance(url, str) else None, variable if isinstance(variable, str) else None
    )


def keep_model(model: KnownModel) -> None:
    members = {"name": model.name, "url": model.url, "apiKeyEnv": model.api_key_env}
    entry = {key: value for key, value in members.items() if value is not None}
    _write(servers_file(), {**_content(), _MODEL: entry})


def is_trusted(name: str) -> bool:
    """Whether what the server of this name says of its tools is believed."""
    return known_entries().get(name, {}).get("trust") is True


def _content() -> dict[str, Any]:
    file = servers_file()
    return read_content(file) if file.exists() else {"mcpServers": {}}


def write_entries(file: Path, entries: Mapping[str, Entry]) -> None:
    """Writes all servers, beside what else is in the file."""
    _write(file, {**_content(), "mcpServers": dict(entries)})


def _write(file: Path, content: Mapping[str, Any]) -> None:
    """Writes the file; only the user can read it, as addresses may be nobody else's business."""
    with writing(file):
        file.parent.mkdir(parents=True, exist_ok=True)
        fresh = file.with_name(f"{file.name}.new")  # replaced whole, so that no reader sees half of it
        fresh.unlink(missing_ok=True)
        # Made anew: a file that is there already would keep its permissions.
        handle = os.open(fresh, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
        with os.fdopen(handle, "w", encoding="utf-8") as out:
            json.dump(content, out, ensure_ascii=False, indent=2)
            out.write("\n")
        replace_file(fresh, file)


@dataclass(frozen=True, slots=True)
class Program:
    """A program that has servers of its own, and where it keeps them, most special first."""

    name: str
    files: tuple[Path, ...]


def programs() -> dict[str, Program]:
    home, settings = Path.home(), user_folder("settings")
    return {
        "claude": Program("Claude Desktop", (settings / "Claude" / "claude_desktop_config.json",)),
        "claude-code": Program("Claude Code", (Path(".mcp.json"), home / ".claude.json")),
        "cursor": Program("Cursor", (Path(".cursor/mcp.json"), home / ".cursor" / "mcp.json")),
        "vscode": Program("VS Code", (Path(".vscode/mcp.json"), settings / "Code" / "User" / "mcp.json")),
        "windsurf": Program("Windsurf", (home / ".codeium" / "windsurf" / "mcp_config.json",)),
    }


def in_our_form(entry: Entry) -> Entry:
    """An entry as Claude Desktop would have it, from the forms of other programs.

    ``transport`` may be an object, a command one list, a type may be written in any way, and variables as
    ``$NAME``, ``{env:NAME}`` or ``%NAME%``.
    """
    nested = entry.get("transport")
    # Where the two differ, what stands outside was written for the program that reads it.
    plain: Entry = {**nested, **entry} if isinstance(nested, dict) else dict(entry)
    if isinstance(nested, dict):
        del plain["transport"]
    for key in ("type", "transport"):
        if isinstance(kind := plain.get(key), str):
            plain[key] = _KINDS.get(re.sub(r"[^a-z]", "", kind.lower()), kind)
    if plain.get("type") == _ANY:
        del plain["type"]
    if isinstance(command := plain.get("command"), list) and command:
        program, *words = cast("list[Any]", command)
        plain |= {"command": program, "args": [*words, *plain.get("args", [])]}
    if "environment" in plain and "env" not in plain:
        plain["env"] = plain.pop("environment")
    return cast("Entry", _with_references(plain))


def _with_references(value: Any, key: str = "") -> Any:
    match value:
        case str():
            pattern = _VARIABLES_IN_URLS if key in _URLS else _VARIABLES
            return pattern.sub(lambda found: f"${{{next(filter(None, found.groups()))}}}", value)
        case list():
            return [_with_references(part) for part in cast("list[Any]", value)]
        case dict():
            return {name: _with_references(part, name) for name, part in cast("Entry", value).items()}
        case _:
            return value


def for_every_program(entry: Entry, file: Path) -> tuple[Entry, list[str]]:
    """An entry without what only the program of this file can fill in, and the variables that take its place.

    VS Code asks people for ``${input:NAME}``; VS Code and Cursor know the folder that is open.
    """
    folder = file.resolve().parent
    # The folder that VS Code has open is the one around it.
    if folder.name in {".vscode", ".cursor"}:
        folder = folder.parent
    known = {"workspaceFolder": str(folder), "userHome": str(Path.home())}
    asked: dict[str, None] = {}

    def filled(reference: re.Match[str]) -> str:
        kind, colon, name = reference[1].partition(":")
        if kind == "input" and colon:
            variable = re.sub(r"[^A-Za-z0-9]+", "_", name).strip("_").upper()
            asked[variable] = None
            return f"${{{variable}}}"
        return known.get(reference[1], reference[0])

    def inside(value: Any) -> Any:
        match value:
            case str():
                return REFERENCE.sub(filled, value)
            case list():
                return [inside(part) for part in cast("list[Any]", value)]
            case dict():
                return {name: inside(part) for name, part in cast("Entry", value).items()}
            case _:
                return value

    server, cwd = inside(entry), entry.get("cwd", "")
    # Without it, what is relative would be looked for beside the file of the names.
    if "command" in server and isinstance(cwd, str) and not REFERENCE.match(cwd):
        server["cwd"] = str(folder / cwd)
    return server, list(asked)


def without_secrets(name: str, entry: Entry) -> tuple[Entry, list[str]]:
    """An entry with a variable in the place of each secret, and the names of these variables.

    Other programs' files hold secrets in clear; they are not copied, nor shown.
    """
    taken: list[str] = []

    def hidden(part: str, value: Any) -> Any:
        if not isinstance(value, str) or REFERENCE.search(value) or not _is_secret(part, value):
            return value
        taken.append(re.sub(r"[^A-Za-z0-9]+", "_", f"{name}_{part}").strip("_").upper())
        scheme, blank, _ = value.partition(" ")
        return f"{scheme if blank else ''}{blank}${{{taken[-1]}}}"  # as in: Bearer TOKEN

    clean = dict(entry)
    for key in ("headers", "env"):
        if isinstance(values := entry.get(key), dict):
            clean[key] = {part: hidden(part, value) for part, value in cast("Entry", values).items()}
    for key in _URLS:
        if isinstance(url := entry.get(key), str):
            clean[key] = _QUERY.sub(
                lambda pair: f"{pair[1]}{pair[2]}={hidden(pair[2], unquote(pair[3]))}", url
            )
    if isinstance(words := entry.get("args"), list):
        clean["args"] = _arguments(cast("list[Any]", words), hidden)
    return clean, taken


def _is_secret(name: str, value: str) -> bool:
    return any(secrets_in_environment({name: value}, ()))


def _arguments(words: list[Any], hidden: Callable[[str, Any], Any]) -> list[Any]:
    """The arguments of a command; an option's value may stand behind it, as in ``--token T``."""
    clean: list[Any] = []
    option = "argument"
    for word in words:
        text = word if isinstance(word, str) else ""
        name, equals, value = text.partition("=")
        is_option = text.startswith("-")
        clean.append(f"{name}={hidden(name, value)}" if is_option and equals else hidden(option, word))
        option = text if is_option and not equals else "argument"
    return clean
