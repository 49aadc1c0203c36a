"""Reads the servers in ``mcpServers``, and fills in secrets from the environment."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Any, Final, cast
from urllib.parse import urlsplit

from ...yaml_text import REQUIRED, Fields, did_you_mean, kind_of
from ..server_config import ServerConfig, StdioConfig, UrlConfig
from .environment import substitute

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from ...yaml_text import Findings
    from ...yaml_text import Path as KeyPath
    from ..server_config import Transport

_TRANSPORTS: Final[Mapping[str, Transport]] = {
    "sse": "sse",
    "streamableHttp": "http",
    "http": "http",
    "streamable-http": "http",
}
_TYPES: Final = ("stdio", *_TRANSPORTS)
# The keys of the URL in the files of Cursor, Claude Code and VS Code; of Windsurf; of Gemini CLI.
_URL_KEYS: Final = ("url", "serverUrl", "httpUrl")


class ServerReading:
    """Reads the servers of one file.

    Args:
        findings: Collects the problems.
        folder: The file's folder; relative working folders start there.
        environ: Environment variables, or None to leave references unchanged.
        lenient: Whether the file is a ``mcp.json`` of another program. There ``args`` may be missing, and a
            server with a URL needs no type: its transport is found out when connecting.
    """

    def __init__(
        self, findings: Findings, folder: Path, environ: Mapping[str, str] | None, *, lenient: bool = False
    ) -> None:
        self._findings = findings
        self._folder = folder
        self._environ = environ
        self._lenient = lenient
        self._args: Any = [] if lenient else REQUIRED

    def read(self, servers: Mapping[str, Any], key: str = "mcpServers") -> dict[str, ServerConfig]:
        """Reads all servers.

        Args:
            servers: The servers by name.
            key: The key in the file that holds them.

        Returns:
            The valid servers; problems of the other servers are in the findings.
        """
        configs = {name: self._server(name, raw, (key, name)) for name, raw in servers.items()}
        return {name: config for name, config in configs.items() if config is not None}

    def _server(self, name: str, raw: Any, path: KeyPath) -> ServerConfig | None:
        if not isinstance(raw, dict):
            self._findings.error(f"the server '{name}' must be a mapping, not {kind_of(raw)}", path)
            return None
        values = cast("dict[str, Any]", raw)
        type_key = "transport" if self._lenient and "type" not in values else "type"
        kind = values.get(type_key)
        url_key = next((key for key in _URL_KEYS if key in values), "url")
        has_url_only = kind is None and "command" not in values and url_key in values
        if has_url_only and not self._lenient:
            self._findings.error(
                f"the server '{name}' has a '{url_key}' but no 'type'",
                path,
                "Write 'url' with 'type: streamableHttp', or with 'type: sse' for the older transport",
            )
            return None
        if kind is not None and kind not in _TYPES:
            fix = did_you_mean(kind, _TYPES) if isinstance(kind, str) else None
            message = f"the server '{name}' has an unknown type; the types are stdio, sse and streamableHttp"
            self._findings.error(message, (*path, type_key), fix)
            return None
        fields = Fields(self._findings, values, path)
        fields.get(type_key, default=None)
        if has_url_only:
            return self._http(name, fields, url_key, "auto")
        if kind in (None, "stdio"):
            return self._command(name, fields)
        return self._http(name, fields, url_key if self._lenient else "url", _TRANSPORTS[kind])

    def _command(self, name: str, fields: Fields) -> StdioConfig | None:
        path = fields.path
        written, cwd_written = fields.text("command"), fields.optional_text("cwd")
        args_written, env = fields.texts("args", default=self._args), fields.text_mapping("env")
        if not fields.end():
            return None
        command = self._filled(written, (*path, "command"))
        if not command.strip():
            self._findings.error(f"the server '{name}' has an empty command", (*path, "command"))
            return None
        cwd = self._folder
        if cwd_written is not None:
            cwd = self._folder / self._filled(cwd_written, (*path, "cwd"))
            if not cwd.is_dir():
                self._findings.warn(
                    f"the folder {cwd} does not exist, so the server '{name}' cannot start",
                    (*path, "cwd"),
                    "A relative folder starts at the file's own folder",
                )
        self._look_for(name, command, cwd, (*path, "command"))
        args = [self._filled(text, (*path, "args", index)) for index, text in enumerate(args_written)]
        for index, (text, written) in enumerate(zip(args, args_written, strict=True)):
            if text.startswith(("./", "../")) and cwd.is_dir() and not (cwd / text).exists():
                message = f"there is no {written} in {cwd}, where the server '{name}' starts"
                fix = "Servers start in the file's own folder unless 'cwd' names another one"
                self._findings.warn(message, (*path, "args", index), fix)
        return StdioConfig(
            name=name,
            command=command,
            args=tuple(args),
            cwd=cwd,
            env=self._all_filled(env, (*path, "env")),
        )

    def _look_for(self, name: str, command: str, cwd: Path, path: KeyPath) -> None:
        if shutil.which(command) or shutil.which(str(cwd / command)):
            return
        message = f"there is no program '{command}' on this computer, so the server '{name}' cannot start"
        self._findings.warn(message, path, "Install it, or write its full path")

    def _http(self, name: str, fields: Fields, url_key: str, transport: Transport) -> UrlConfig | None:
        path = fields.path
        url, headers = fields.text(url_key), fields.text_mapping("headers")
        init = fields.mapping("requestInit", default=None)
        source = fields.mapping("eventSourceInit", default=None) if transport == "sse" else {}
        if not fields.end():
            return None
        for key in source:
            self._ignored((*path, "eventSourceInit", key))
        return UrlConfig(
            name=name,
            url=self._url(name, url, (*path, url_key)),
            headers=self._headers(headers, init, path),
            transport=transport,
        )

    def _headers(
        self, own_headers: Mapping[str, str], init: Mapping[str, Any], path: KeyPath
    ) -> dict[str, str]:
        """Merges ``headers`` with those in ``requestInit``; other members of that are for JavaScript only."""
        headers: dict[str, str] = {}
        for key, value in init.items():
            if key == "headers" and isinstance(value, dict):
                for header, text in cast("dict[str, Any]", value).items():
                    place = (*path, "requestInit", "headers", header)
                    if isinstance(text, str):
                        headers[header] = self._filled(text, place)
                    else:
                        self._findings.error(f"the header '{header}' must be text", place, "Put it in quotes")
            else:
                self._ignored((*path, "requestInit", key))
        filled = self._all_filled(own_headers, (*path, "headers"))
        replaced = {header.lower() for header in filled}
        return {header: text for header, text in headers.items() if header.lower() not in replaced} | filled

    def _ignored(self, path: KeyPath) -> None:
        message = f"'{path[-1]}' is an option of the JavaScript client and is ignored"
        self._findings.warn(message, path, "Use 'headers' for headers")

    def _url(self, name: str, text: str, path: KeyPath) -> str:
        url = self._filled(text, path)
        # A reference that could not be filled in was reported already.
        parts = urlsplit(url) if "${" not in url else urlsplit("http://unknown")
        if parts.scheme not in {"http", "https"} or not parts.netloc:
            message = f"the URL of the server '{name}' must begin with http:// or https://"
            self._findings.error(message, path)
        return url

    def _all_filled(self, texts: Mapping[str, str], path: KeyPath) -> dict[str, str]:
        return {key: self._filled(text, (*path, key)) for key, text in texts.items()}

    def _filled(self, text: str, path: KeyPath) -> str:
        if self._environ is None:
            return text
        filled, missing = substitute(text, self._environ)
        for variable in missing:
            if variable.startswith("input:"):
                message = f"only VS Code can ask for ${{{variable}}}"
                self._findings.error(message, path, "Write ${NAME} for the environment variable NAME")
                continue
            self._findings.error(
                f"the environment variable {variable} is not set",
                path,
                f"Set it, or write ${{{variable}:-default}}; a literal ${{ is written $${{",
            )
        return filled
