"""Reads graph documents: turns a text into a `GraphDocument`, or a list of its problems."""

from __future__ import annotations

import json
import logging
import math
import os
import re
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast
from urllib.parse import urlsplit

from ..types.errors import MCPError
from ..types.secret_rules import is_secret_variable
from ..yaml_text import (
    LIST,
    MAPPING,
    REQUIRED,
    WHOLE,
    Fields,
    Findings,
    Hints,
    Position,
    Problem,
    Rules,
    Severity,
    Yaml,
    YamlError,
    as_list,
    as_mapping,
    core_scalar,
    did_you_mean,
    kind_of,
    read,
    sorted_problems,
)
from .document_checks import GraphChecks, check_expressions
from .document_reading import NodeReading, ToolReading, looks_like_jsonata
from .expressions.javascript import plain_number, to_number, to_string
from .graph_model import (
    Dialect,
    ExecutionLimits,
    GraphDocument,
    ServerConfig,
    ServerMetadata,
    StdioConfig,
    UrlConfig,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from ..yaml_text import Path as KeyPath
    from .graph_model import Transport

_logger = logging.getLogger(__name__)

#: The document that ``knime-mcp graph new`` writes; it runs unchanged, and its comments explain the rest.
STARTER: Final = Path(__file__).with_name("starter.yaml")


class DocumentError(MCPError):
    """A document cannot be served.

    Args:
        file: Name of the document.
        problems: All its problems, including warnings.

    Attributes:
        problems: All its problems, including warnings, in the order of the file.
    """

    def __init__(self, file: str, problems: Iterable[Problem]) -> None:
        self.problems: Sequence[Problem] = sorted_problems(problems)
        errors = [problem for problem in self.problems if problem.severity is Severity.ERROR]
        count = "1 error" if len(errors) == 1 else f"{len(errors)} errors"
        lines = "\n".join(f"  {problem.text(file)}" for problem in errors)
        super().__init__(f"{file} cannot be used because of {count}:\n{lines}")


@dataclass(frozen=True, slots=True)
class Choice:
    """A dialect, and the part of the document that shows it."""

    dialect: Dialect
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedDocument:
    """The result of reading a document.

    Attributes:
        dialect: The dialect and the reason for it; None if nothing could be read.
    """

    document: GraphDocument | None
    problems: tuple[Problem, ...]
    dialect: Choice | None = None


def load_document(
    path: str | os.PathLike[str],
    *,
    dialect: Dialect | str | None = None,
    mcp_file: str | os.PathLike[str] | None = None,
    environ: Mapping[str, str] | None = os.environ,
) -> GraphDocument:
    """Loads a document that is to be served.

    Args:
        path: The YAML file.
        dialect: The dialect of the document; None or ``auto`` to detect it.
        mcp_file: A ``mcp.json`` with further servers; servers of the document take precedence.
        environ: Environment variables for ``${NAME}``; None to leave the references as they are.

    Returns:
        The document. Its warnings are in `GraphDocument.warnings`.

    Raises:
        DocumentError: The document cannot be served; contains all problems.
    """
    checked = check_document(path, dialect=dialect, mcp_file=mcp_file, environ=environ)
    if checked.document is None:
        raise DocumentError(str(path), checked.problems)
    if checked.dialect is not None:
        _logger.info("%s: dialect '%s', because %s", path, checked.dialect.dialect, checked.dialect.reason)
    return checked.document


def check_document(
    path: str | os.PathLike[str],
    *,
    dialect: Dialect | str | None = None,
    mcp_file: str | os.PathLike[str] | None = None,
    environ: Mapping[str, str] | None = None,
) -> CheckedDocument:
    """Reads a document and finds all its problems; see `load_document`."""
    file = Path(path)
    try:
        text = file.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        return CheckedDocument(document=None, problems=(_unreadable(file, error),))
    return check_text(text, path=file, dialect=dialect, mcp_file=mcp_file, environ=environ)


def check_text(
    text: str,
    *,
    path: Path | None = None,
    dialect: Dialect | str | None = None,
    mcp_file: str | os.PathLike[str] | None = None,
    environ: Mapping[str, str] | None = None,
) -> CheckedDocument:
    """Loads a document from its text; see `load_document`.

    Relative folders start at the folder of the document's file `path`, or at the working folder.
    """
    try:
        source = read_yaml(text, str(path or "document"))
    except DocumentError as error:
        return CheckedDocument(document=None, problems=tuple(error.problems))
    findings = Findings(source, hints=HINTS)
    is_open = dialect in (None, "auto")
    chosen = choose_dialect(source.data) if is_open else Choice(Dialect(dialect), "it was asked for")
    raw = as_mapping(source.data)
    fields = findings.fields(source.data, ())
    head = None if fields is None else _head(fields)
    if "tools" not in raw and chosen.dialect is Dialect.TARGET and raw:
        findings.error("'tools' is missing", ())
    servers, mcp_problems = _servers(findings, raw, path, mcp_file, environ)
    reading = ToolReading(findings, NodeReading(findings, chosen.dialect), raw)
    placed = reading.placed()
    checks = GraphChecks(findings, chosen.dialect, set(servers) | _names(raw), [tool.name for tool in placed])
    for tool in placed:
        checks.check(tool)
        ids = {node.id for node in tool.nodes if node.id is not None}
        for node in tool.nodes:
            if node.node is not None:
                check_expressions(findings, node.node, ids)
    problems = sorted_problems([*findings.problems, *mcp_problems])
    if head is None or any(problem.severity is Severity.ERROR for problem in problems):
        return CheckedDocument(document=None, problems=problems, dialect=chosen)
    version, server, limits = head
    document = GraphDocument(
        version=version,
        server=server,
        limits=limits,
        servers=servers,
        tools=reading.tools(),
        dialect=chosen.dialect,
        path=path,
        warnings=problems,
    )
    return CheckedDocument(document=document, problems=problems, dialect=chosen)


def _head(fields: Fields) -> tuple[str, ServerMetadata, ExecutionLimits] | None:
    """Version, server and limits of a document; None, after reporting the errors, if they are invalid."""
    for key, kind in (("mcpServers", MAPPING), ("tools", LIST), ("nodes", LIST)):
        fields.get(key, kind, default=None)
    version, server = fields.text("version"), fields.inside("server")
    name = server.text("name")
    metadata = ServerMetadata(
        name=name,
        version=server.text("version"),
        title=server.optional_text("title") or name,
        instructions=server.optional_text("instructions") or None,
    )
    server.end()
    limits = ExecutionLimits()
    if fields.get("executionLimits", MAPPING, default=None) is not None:
        written = fields.inside("executionLimits")
        limits = ExecutionLimits(
            max_node_executions=written.number(
                "maxNodeExecutions", WHOLE, default=limits.max_node_executions
            ),
            max_execution_time_ms=written.number(
                "maxExecutionTimeMs", WHOLE, default=limits.max_execution_time_ms
            ),
        )
        written.end()
    return (version, metadata, limits) if fields.end() else None


#: What people write instead of the forms of a document. JSONata's objects and lists are YAML's, too.
HINTS: Final = Hints(forms={"transform": "Write it as transform: {expr: ...}"}, quoted=frozenset({"expr"}))
_INT: Final = re.compile(r"([-+]?)(0b[01]+|0x[0-9a-fA-F]+|0o[0-7]+|[0-9]+)")
_FLOAT: Final = re.compile(r"(?:[-+]?[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][-+]?[0-9]+)?")
_INFINITE: Final = re.compile(r"([-+]?)\.(?:inf|Inf|INF)")
_NAN: Final = frozenset({".nan", ".NaN", ".NAN"})
_LONGEST: Final = 1100
"""Binary digits of the largest number; Python is slow with, or refuses, longer texts."""


def read_yaml(text: str, file: str) -> Yaml:
    """Reads a document. Duplicate keys, unknown tags and similar mistakes are in `Yaml.problems`."""
    try:
        # As in js-yaml, the last line always has an end, which matters for a block at the end of the file.
        return read(text if text.endswith(("\n", "\r")) else f"{text}\n", _RULES)
    except YamlError as error:
        raise DocumentError(file, error.problems) from None


def javascript_scalar(text: str) -> Any:
    """Resolves an unquoted scalar to None, a truth value, a number or the text itself.

    Numbers that are too large stay texts; numbers without a fraction are integers, as in JavaScript.
    """
    if text in _NAN:
        return math.nan
    if infinite := _INFINITE.fullmatch(text):
        return -math.inf if infinite[1] == "-" else math.inf
    if (whole := _INT.fullmatch(text)) and len(text) <= _LONGEST:
        digits = whole[2]
        base = {"0b": 2, "0o": 8, "0x": 16}.get(digits[:2], 10)
        number = to_number(int(whole[1] + digits[2 if base != 10 else 0 :], base))
    elif _FLOAT.fullmatch(text):
        number = float(text)
    else:
        value = core_scalar(text)
        # All numbers of js-yaml were handled above; it does not accept "-.5".
        return value if value is None or isinstance(value, bool) else text
    if not math.isfinite(number):
        return text
    return number if isinstance(number, int) else plain_number(number)


_RULES: Final = Rules(
    merge_keys=True,
    most_values=100_000,
    deepest=200,
    scalar=javascript_scalar,
    key=lambda text: to_string(javascript_scalar(text)),
)


def choose_dialect(data: Any) -> Choice:
    """Detects the dialect of a document.

    A switch decides first, as its two forms exclude each other; then ``{expr: ...}`` among arguments; then
    arguments that look like expressions. A document with none of these has the same meaning in both dialects.
    """
    nodes = list(raw_nodes(data))
    for node in nodes:
        if any("target" in condition for condition in _conditions(node)):
            return Choice(Dialect.TARGET, f"the switch '{node.get('id')}' has conditions with 'target'")
    for node in nodes:
        if node.get("type") == "switch" and ("next" in node or any("next" in c for c in _conditions(node))):
            return Choice(Dialect.NEXT, f"the switch '{node.get('id')}' uses 'next'")
    for node in nodes:
        if node.get("type") == "switch":
            return Choice(Dialect.TARGET, f"the switch '{node.get('id')}' has no 'next'")
    args = [(node, node["args"]) for node in nodes if isinstance(node.get("args"), dict)]
    for node, values in args:
        if _has_expr(values):
            return Choice(Dialect.NEXT, f"the arguments of '{node.get('id')}' have {{expr: ...}}")
    for node, values in args:
        for name, value in cast("dict[str, Any]", values).items():
            if isinstance(value, str) and looks_like_jsonata(value):
                return Choice(Dialect.TARGET, f"the argument '{name}' of '{node.get('id')}' begins with '$'")
    return Choice(Dialect.NEXT, "nothing in it depends on the dialect")


def raw_nodes(data: Any) -> Iterator[dict[str, Any]]:
    for holder in (data, *_entries(data, "tools")):
        yield from _entries(holder, "nodes")


def _entries(holder: Any, key: str) -> list[dict[str, Any]]:
    return [entry for entry in as_list(as_mapping(holder).get(key)) if isinstance(entry, dict)]


def _conditions(node: dict[str, Any]) -> list[dict[str, Any]]:
    return _entries(node, "conditions") if node.get("type") == "switch" else []


def _has_expr(value: Any) -> bool:
    if isinstance(value, dict):
        values = cast("dict[str, Any]", value)
        is_expression = len(values) == 1 and isinstance(values.get("expr"), str)
        return is_expression or any(_has_expr(entry) for entry in values.values())
    return isinstance(value, list) and any(_has_expr(entry) for entry in cast("list[Any]", value))


def _servers(
    findings: Findings,
    raw: dict[str, Any],
    path: Path | None,
    mcp_file: str | os.PathLike[str] | None,
    environ: Mapping[str, str] | None,
) -> tuple[dict[str, ServerConfig], list[Problem]]:
    """The servers of the document and of the mcp.json, and the problems of the mcp.json."""
    folder = (path.parent if path is not None else Path()).absolute()
    servers = ServerReading(findings, folder, environ).read(as_mapping(raw.get("mcpServers")))
    if mcp_file is None:
        return servers, []
    others, problems = _mcp_servers(Path(mcp_file), environ, without=_names(raw))
    return {**others, **servers}, problems


def _mcp_servers(
    path: Path, environ: Mapping[str, str] | None, without: set[str]
) -> tuple[dict[str, ServerConfig], list[Problem]]:
    try:
        text = path.read_text(encoding="utf-8-sig")
        json.loads(text)
        source = read_yaml(text, str(path))
    except FileNotFoundError:
        message = f"MCP file not found: {path}"
        return {}, [Problem(message=message, position=None, file=str(path))]
    except (OSError, UnicodeDecodeError) as error:
        return {}, [_unreadable(path, error)]
    except json.JSONDecodeError as error:
        position = Position(line=error.lineno, column=error.colno)
        message = f"this is not valid JSON: {error.msg}"
        return {}, [Problem(message=message, position=position, file=str(path))]
    except DocumentError as error:
        return {}, list(error.problems)
    findings = Findings(source, str(path), HINTS)
    data: object = source.data
    if not isinstance(data, dict):
        findings.error("the file must be a JSON object with 'mcpServers'", ())
        return {}, findings.problems
    key = "servers" if "mcpServers" not in data else "mcpServers"  # VS Code calls them servers
    servers = as_mapping(data).get(key)
    if servers is not None and not isinstance(servers, dict):
        findings.error(f"'{key}' must be an object", (key,))
    wanted = {name: raw for name, raw in as_mapping(servers).items() if name not in without}
    configs = ServerReading(findings, path.parent.absolute(), environ, lenient=True).read(wanted, key)
    return configs, findings.problems


def _names(raw: dict[str, Any]) -> set[str]:
    return set(as_mapping(raw.get("mcpServers")))


def _unreadable(path: Path, error: OSError | UnicodeDecodeError) -> Problem:
    if isinstance(error, UnicodeDecodeError):
        message, fix = "the file is not UTF-8 text", "Save it as UTF-8"
    elif isinstance(error, FileNotFoundError):
        message, fix = "there is no such file", "Create one with 'knime-mcp graph new FILE'"
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


class ServerReading:
    """Reads the servers of one file, in whose folder relative working folders start.

    Without `environ`, references are left unchanged. `lenient`: the file is a ``mcp.json`` of another
    program. There ``args`` may be missing, and a server with a URL needs no type: its transport is found out
    when connecting.
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
            taken=frozenset(self._taken),
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
            if is_secret_variable(name):
                taken.add(environ[name])
            return environ[name]
        if match[3] is not None:
            return match[3]
        missing.append(name)
        return match[0]

    return _REFERENCE.sub(value, text), tuple(dict.fromkeys(missing))
