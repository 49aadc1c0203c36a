"""A language server for graph documents: problems as they are typed, completions, hovers."""

from __future__ import annotations

from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit
from urllib.request import url2pathname

from ..types.errors import MCPError
from ..version import VERSION
from ..yaml_text import Severity
from .document_loading import CheckedDocument, check_text
from .editor_help import EditorHelp, word_end
from .graph_cases import known_from_file
from .online_checks import check_online

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..yaml_text import Problem
    from .node_shapes import CalledTool

# By name, as these come with an extra of their own, which this module needs only to serve.
_pygls: Final[Any] = import_module("pygls.lsp.server")
_lsp: Final[Any] = import_module("lsprotocol.types")

_KINDS: Final = {
    "node": _lsp.CompletionItemKind.Reference,
    "tool": _lsp.CompletionItemKind.Method,
    "argument": _lsp.CompletionItemKind.Property,
    "field": _lsp.CompletionItemKind.Field,
    "function": _lsp.CompletionItemKind.Function,
    "word": _lsp.CompletionItemKind.EnumMember,
}


class GraphLanguage:
    """Serves editors. With `online`, servers are asked for their tools when a document is opened or saved."""

    def __init__(self, *, online: bool = False) -> None:
        self.server: Any = _pygls.LanguageServer("knime-mcp graph", VERSION)
        self._online = online
        self._called: dict[str, dict[tuple[str, str], CalledTool]] = {}
        self._known: dict[str, CheckedDocument] = {}
        options = _lsp.CompletionOptions(trigger_characters=[".", "$", " ", "{", '"'])
        self._answers(_lsp.TEXT_DOCUMENT_DID_OPEN, self._opened)
        self._answers(_lsp.TEXT_DOCUMENT_DID_CHANGE, self._changed)
        self._answers(_lsp.TEXT_DOCUMENT_DID_SAVE, self._opened)
        self._answers(_lsp.TEXT_DOCUMENT_DID_CLOSE, self._closed)
        self._answers(_lsp.TEXT_DOCUMENT_COMPLETION, self._complete, options)
        self._answers(_lsp.TEXT_DOCUMENT_HOVER, self._hover)

    def _answers(self, method: str, answer: Callable[[Any], Any], options: Any = None) -> None:
        # The library writes attributes on what it is given, which methods do not take.
        self.server.feature(method, options)(partial(answer))

    def run(self) -> None:
        """Serves the editor at standard input and output until it leaves."""
        self.server.start_io()

    def _opened(self, asked: Any) -> None:
        uri = asked.text_document.uri
        try:
            called = known_from_file(_path(uri))
        except MCPError as error:  # cases that cannot be read are told by `graph test`
            called = {}
            message = _lsp.LogMessageParams(type=_lsp.MessageType.Warning, message=error.sentence)
            self.server.window_log_message(message)
        self._called[uri] = called
        checked = self._check(uri)
        if self._online and checked.document is not None:
            self._called[uri] = called | check_online(checked.document).tools
            # After the first answer, which an editor shows at once: servers may take seconds.
            self._check(uri)

    def _changed(self, asked: Any) -> None:
        self._check(asked.text_document.uri)

    def _closed(self, asked: Any) -> None:
        uri = asked.text_document.uri
        self._called.pop(uri, None)
        self._known.pop(uri, None)
        self._publish(uri, [])

    def _check(self, uri: str) -> CheckedDocument:
        document = self.server.workspace.get_text_document(uri)
        # Without the environment: variables that are set only where it runs are no mistakes in an editor.
        checked = check_text(document.source, path=_path(uri), called=self._called.get(uri))
        if checked.shapes or uri not in self._known:  # what can still be read helps with what cannot yet
            self._known[uri] = checked
        self._publish(uri, [_diagnostic(document, problem) for problem in checked.problems])
        return checked

    def _publish(self, uri: str, diagnostics: list[Any]) -> None:
        self.server.text_document_publish_diagnostics(
            _lsp.PublishDiagnosticsParams(uri=uri, diagnostics=diagnostics)
        )

    def _help(self, asked: Any) -> tuple[EditorHelp, list[str], Any] | None:
        uri = asked.text_document.uri
        known = self._known.get(uri)
        if known is None:
            return None
        document = self.server.workspace.get_text_document(uri)
        place = document.position_codec.position_from_client_units(document.lines, asked.position)
        helper = EditorHelp(known, self._called.get(uri))
        return helper, [line.rstrip("\r\n") for line in document.lines], place

    def _complete(self, asked: Any) -> Any:
        found = self._help(asked)
        if found is None:
            return None
        helper, lines, place = found
        items = [
            _lsp.CompletionItem(label=one.label, detail=one.detail or None, kind=_KINDS[one.kind])
            for one in helper.completions(lines, place.line, place.character)
        ]
        return _lsp.CompletionList(is_incomplete=False, items=items)

    def _hover(self, asked: Any) -> Any:
        found = self._help(asked)
        if found is None:
            return None
        helper, lines, place = found
        text = helper.hover(lines, place.line, place.character)
        if text is None:
            return None
        return _lsp.Hover(contents=_lsp.MarkupContent(kind=_lsp.MarkupKind.Markdown, value=text))


def _path(uri: str) -> Path | None:
    parts = urlsplit(uri)
    return Path(url2pathname(parts.path)) if parts.scheme == "file" else None


def _diagnostic(document: Any, problem: Problem) -> Any:
    line, column = (problem.position.line - 1, problem.position.column - 1) if problem.position else (0, 0)
    lines = document.lines
    text = lines[line].rstrip("\r\n") if line < len(lines) else ""
    ends = [column, min(word_end(text, column), max(len(text), column))]
    codec = document.position_codec
    start, end = (
        codec.position_to_client_units(lines, _lsp.Position(line=line, character=character))
        for character in ends
    )
    is_error = problem.severity is Severity.ERROR
    severity = _lsp.DiagnosticSeverity.Error if is_error else _lsp.DiagnosticSeverity.Warning
    message = f"{problem.message}. {problem.fix}" if problem.fix else problem.message
    range_ = _lsp.Range(start=start, end=end)
    return _lsp.Diagnostic(range=range_, message=message, severity=severity, source="knime-mcp")
