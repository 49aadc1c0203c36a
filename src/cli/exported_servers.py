"""Servers in the form of other programs' files. Secrets are none of it: ``${VARIABLE}`` stays a reference."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Literal

from ..client.protocol.messages import as_list, as_object
from ..tools.node_settings.named_servers import REFERENCE, headers_of

if TYPE_CHECKING:
    import re
    from collections.abc import Mapping

    from ..tools.node_settings.named_servers import Entry

Program = Literal["claude", "claude-code", "cursor", "vscode"]
_URLS: Final = ("url", "serverUrl", "httpUrl")


class ExportedServers:
    """The servers as a program's file has them.

    Attributes:
        remarks: What somebody still has to do there, in sentences.
    """

    def __init__(self, program: Program, entries: Mapping[str, Entry]) -> None:
        self._program: Program = program
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
            # Claude Desktop's file has commands only: https://www.npmjs.com/package/mcp-remote
            words = [word for header, value in headers.items() for word in ("--header", f"{header}: {value}")]
            return {"command": "npx", "args": ["-y", "mcp-remote", self._text(url), *words]}
        is_sse = "sse" in (entry.get("type"), entry.get("transport"))
        kind = {} if self._program == "cursor" else {"type": "sse" if is_sse else "http"}
        return {**kind, "url": self._text(url), **({"headers": headers} if headers else {})}

    def _command(self, name: str, entry: Entry) -> Entry:
        server: Entry = {"type": "stdio"} if self._program in ("claude-code", "vscode") else {}
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
