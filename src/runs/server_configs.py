"""The servers of a document or of a ``mcp.json``: how they are written, and the clients for them.

Programs write these files differently (Claude Desktop and Code, Cursor, VS Code, Windsurf, Gemini CLI); all
of their forms are read.
"""

from __future__ import annotations

import json
import re
import shutil
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, cast
from urllib.parse import unquote, urlsplit

from ..audit.secrets import SecretMarker
from ..client.authorization import secrets_in
from ..client.mcp_client import MCPClient
from ..client.transports.stdio_server import StdioServer
from ..types.secret_rules import is_secret_variable, looks_secret, secrets_in_environment
from ..yaml_text import (
    REQUIRED,
    Fields,
    Findings,
    Position,
    Problem,
    Rules,
    YamlError,
    as_mapping,
    did_you_mean,
    kind_of,
    read,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

    from ..yaml_text import Path as KeyPath

Transport = Literal["auto", "http", "sse"]


@dataclass(frozen=True, slots=True, kw_only=True)
class StdioConfig:
    """A server that is a child process. Environment and arguments may hold secrets, so are never shown."""

    name: str
    command: str
    args: tuple[str, ...] = field(default=(), repr=False)
    cwd: Path | None = None  # working folder, absolute; None: the document's folder
    # environment variables in addition to the minimal ones
    env: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    # what ``${…}`` took from our environment: secrets
    taken: frozenset[str] = field(default=frozenset(), repr=False)
    kind: Literal["stdio"] = "stdio"


@dataclass(frozen=True, slots=True, kw_only=True)
class UrlConfig:
    """A server with a URL. URL and headers may hold secrets, so they are never shown."""

    name: str
    url: str = field(repr=False)
    headers: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    transport: Transport  # ``http`` is streamable HTTP, ``sse`` the older HTTP+SSE; ``auto`` tries both
    # what ``${…}`` took from our environment: secrets
    taken: frozenset[str] = field(default=frozenset(), repr=False)
    kind: Literal["url"] = "url"


ServerConfig = StdioConfig | UrlConfig


_NO_NAME: Final = re.compile(r"[^A-Za-z0-9_.-]+")


def client_for(config: ServerConfig, **settings: Any) -> MCPClient:
    match config:
        case StdioConfig():
            return MCPClient(stdio=stdio_server(config), **settings)
        case UrlConfig():
            return MCPClient(
                config.url,
                headers=config.headers,
                secrets=config.taken,
                transport=config.transport,
                **settings,
            )


def stdio_server(config: StdioConfig) -> StdioServer:
    # Names in documents may be any text; in messages and records they are part of a URL.
    name = _NO_NAME.sub("-", config.name).lstrip("._-") or "server"
    cwd = None if config.cwd is None else str(config.cwd)
    return StdioServer(name, (config.command, *config.args), env=config.env, cwd=cwd, taken=config.taken)


def marker_of_servers(servers: Mapping[str, ServerConfig], named: Iterable[str] = ()) -> SecretMarker:
    secrets = (secret for config in servers.values() for secret in secrets_of(config))
    return SecretMarker(secrets, named=named)


def secrets_of(config: ServerConfig) -> Iterator[str]:
    if isinstance(config, StdioConfig):
        yield from secrets_in_environment(config.env, config.taken)
        yield from (argument for argument in config.args if looks_secret("", argument))
    else:
        yield from config.taken
        yield from secrets_in(config.headers, config.url)


# JSON's escape of a character beyond U+FFFF, which is no YAML: https://www.rfc-editor.org/rfc/rfc8259#section-7
_PAIR: Final = re.compile(r"(?<!\\)((?:\\\\)*)(\\ud[89ab][0-9a-f]{2}\\ud[c-f][0-9a-f]{2})", re.IGNORECASE)


def _character(pair: re.Match[str]) -> str:
    character = json.loads(f'"{pair[2]}"')
    return f"{pair[1]}{character}"


_RULES: Final = Rules(merge_keys=False, most_values=100_000, deepest=200)


def read_mcp_file(
    path: Path,
    environ: Mapping[str, str] | None,
    *,
    only: str | None = None,
    without: Collection[str] = (),
) -> tuple[dict[str, ServerConfig], list[Problem]]:
    """The valid servers of a ``mcp.json`` by name, and the problems of the file.

    With `only`, of the server of this name; without those `without`.
    """
    try:
        text = path.read_text(encoding="utf-8-sig")
        # Only for its errors: the reader of YAML that finds the positions takes more than JSON.
        json.loads(text)
        source = read(_PAIR.sub(_character, text), _RULES)
    except FileNotFoundError:
        message = f"MCP file not found: {path}"
        return {}, [Problem(message=message, position=None, file=str(path))]
    except (OSError, UnicodeDecodeError) as error:
        return {}, [unreadable(path, error)]
    except json.JSONDecodeError as error:
        position = Position(line=error.lineno, column=error.colno)
        message = f"this is not valid JSON: {error.msg}"
        return {}, [Problem(message=message, position=position, file=str(path))]
    except YamlError as error:
        return {}, list(error.problems)
    findings = Findings(source, str(path))
    data: object = source.data
    if not isinstance(data, dict):
        findings.error("the file must be a JSON object with 'mcpServers'", ())
        return {}, findings.problems
    key = "servers" if "mcpServers" not in data else "mcpServers"  # VS Code calls them servers
    servers = as_mapping(data).get(key)
    if servers is not None and not isinstance(servers, dict):
        findings.error(f"'{key}' must be an object", (key,))
    wanted = {
        name: raw for name, raw in as_mapping(servers).items() if name not in without and only in (None, name)
    }
    configs = ServerReading(findings, path.parent.absolute(), environ, lenient=True).read(wanted, key)
    return configs, findings.problems


def unreadable(path: Path, error: OSError | UnicodeDecodeError, *, make: str | None = None) -> Problem:
    """The problem with a file that cannot be read; `make` says how to make one."""
    if isinstance(error, UnicodeDecodeError):
        message, fix = "the file is not UTF-8 text", "Save it as UTF-8"
    elif isinstance(error, FileNotFoundError):
        message, fix = "there is no such file", make
    else:
        message, fix = f"the file cannot be read: {(error.strerror or str(error)).lower()}", None
    return Problem(message=message, position=None, fix=fix, file=str(path))


_TRANSPORTS: Final[Mapping[str, Transport]] = {
    "sse": "sse",
    "streamableHttp": "http",
    "http": "http",
    "streamable-http": "http",
}
_TYPES: Final = ("stdio", *_TRANSPORTS)
# The keys of the URL in the files of Cursor, Claude Code and VS Code; of Windsurf; of Gemini CLI.
_URL_KEYS: Final = ("url", "serverUrl", "httpUrl")


def _is_relative(text: str) -> bool:
    return text.startswith(("./", "../"))


def _is_relative_to_process(args: list[str], folder: Path) -> bool:
    """Whether the paths among the arguments are right only in the process's working folder.

    Servers of the reference start there, and its own documents rely on it.
    """
    paths = [text for text in args if _is_relative(text)]
    here = Path.cwd()
    return any(not (folder / text).exists() for text in paths) and all(
        (here / text).exists() for text in paths
    )


def _can_be_there(path: Path) -> bool:
    """Whether a server can find this path, or is likely to make the file, such as a database."""
    return path.exists() or (path.suffix != "" and path.parent.is_dir())


class ServerReading:
    """Reads the servers of one file, in whose folder relative working folders start.

    Without `environ`, references are left unchanged. The transport of a server with a URL and no type is
    found out when connecting. `lenient`: the file is a ``mcp.json`` of another program, where ``args`` may
    be missing.
    """

    def __init__(
        self, findings: Findings, folder: Path, environ: Mapping[str, str] | None, *, lenient: bool = False
    ) -> None:
        self._findings = findings
        self._folder = folder
        self._environ = environ
        self._lenient = lenient
        self._taken: set[str] = set()
        self._args: Any = [] if lenient else REQUIRED

    def read(self, servers: Mapping[str, Any], key: str = "mcpServers") -> dict[str, ServerConfig]:
        """Reads all servers of a key; returns the valid ones. Problems of the others are in the findings."""
        configs = {name: self._server(name, raw, (key, name)) for name, raw in servers.items()}
        return {name: config for name, config in configs.items() if config is not None}

    def _server(self, name: str, raw: Any, path: KeyPath) -> ServerConfig | None:
        if not isinstance(raw, dict):
            self._findings.error(f"the server '{name}' must be a mapping, not {kind_of(raw)}", path)
            return None
        values = cast("dict[str, Any]", raw)
        self._taken = set()
        type_key = "transport" if self._lenient and "type" not in values else "type"
        kind = values.get(type_key)
        url_key = next((key for key in _URL_KEYS if key in values), "url")
        has_url_only = kind is None and "command" not in values and url_key in values
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
        return self._http(name, fields, url_key, _TRANSPORTS[kind])

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
        args = [self._filled(text, (*path, "args", index)) for index, text in enumerate(args_written)]
        # Most programs start servers in their own working folder, and files that were written for these go
        # on working.
        if cwd_written is None and _is_relative_to_process(args, cwd):
            cwd = Path.cwd()
        self._look_for(name, command, cwd, (*path, "command"))
        for index, (text, written) in enumerate(zip(args, args_written, strict=True)):
            if _is_relative(text) and cwd.is_dir() and not _can_be_there(cwd / text):
                message = f"there is no {written} in {cwd}, where the server '{name}' starts"
                fix = "Servers start in the file's own folder unless 'cwd' names another one"
                self._findings.warn(message, (*path, "args", index), fix)
        return StdioConfig(
            name=name,
            command=command,
            args=tuple(args),
            cwd=cwd,
            env=self._all_filled(env, (*path, "env")),
            taken=frozenset(self._taken),
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
            taken=frozenset({*self._taken, *map(unquote, self._taken)}),  # as the server reads the URL
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
        # Names of headers have no case, so one of both would be sent twice.
        return {header: text for header, text in headers.items() if header.lower() not in replaced} | filled

    def _ignored(self, path: KeyPath) -> None:
        message = f"'{path[-1]}' is an option of the JavaScript client and is ignored"
        self._findings.warn(message, path, "Use 'headers' for headers")

    def _url(self, name: str, text: str, path: KeyPath) -> str:
        url = self._filled(text, path)
        # A reference that could not be filled in was reported already.
        try:
            parts = urlsplit(url) if "${" not in url else urlsplit("http://unknown")
        except ValueError:
            self._findings.error(f"the URL of the server '{name}' has a malformed host", path)
            return url
        if parts.scheme not in {"http", "https"} or not parts.netloc:
            message = f"the URL of the server '{name}' must begin with http:// or https://"
            self._findings.error(message, path)
        return url

    def _all_filled(self, texts: Mapping[str, str], path: KeyPath) -> dict[str, str]:
        return {key: self._filled(text, (*path, key)) for key, text in texts.items()}

    def _filled(self, text: str, path: KeyPath) -> str:
        # Documents are also checked where their secrets are not, such as in an editor.
        if self._environ is None:
            return text
        filled, missing = substitute(text, self._environ, self._taken)
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


_REFERENCE: Final = re.compile(
    r"\$(\$\{)|\$\{(?:env:)?([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}|\$\{(input:[^}]*)\}"
)


def substitute(text: str, environ: Mapping[str, str], taken: set[str]) -> tuple[str, tuple[str, ...]]:
    """Fills in environment variables; also returns those that are not set, whose references stay.

    Adds what the variables held to `taken`, as that is secret.
    """
    missing: list[str] = []

    def value(match: re.Match[str]) -> str:
        if match[1]:
            return match[1]
        name = match[2] or match[4]
        if name in environ:
            # Others, such as HOME, would be marked wherever their text stands.
            if is_secret_variable(name):
                taken.add(environ[name])
            return environ[name]
        if match[3] is not None:
            return match[3]
        missing.append(name)
        return match[0]

    return _REFERENCE.sub(value, text), tuple(dict.fromkeys(missing))
