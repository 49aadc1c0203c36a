"""The document on the desk: its text, what was changed since, and the file that others may change."""

from __future__ import annotations

import os
import threading
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from knime_mcp.system import replace_file
from knime_mcp.yaml_text import as_mapping

from ..document_edits import GraphEditError, apply
from ..document_loading import check_text, write_yaml
from ..expressions.javascript import json_value
from ..graph_model import Dialect
from ..yaml_editing import EditError
from .sketches import kinds_of_nodes, sketches

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ..document_loading import CheckedDocument
    from ..known_fields import CalledTool

_MOST_STEPS: Final = 500


class ConflictError(GraphEditError):
    """Somebody else changed what was to be changed."""

    CODE = "KMCP-GRAPH-CONFLICT"


class DocumentDesk:
    """One document that is worked on. Safe to use from several threads.

    Args:
        file: The YAML file.
        dialect: Its dialect; None or ``auto`` to detect it.
        mcp_file: A ``mcp.json`` with further servers.
        environ: Environment variables for ``${NAME}``.
    """

    def __init__(
        self,
        file: Path,
        *,
        dialect: Dialect | str | None = None,
        mcp_file: Path | None = None,
        environ: Mapping[str, str] = os.environ,
    ) -> None:
        self.file = Path(os.path.realpath(file))  # a link stays one when the file is replaced
        self._options: dict[str, Any] = {"dialect": dialect, "mcp_file": mcp_file, "environ": environ}
        # Reentrant, as `save` looks at the file first, and `state` checks the text.
        self._lock = threading.RLock()
        self._mark = ""  # the byte order mark of the file, which it keeps
        self._on_disk = self._read() or ""
        self._theirs: str | None = None
        self._text = self._on_disk
        self._number = 1
        self._undo: list[str] = []
        self._redo: list[str] = []
        self._checked: tuple[str, CheckedDocument] | None = None
        self.called: dict[tuple[str, str], CalledTool] = {}

    @property
    def text(self) -> str:
        return self._text

    @property
    def number(self) -> int:
        """The number of the version of the text; it grows with each change."""
        return self._number

    @property
    def is_saved(self) -> bool:
        return self.text == self._on_disk

    def checked(self) -> CheckedDocument:
        with self._lock:
            if self._checked is None or self._checked[0] != self.text:
                checked = check_text(self.text, path=self.file, called=self.called, **self._options)
                self._checked = (self.text, checked)
            return self._checked[1]

    def learn(self, called: Mapping[tuple[str, str], CalledTool]) -> None:
        """What servers said of their tools; expressions and arguments are checked against it."""
        with self._lock:
            self.called.update(called)
            self._checked = None

    @property
    def dialect(self) -> Dialect:
        choice = self.checked().dialect
        return choice.dialect if choice is not None else Dialect.NEXT

    def apply(self, number: int, change: Mapping[str, Any]) -> None:
        """Changes the document: a change of `document_edits.apply`, or ``text``, ``undo`` or ``redo``.

        Raises:
            ConflictError: `number` is not that of the version on the desk.
            GraphEditError: The change does not fit the document, or cannot be written into its text.
        """
        with self._lock:
            if number != self.number:
                raise ConflictError("The document has changed meanwhile", fix="Look at it and try again")
            match change.get("kind"):
                case "text":
                    text = str(change["text"])  # with line feeds alone; its own ends of lines stay
                    self._put(text.replace("\n", "\r\n") if "\r\n" in self.text else text)
                case "undo":
                    self.undo()
                case "redo":
                    self.redo()
                case _:
                    self._put(self._edited(change))

    def _edited(self, change: Mapping[str, Any]) -> str:
        source = self.checked().source
        if source is None:
            raise GraphEditError("The text cannot be read", fix="Correct it first")
        try:
            return write_yaml(self.text, apply(source.data, change, self.dialect))
        except EditError as error:
            raise GraphEditError(str(error), fix="Change it in the text") from None

    def undo(self) -> None:
        with self._lock:
            if self._undo:
                self._redo.append(self.text)
                self._become(self._undo.pop())

    def redo(self) -> None:
        with self._lock:
            if self._redo:
                self._undo.append(self.text)
                self._become(self._redo.pop())

    def save(self, *, overwrite: bool = False) -> None:
        """Writes the file, whole or not at all.

        Raises:
            ConflictError: The file changed since it was read; `overwrite` writes it all the same.
        """
        with self._lock:
            # Once more just before writing, as somebody may have saved since.
            self.look()
            if self._theirs is not None and not overwrite:
                raise ConflictError(
                    "The file was changed by somebody else",
                    fix="Compare both, then take theirs or keep yours",
                )
            # In the same folder, as only there a file can take the place of another at once.
            beside = self.file.with_name(f".{self.file.name}.studio")
            try:
                beside.write_bytes((self._mark + self.text).encode("utf-8"))
                # A new file has no permissions to keep.
                with suppress(OSError):
                    beside.chmod(self.file.stat().st_mode)
                replace_file(beside, self.file)
            except OSError as error:
                beside.unlink(missing_ok=True)
                raise GraphEditError(f"{self.file} cannot be written: {error.strerror}") from None
            self._on_disk, self._theirs = self.text, None

    def look(self) -> bool:
        """Looks at the file; takes it over if nothing was changed here. Returns whether there is news."""
        with self._lock:
            text = self._read()
            if text is None or text == (self._on_disk if self._theirs is None else self._theirs):
                return False
            # Both sides say the same now, whoever wrote it.
            if text == self.text or text == self._on_disk:
                self._on_disk, self._theirs = text, None
            elif self.is_saved:
                self._on_disk = text
                self._put(text)
            else:
                self._theirs = text
            return True

    def take_theirs(self) -> None:
        """Takes over the file as somebody else left it; undo brings back what was here."""
        with self._lock:
            if self._theirs is not None:
                self._on_disk, theirs, self._theirs = self._theirs, self._theirs, None
                self._put(theirs)

    def state(self) -> dict[str, Any]:
        """All that the page shows of the document, as JSON."""
        with self._lock:
            checked = self.checked()
            source = checked.source
            written = as_mapping(as_mapping(source.data).get("mcpServers")) if source else {}
            servers = set(written) | set(() if checked.document is None else checked.document.servers)
            return {
                "version": self.number,
                "file": self.file.name,
                "text": self.text.replace("\r\n", "\n"),
                "isSaved": self.is_saved,
                "theirs": self._theirs,
                "canUndo": bool(self._undo),
                "canRedo": bool(self._redo),
                "dialect": self.dialect.value,
                "canRun": checked.document is not None,
                "problems": [
                    {**problem.to_json(), "path": list(problem.position.path) if problem.position else []}
                    for problem in checked.problems
                ],
                "servers": sorted(servers),
                "ownServers": json_value(written),
                "tools": None if source is None else sketches(checked),
                "kinds": kinds_of_nodes(self.dialect),
            }

    def _read(self) -> str | None:
        try:
            text = self.file.read_bytes().decode("utf-8")
        except (OSError, UnicodeDecodeError):
            return None
        self._mark = "\ufeff" if text.startswith("\ufeff") else ""
        return text.removeprefix("\ufeff")

    def _put(self, text: str) -> None:
        if text != self.text:
            self._undo = [*self._undo[-_MOST_STEPS:], self.text]
            self._redo = []
            self._become(text)

    def _become(self, text: str) -> None:
        # Undo is a change, too: a page that has not seen it must not write over it.
        self._text, self._number = text, self._number + 1
