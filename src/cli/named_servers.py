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

from ..system import replace_file, user_folder
from ..tools.node_settings.named_servers import REFERENCE, is_name, known_entries, servers_file
from ..types.secret_rules import secrets_in_environment
from .command_errors import CommandError, UsageError
from .files import writing

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ..runs.server_configs import ServerConfig
    from ..tools.node_settings.named_servers import Entry

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


def write_entries(file: Path, entries: Mapping[str, Entry]) -> None:
    """Writes all entries; only the user can read the file, as addresses may be nobody else's business."""
    with writing(file):
        file.parent.mkdir(parents=True, exist_ok=True)
        fresh = file.with_name(f"{file.name}.new")  # replaced whole, so that no reader sees half of it
        fresh.unlink(missing_ok=True)
        # Made anew: a file that is there already would keep its permissions.
        handle = os.open(fresh, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
        with os.fdopen(handle, "w", encoding="utf-8") as out:
            json.dump({"mcpServers": dict(entries)}, out, ensure_ascii=False, indent=2)
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
    for key in ("url", "serverUrl", "httpUrl"):
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
