"""Reads the servers in ``mcpServers``, and fills in secrets from the environment."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Any, Final, cast
from urllib.parse import urlsplit

from ..raw_values import kind_of
from ..server_config import HttpConfig, ServerConfig, SseConfig, StdioConfig
from .environment import substitute
from .fields import REQUIRED, Fields, did_you_mean

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from .fields import Findings
    from .yaml_source import Path as KeyPath

_TYPES: Final = ("stdio", "sse", "streamableHttp", "http", "streamable-http")
_HTTP_TYPES: Final = frozenset({"streamableHttp", "http", "streamable-http"})


class ServerReading:
    """Reads the servers of one file.

    Args:
        findings: Collects the problems.
        folder: The file's folder; relative working folders start there.
        environ: Environment variables, or None to leave references unchanged.
        lenient: Whether the file is a ``mcp.json``, in which ``args`` may be missing.
    """

    def __init__(
        self, findings: Findings, folder: Path, environ: Mapping[str, str] | None, *, lenient: bool = False
    ) -> None:
        self._findings = findings
        self._folder = folder
        self._environ = environ
        self._args: Any = [] if lenient else REQUIRED

    def read(self, servers: Mapping[str, Any]) -> dict[str, ServerConfig]:
        """Reads all servers.

        Args:
            servers: The members of ``mcpServers``.

        Returns:
            The valid servers; problems of the other servers are in the findings.
        """
        configs = {name: self._server(name, raw, ("mcpServers", name)) for name, raw in servers.items()}
        return {name: config for name, config in configs.items() if config is not None}

    def _server(self, name: str, raw: Any, path: KeyPath) -> ServerConfig | None:
        if not isinstance(raw, dict):
            self._findings.error(f"the server '{name}' must be a mapping, not {kind_of(raw)}", path)
            return None
        values = cast("dict[str, Any]", raw)
        kind = values.get("type")
        if kind is None and "command" not in values and "url" in values:
            self._findings.error(
                f"the server '{name}' has a 'url' but no 'type'",
                path,
                "Write 'type: streamableHttp', or 'type: sse' for the older transport",
            )
            return None
        if kind is not None and kind not in _TYPES:
            fix = did_you_mean(kind, _TYPES) if isinstance(kind, str) else None
            message = f"the server '{name}' has an unknown type; the types are stdio, sse and streamableHttp"
            self._findings.error(message, (*path, "type"), fix)
            return None
        fields = Fields(self._findings, values, path)
        fields.get("type", default=None)
        if kind in (None, "stdio"):
            return self._command(name, fields)
        return self._http(name, fields, HttpConfig if kind in _HTTP_TYPES else SseConfig)

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

    def _http(self, name: str, fields: Fields, made: type[HttpConfig | SseConfig]) -> ServerConfig | None:
        path = fields.path
        url, headers = fields.text("url"), fields.text_mapping("headers")
        init = fields.mapping("requestInit", default=None)
        source = fields.mapping("eventSourceInit", default=None) if made is SseConfig else {}
        if not fields.end():
            return None
        for key in source:
            self._ignored((*path, "eventSourceInit", key))
        return made(name=name, url=self._url(name, url, path), headers=self._headers(headers, init, path))

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
        url = self._filled(text, (*path, "url"))
        # A reference that could not be filled in was reported already.
        parts = urlsplit(url) if "${" not in url else urlsplit("http://unknown")
        if parts.scheme not in {"http", "https"} or not parts.netloc:
            message = f"the URL of the server '{name}' must begin with http:// or https://"
            self._findings.error(message, (*path, "url"))
        return url

    def _all_filled(self, texts: Mapping[str, str], path: KeyPath) -> dict[str, str]:
        return {key: self._filled(text, (*path, key)) for key, text in texts.items()}

    def _filled(self, text: str, path: KeyPath) -> str:
        if self._environ is None:
            return text
        filled, missing = substitute(text, self._environ)
        for variable in missing:
            self._findings.error(
                f"the environment variable {variable} is not set",
                path,
                f"Set it, or write ${{{variable}:-default}}; a literal ${{ is written $${{",
            )
        return filled
