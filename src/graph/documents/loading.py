"""Reads graph documents: turns a text into a `GraphDocument`, or a list of its problems."""

from __future__ import annotations

import json
import logging
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...yaml_text import LIST, MAPPING, WHOLE, Fields, Findings, Position, Problem, Severity, sorted_problems
from ..model import (
    Dialect,
    ExecutionLimits,
    GraphDocument,
    ServerMetadata,
)
from ..raw_values import mapping
from .dialect import Choice, choose_dialect
from .expression_checks import check_expressions
from .graph_checks import GraphChecks
from .node_reading import NodeReading
from .servers import ServerReading
from .tool_reading import ToolReading
from .yaml_source import HINTS, DocumentError, read_yaml

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ..server_config import ServerConfig

_logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedDocument:
    """The result of reading a document.

    Attributes:
        document: The document, or None if it has errors.
        problems: Errors and warnings in the order of the file.
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
    environ: Mapping[str, str] | None = None,
) -> GraphDocument:
    """Loads a document that is to be served.

    Args:
        path: The YAML file.
        dialect: The dialect of the document; None to detect it.
        mcp_file: A ``mcp.json`` with further servers; servers of the document take precedence.
        environ: Environment variables for ``${NAME}``; None for those of this process.

    Returns:
        The document. Its warnings are in `GraphDocument.warnings`.

    Raises:
        DocumentError: The document cannot be served; contains all problems.
    """
    checked = check_document(
        path, dialect=dialect, mcp_file=mcp_file, environ=os.environ if environ is None else environ
    )
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
    """Reads a document and finds all its problems.

    Args:
        path: The YAML file.
        dialect: The dialect of the document; None to detect it.
        mcp_file: A ``mcp.json`` with further servers; servers of the document take precedence.
        environ: Environment variables for ``${NAME}``; None to leave the references as they are.

    Returns:
        The document, if it can be served, and all problems.
    """
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
    """Loads a document from its text.

    Args:
        text: The document.
        path: The document's file, or None. Relative folders start at its folder, or at the working folder.
        dialect: The dialect of the document; None to detect it.
        mcp_file: A ``mcp.json`` with further servers; servers of the document take precedence.
        environ: Environment variables for ``${NAME}``; None to leave the references as they are.

    Returns:
        The document, if it can be served, and all problems.
    """
    try:
        source = read_yaml(text, str(path or "document"))
    except DocumentError as error:
        return CheckedDocument(document=None, problems=tuple(error.problems))
    findings = Findings(source, hints=HINTS)
    chosen = choose_dialect(source.data) if dialect is None else Choice(Dialect(dialect), "it was asked for")
    raw = mapping(source.data)
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


def _servers(
    findings: Findings,
    raw: dict[str, Any],
    path: Path | None,
    mcp_file: str | os.PathLike[str] | None,
    environ: Mapping[str, str] | None,
) -> tuple[dict[str, ServerConfig], list[Problem]]:
    """The servers of the document and of the mcp.json, and the problems of the mcp.json."""
    folder = (path.parent if path is not None else Path()).absolute()
    servers = ServerReading(findings, folder, environ).read(mapping(raw.get("mcpServers")))
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
    servers = mapping(data).get(key)
    if servers is not None and not isinstance(servers, dict):
        findings.error(f"'{key}' must be an object", (key,))
    wanted = {name: raw for name, raw in mapping(servers).items() if name not in without}
    configs = ServerReading(findings, path.parent.absolute(), environ, lenient=True).read(wanted, key)
    return configs, findings.problems


def _names(raw: dict[str, Any]) -> set[str]:
    return set(mapping(raw.get("mcpServers")))


def _unreadable(path: Path, error: OSError | UnicodeDecodeError) -> Problem:
    if isinstance(error, UnicodeDecodeError):
        message, fix = "the file is not UTF-8 text", "Save it as UTF-8"
    elif isinstance(error, FileNotFoundError):
        message, fix = "there is no such file", "Create one with 'knime-mcp graph new FILE'"
    else:
        message, fix = f"the file cannot be read: {(error.strerror or str(error)).lower()}", None
    return Problem(message=message, position=None, fix=fix, file=str(path))
