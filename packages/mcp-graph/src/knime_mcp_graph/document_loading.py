"""Reads graph documents: turns a text into a `GraphDocument`, or a list of its problems."""

from __future__ import annotations

import logging
import math
import os
import re
from contextlib import suppress
from dataclasses import dataclass, field, replace
from decimal import Decimal
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

from knime_mcp.runs.server_configs import ServerReading, read_mcp_file, unreadable
from knime_mcp.tools.node_settings.named_servers import read_content, servers_file
from knime_mcp.types.errors import FileFailed, MCPError
from knime_mcp.yaml_text import (
    LIST,
    MAPPING,
    WHOLE,
    Fields,
    Findings,
    Hints,
    Problem,
    Rules,
    Severity,
    Yaml,
    YamlError,
    as_list,
    as_mapping,
    core_scalar,
    read,
    sorted_problems,
)

from .document_checks import GraphChecks
from .document_reading import NodeReading, ToolReading, looks_like_jsonata
from .expressions.javascript import plain_number, scalar_text
from .graph_model import (
    Dialect,
    ExecutionLimits,
    GraphDocument,
    ServerMetadata,
)
from .known_fields import CalledTool, CalledTools, FieldChecks
from .yaml_editing import edited

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from knime_mcp.runs.server_configs import ServerConfig

    from .document_checks import PlacedTool


_logger = logging.getLogger(__name__)

#: The document that ``mcpgraph new`` writes; it runs unchanged, and its comments explain the rest.
STARTER: Final = Path(__file__).with_name("starter.yaml")


class DocumentError(MCPError):
    """A document cannot be served.

    Args:
        file: Name of the document.
        problems: All its problems, including warnings.

    Attributes:
        problems: All its problems, including warnings, in the order of the file.
    """

    CODE = "KMCP-GRAPH-DOCUMENT"

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
    """The result of reading a document."""

    document: GraphDocument | None
    problems: tuple[Problem, ...]
    dialect: Choice | None = None  # the dialect and the reason for it; None if nothing could be read
    source: Yaml | None = field(default=None, repr=False)  # what was read; None if it is no YAML
    tools: Sequence[PlacedTool] = field(default=(), repr=False)  # as they are written


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
    for problem in checked.problems:
        if problem.severity is Severity.ERROR:
            _logger.warning("%s", problem.text(str(path)))
    return checked.document


def check_document(
    path: str | os.PathLike[str],
    *,
    dialect: Dialect | str | None = None,
    mcp_file: str | os.PathLike[str] | None = None,
    environ: Mapping[str, str] | None = None,
    called: Mapping[tuple[str, str], CalledTool] | None = None,
) -> CheckedDocument:
    """Reads a document and finds all its problems; see `load_document`.

    `called` is what is known of tools on servers, by server and name.
    """
    file = Path(path)
    try:
        text = file.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        return CheckedDocument(
            document=None, problems=(unreadable(file, error, make="Create one with 'mcpgraph new FILE'"),)
        )
    options: dict[str, Any] = {"dialect": dialect, "mcp_file": mcp_file, "environ": environ}
    return check_text(text, path=file, called=called, **options)


def check_text(
    text: str,
    *,
    path: Path | None = None,
    dialect: Dialect | str | None = None,
    mcp_file: str | os.PathLike[str] | None = None,
    environ: Mapping[str, str] | None = None,
    called: Mapping[tuple[str, str], CalledTool] | None = None,
) -> CheckedDocument:
    """Loads a document from its text; see `load_document` and `check_document`.

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
    # Also servers with mistakes, which are told already: a node that calls one is not wrong as well.
    known = {*servers, *_names(raw), *_names_in_config()}
    checks = GraphChecks(findings, known, [tool.name for tool in placed])
    for tool in placed:
        checks.check(tool)
    _check_fields(findings, raw, placed, called or {})
    # Last, as it looks across all tools.
    checks.recursion(placed)
    problems = sorted_problems([*findings.problems, *mcp_problems])
    found = CheckedDocument(document=None, problems=problems, dialect=chosen, source=source, tools=placed)
    if head is None or any(problem.refuses for problem in problems):
        return found
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
    return replace(found, document=document)


def _check_fields(
    findings: Findings,
    raw: Any,
    placed: Sequence[PlacedTool],
    called: Mapping[tuple[str, str], CalledTool],
) -> None:
    """Checks the expressions of all nodes, and the names in them by the schemas at hand."""
    written = {entry["name"]: entry for entry in _entries(raw, "tools") if isinstance(entry.get("name"), str)}
    own = {
        name: CalledTool(
            input_schema=as_mapping(entry.get("inputSchema")),
            output_schema=as_mapping(entry.get("outputSchema")),
        )
        for name, entry in written.items()
    }
    tools = CalledTools(own=own, of_servers=called)
    for tool in placed:
        FieldChecks(findings, tool, tools).check()


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
            max_memory_mb=written.number("maxMemoryMb", WHOLE, default=None),
        )
        written.end()
    return (version, metadata, limits) if fields.end() else None


#: What people write instead of the forms of a document. JSONata's objects and lists are YAML's, too.
HINTS: Final = Hints(
    forms={
        "transform": "Write it as transform: {expr: ...}",
        "next": "Write next: and the id of the node that follows",
    },
    quoted=frozenset({"expr"}),
)
_INT: Final = re.compile(r"([-+]?)(0b[01]+|0x[0-9a-fA-F]+|0o[0-7]+|[0-9]+)")
_FLOAT: Final = re.compile(r"(?:[-+]?[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][-+]?[0-9]+)?")
_INFINITE: Final = re.compile(r"([-+]?)\.(?:inf|Inf|INF)")
_NAN: Final = frozenset({".nan", ".NaN", ".NAN"})
_CACHED: Final = 4096
_DIGITS: Final = 309  # of the largest number
_LONGEST: Final = 1100
"""Binary digits of the largest number; Python is slow with, or refuses, longer texts."""


def read_yaml(text: str, file: str) -> Yaml:
    """Reads a document, or raises `DocumentError`; duplicate keys and the like are in `Yaml.problems`."""
    try:
        # As in js-yaml, the last line always has an end, which matters for a block at the end of the file.
        return read(text if text.endswith(("\n", "\r")) else f"{text}\n", _RULES)
    except YamlError as error:
        raise DocumentError(file, error.problems) from None


def write_yaml(text: str, data: Any) -> str:
    """The text with as few changes as it takes to hold other data. Raises `EditError` where it cannot be."""
    return edited(text, data, _RULES)


@lru_cache(maxsize=_CACHED)
def javascript_scalar(text: str) -> Any:
    """Resolves an unquoted scalar to None, a truth value, a number or the text itself.

    Numbers that are too large stay texts; numbers without a fraction are integers, as in JavaScript.
    """
    if text in _NAN:
        return math.nan
    if infinite := _INFINITE.fullmatch(text):
        return -math.inf if infinite[1] == "-" else math.inf
    if (whole := _whole(text)) is not None or _FLOAT.fullmatch(text):
        number = _double(text if whole is None else whole)
        return plain_number(number) if math.isfinite(number) else text
    value = core_scalar(text)
    # All numbers of js-yaml were handled above; it does not accept "-.5".
    return value if value is None or isinstance(value, bool) else text


def _double(number: str | int) -> float:
    try:
        return float(number)
    except OverflowError:
        return math.inf


def _whole(text: str) -> int | None:
    match = _INT.fullmatch(text) if len(text) <= _LONGEST else None
    if match is None:
        return None
    # `010` is ten here, as in YAML 1.2; Python's `int` would refuse it with base 0.
    base = {"0b": 2, "0o": 8, "0x": 16}.get(match[2][:2], 10)
    return int(match[1] + match[2][2 if base != 10 else 0 :], base)


@lru_cache(maxsize=_CACHED)
def rounded_number(text: str) -> tuple[str, str] | None:
    """Says of a whole number beyond 2^53 which other one it is as JavaScript's number."""
    written = _whole(text)
    if written is None and _FLOAT.fullmatch(text) and len(text) <= _LONGEST:
        fraction = Decimal(text)
        written = int(fraction) if fraction.adjusted() < _DIGITS and fraction == int(fraction) else None
    value = javascript_scalar(text)
    if written is None or isinstance(value, str) or value == written:
        return None
    what = f"{text} becomes {scalar_text(value)}: whole numbers are exact up to 2^53 only"
    return what, "Put it in quotes if it is an id"


_RULES: Final = Rules(
    merge_keys=True,
    most_values=100_000,
    deepest=200,
    scalar=javascript_scalar,
    changed=rounded_number,
    key=lambda text: scalar_text(javascript_scalar(text)),
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
    """The servers of the document, of the mcp.json and of ``knime-mcp config``, and what is wrong with them.

    The first one of a name counts. Of the last only those that nodes ask for: others are not the document's.
    """
    folder = (path.parent if path is not None else Path()).absolute()
    servers = ServerReading(findings, folder, environ).read(as_mapping(raw.get("mcpServers")))
    known, problems = set(_names(raw)), list[Problem]()
    if mcp_file is not None:
        others, problems = read_mcp_file(Path(mcp_file), environ, without=known)
        servers, known = {**others, **servers}, known | set(others)
    asked = {node["server"] for node in raw_nodes(raw) if isinstance(node.get("server"), str)} - known
    if asked and (file := servers_file()).exists():
        for name in sorted(asked):
            named, wrong = read_mcp_file(file, environ, only=name)
            servers, problems = {**named, **servers}, [*problems, *wrong]
    return servers, problems


def _names(raw: dict[str, Any]) -> set[str]:
    return set(as_mapping(raw.get("mcpServers")))


def _names_in_config() -> set[str]:
    """The names of servers that ``knime-mcp config`` has, for those who misspell one."""
    with suppress(FileFailed):  # without such a file there are none, and a wrong one is told elsewhere
        return _names(read_content(servers_file()))
    return set()
