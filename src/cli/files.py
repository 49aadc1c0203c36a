"""Files that commands read and write. What cannot work is refused before anything is called."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from .exits import CommandError, UsageError

if TYPE_CHECKING:
    from ..audit.journal import Journal

TABLES: Final = (".csv", ".parquet")
_PAGES: Final = (".html", ".htm")


def check_table(file: Path | None, endings: tuple[str, ...] = TABLES) -> None:
    """Refuses a file that a table cannot be written into.

    Raises:
        UsageError: Another ending, a folder, or in a folder that does not exist.
    """
    if file is not None and file.suffix.lower() not in endings:
        raise UsageError(f"{file} has no ending that says what to write. Use one of {', '.join(endings)}.")
    check_output(file)


def check_page(file: Path | None) -> None:
    """Refuses a file that a page for a browser cannot be written into.

    Raises:
        UsageError: See `check_table`.
    """
    if file is not None and file.suffix.lower() not in _PAGES:
        raise UsageError(f"{file} should end in .html: it gets a page for a browser.")
    check_output(file)


def check_journal(file: Path | None) -> None:
    """Refuses a file that cannot be a journal of calls.

    Raises:
        UsageError: See `check_table`.
    """
    if file is not None and file.suffix.lower() != ".jsonl":
        raise UsageError(f"{file} should end in .jsonl: it gets one line of JSON per call.")
    check_output(file)


def check_output(file: Path | None) -> None:
    """Refuses a file that cannot be written.

    Raises:
        UsageError: It is a folder, or in a folder that does not exist.
    """
    if file is None:
        return
    if file.is_dir():
        raise UsageError(f"{file} is a folder. Name a file.")
    if not file.parent.is_dir():
        raise UsageError(f"There is no folder {file.parent} to write {file.name} into.")


def check_folder(folder: Path | None) -> None:
    """Makes the folder for files of results, before a call that may not be made twice.

    Raises:
        UsageError: It cannot be made.
    """
    if folder is None:
        return
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        why = (error.strerror or str(error)).lower()
        raise UsageError(f"{folder} cannot be the folder for files: {why}. Name another one.") from None


def open_journal(file: Path, *, run: str, about: str, calls: int | None = None) -> Journal:
    """Opens the journal that the records of a command are added to.

    Args:
        file: The file, perhaps with earlier runs.
        run: Id of the run.
        about: What identifies the run. No secrets.
        calls: How many calls there will be, if known.

    Raises:
        CommandError: The file holds something else.
    """
    from ..audit.journal import Journal, JournalError

    try:
        return Journal(file, run=run, about=about, calls=calls, append=True)
    except JournalError as error:
        raise CommandError(f"{error}. Name another file for --audit.") from None


def read_text(file: Path) -> str:
    """Reads a text file.

    Raises:
        CommandError: It is not UTF-8.
        OSError: It cannot be opened.
    """
    try:
        return file.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError:
        raise CommandError(f"{file} is not UTF-8 text.") from None


def text_or_file(text: str, name: str) -> tuple[str, str]:
    """Reads what the command line says itself, or in a file (``@FILE``), or on standard input (``@-``).

    Args:
        text: The words of the command line.
        name: What they are, such as ``--json-arguments``.

    Returns:
        The text, and where it is from.

    Raises:
        CommandError: A file that is not UTF-8.
        UsageError: An ``@`` with nothing behind it, or standard input that is not UTF-8.
        OSError: The file cannot be opened.
    """
    if not text.startswith("@"):
        return text, name
    if text == "@":
        raise UsageError(f"{name} names no file after @.")
    if text != "@-":
        return read_text(Path(text[1:])), text[1:]
    return read_stdin(), "standard input"


def read_stdin() -> str:
    """Reads standard input to its end.

    Raises:
        UsageError: It is not UTF-8.
    """
    try:
        return sys.stdin.buffer.read().decode("utf-8-sig")
    except UnicodeDecodeError:
        raise UsageError("What standard input holds is not UTF-8 text.") from None


def read_json(file: Path) -> Any:
    """Reads a JSON file.

    Raises:
        CommandError: It is not UTF-8, not JSON, or nested too deeply.
        OSError: It cannot be opened.
    """
    try:
        return json.loads(read_text(file))
    except (ValueError, RecursionError) as error:
        raise CommandError(f"{file} cannot be read as JSON: {why_no_json(error)}.") from None


def why_no_json(error: ValueError | RecursionError) -> str:
    """Says why a text could not be read as JSON."""
    match error:
        case RecursionError():
            return "it is nested too deeply"
        case json.JSONDecodeError():
            return f"{error.msg} in line {error.lineno}, column {error.colno}"
        case _:  # the only other one that Python raises
            return "it holds a number with thousands of digits"
