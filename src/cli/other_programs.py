"""Servers in the forms of other programs' files, in both directions. Secrets are none of it.

A file of another program holds them in clear, or only that program can fill them in; here ``${VARIABLE}``
stands for each, and stays a reference where servers are written for others.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, cast
from urllib.parse import unquote

from ..client.protocol.messages import as_list, as_object
from ..system import user_folder
from ..tools.node_settings.named_servers import REFERENCE, headers_of
from ..types.secret_rules import secrets_in_environment

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ..tools.node_settings.named_servers import Entry

Target = Literal["claude", "claude-code", "cursor", "vscode"]
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


def imported(name: str, entry: Entry, file: Path) -> tuple[Entry, list[str]]:
    """An entry of another program's file as ours, and the variables that have to be set for it."""
    server, asked = _for_every_program(_in_our_form(entry), file)
    server.pop("trust", None)  # which is for the person here to give
    server, secret = without_secrets(name, server)
    return server, [*asked, *secret]


def _in_our_form(entry: Entry) -> Entry:
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

    def referred(key: str, text: str) -> str:
        pattern = _VARIABLES_IN_URLS if key in _URLS else _VARIABLES
        return pattern.sub(lambda found: f"${{{next(filter(None, found.groups()))}}}", text)

    return _with_texts(plain, referred)


def _for_every_program(entry: Entry, file: Path) -> tuple[Entry, list[str]]:
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
            asked[_variable(name)] = None
            return f"${{{_variable(name)}}}"
        return known.get(reference[1], reference[0])

    server, cwd = _with_texts(entry, lambda _, text: REFERENCE.sub(filled, text)), entry.get("cwd", "")
    # Without it, what is relative would be looked for beside the file of the names.
    if "command" in server and isinstance(cwd, str) and not REFERENCE.match(cwd):
        server["cwd"] = str(folder / cwd)
    return server, list(asked)


def _with_texts(value: Any, change: Callable[[str, str], str], key: str = "") -> Any:
    """A value whose texts, each under its key, are changed."""
    match value:
        case str():
            return change(key, value)
        case list():
            return [_with_texts(part, change) for part in cast("list[Any]", value)]
        case dict():
            return {name: _with_texts(part, change, name) for name, part in cast("Entry", value).items()}
        case _:
            return value


def _variable(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9]+", "_", name).strip("_").upper()


def without_secrets(name: str, entry: Entry) -> tuple[Entry, list[str]]:
    """An entry with a variable in the place of each secret, and the names of these variables.

    Other programs' files hold secrets in clear; they are not copied, nor shown.
    """
    taken: list[str] = []

    def hidden(part: str, value: Any) -> Any:
        is_known = not isinstance(value, str) or REFERENCE.search(value)
        if is_known or not any(secrets_in_environment({part: value}, ())):
            return value
        taken.append(_variable(f"{name}_{part}"))
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


class ExportedServers:
    """The servers as a program's file has them.

    Attributes:
        remarks: What somebody still has to do there, in sentences.
    """

    def __init__(self, program: Target, entries: Mapping[str, Entry]) -> None:
        self._program: Target = program
        self._variables: dict[str, None] = {}
        self.remarks: list[str] = []
        self._servers = {name: self._server(name, entry) for name, entry in entries.items()}
        variables = ", ".join(self._variables)
        if variables and program == "claude":
            self.remarks.append(f"Claude Desktop fills in no variables: write them out there: {variables}")
        elif variables and program != "vscode":
            self.remarks.append(f"These variables have to be set there: {variables}")

    def content(self) -> dict[str, Any]:
        if self._program != "vscode":
            return {"mcpServers": self._servers}
        inputs = [
            {"type": "promptString", "id": name, "description": name, "password": True}
            for name in self._variables
        ]
        return {"servers": self._servers} | ({"inputs": inputs} if inputs else {})

    def _server(self, name: str, entry: Entry) -> Entry:
        url, _, fragment = str(next((entry[key] for key in _URLS if key in entry), "")).partition("#")
        if fragment:
            self.remarks.append(f"'{name}' takes a credential by its name, which only knime-mcp looks up.")
        if not url:
            return self._command(name, entry)
        headers = self._texts(headers_of(entry))
        if self._program == "claude":
            return self._bridge(self._text(url), headers)
        is_sse = "sse" in (entry.get("type"), entry.get("transport"))
        kind = {} if self._program == "cursor" else {"type": "sse" if is_sse else "http"}
        return {**kind, "url": self._text(url), **({"headers": headers} if headers else {})}

    def _bridge(self, url: str, headers: Mapping[str, str]) -> Entry:
        """Claude Desktop's file has commands only: https://www.npmjs.com/package/mcp-remote.

        Its Windows version tears arguments with blanks apart, so that the bridge takes values of headers
        from the environment, where no other program sees them either.
        """
        env = {f"{_variable(name)}_HEADER": value for name, value in headers.items()}
        words = [word for name in headers for word in ("--header", f"{name}:${{{_variable(name)}_HEADER}}")]
        plain = ["--allow-http"] if url.startswith("http:") else []
        server: Entry = {"command": "npx", "args": ["-y", "mcp-remote", url, *plain, *words]}
        return server | ({"env": env} if env else {})

    def _command(self, name: str, entry: Entry) -> Entry:
        server: Entry = {} if self._program == "claude" else {"type": "stdio"}
        server["command"] = self._text(entry.get("command", ""))
        server["args"] = [*map(self._text, as_list(entry.get("args")))]
        if env := self._texts(entry.get("env")):
            server["env"] = env
        if "cwd" in entry and self._program == "vscode":
            server["cwd"] = entry["cwd"]
        elif "cwd" in entry:
            self.remarks.append(f"'{name}' starts in {entry['cwd']} here, and elsewhere there.")
        return server

    def _texts(self, values: object) -> dict[str, str]:
        return {name: self._text(value) for name, value in as_object(values).items()}

    def _text(self, value: object) -> str:
        return REFERENCE.sub(self._reference, str(value))

    def _reference(self, match: re.Match[str]) -> str:
        plain = match[1].removeprefix("env:")
        name = plain.partition(":-")[0]
        self._variables[name] = None
        match self._program:
            case "vscode":
                return f"${{input:{name}}}"
            case "cursor":
                return f"${{env:{name}}}"
            case "claude" | "claude-code":
                return f"${{{plain}}}"
