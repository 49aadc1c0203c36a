"""What commands read and write: files, JSON, and arguments written as KEY=VALUE or KEY:=JSON.

Unusable files are refused before any call is made.
"""

from __future__ import annotations

import difflib
import json
import os
import re
import sys
from collections import Counter
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from ..audit.table_formats import (
    READABLE,
    WRITABLE,
    TableError,
    TableWriter,
    wrong_ending,
)
from ..client.protocol.messages import decode
from ..system import whole_file
from ..types.columns import ROW_ID
from ..types.errors import ProtocolError
from ..types.texts import why_no_json
from .command_errors import CommandError, UsageError, why_not
from .terminal import note

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
    from contextlib import AbstractContextManager
    from types import TracebackType

    import pyarrow as pa

    from ..audit.journal_reading import JournalContent
    from ..audit.record import CallRecord
    from ..client.mcp_client import MCPClient
    from ..runs.engine import Run
    from ..types.routing import ServerRoute


JSON: Final = ".json"
_PAGES: Final = (".html", ".htm")


def check_table(file: Path | None, *, as_json: bool = False) -> None:
    """Refuses a file that a table (or, with `as_json`, what ``--json`` prints) cannot be written into."""
    endings = (*WRITABLE, JSON) if as_json else WRITABLE
    if file is not None and file.suffix.lower() not in endings:
        raise UsageError(f"{wrong_ending(file, endings, 'written')}.")
    check_output(file)


def check_page(file: Path | None) -> None:
    """Refuses a file that a page for a browser cannot be written into; see `check_table`."""
    if file is not None and file.suffix.lower() not in _PAGES:
        raise UsageError(f"{file} should end in .html, as it is a page for a browser.")
    check_output(file)


def check_journal(file: Path | None) -> None:
    """Refuses a file that cannot be a journal of calls; see `check_table`."""
    if file is not None and file.suffix.lower() != ".jsonl":
        raise UsageError(f"{file} should end in .jsonl, as it has one line of JSON per call.")
    check_output(file)


def check_output(file: Path | None) -> None:
    if file is None:
        return
    if file.is_dir():
        raise UsageError(f"{file} is a folder. Name a file.")
    # Of a link, what it leads to is written.
    target = Path(os.path.realpath(file))
    folder = target.parent if file.is_symlink() else file.parent
    if not folder.is_dir():
        raise UsageError(f"There is no folder {folder} to write {target.name} into.")
    if not os.access(file if file.exists() else folder, os.W_OK):
        raise UsageError(f"{file} cannot be written: permission denied.")


def check_resume(file: Path | None, *, repeat_unknown: bool) -> None:
    """Refuses ``--repeat-unknown`` without a journal to resume from, and a journal that is not there."""
    if file is None:
        if repeat_unknown:
            raise UsageError("--repeat-unknown needs --resume: it is about the calls of an interrupted run.")
    elif not file.is_file():
        raise CommandError(f"There is no file {file} to resume from.")


def is_same(one: Path, other: Path) -> bool:
    return os.path.realpath(one) == os.path.realpath(other)


def check_folder(folder: Path | None) -> None:
    """Refuses a folder that no files can be written into. The folder is created with the first file."""
    if folder is None:
        return
    there = next(place for place in (folder, *folder.absolute().parents) if os.path.lexists(place))
    if not there.is_dir():
        raise UsageError(f"{there} is a file. Name a folder.")
    # Files can be made in a folder only with both.
    if not os.access(there, os.W_OK | os.X_OK):
        raise UsageError(f"{there} cannot be written into: permission denied. Name another folder.")


@contextmanager
def writing(file: Path) -> Generator[None]:
    """Adds the file's name to errors of writing, as for a full disk."""
    try:
        yield
    except OSError as error:
        raise CommandError(f"{file} could not be written: {why_not(error)}.") from None


class TableFile(TableWriter):
    """A file that a table is written into piece by piece; failures are errors of the command."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with writing(self.file):
            super().__exit__(kind, error, trace)
        if self.remark:
            note(f"{self.file}: {self.remark}.")

    def write(self, piece: pa.Table) -> None:
        with writing(self.file):
            try:
                super().write(piece)
            except TableError as error:
                raise CommandError(f"{error}.") from None


def check_readable(file: Path) -> None:
    """Refuses a file that is not there, or that cannot be a table."""
    file.stat()
    if file.suffix.lower() not in READABLE:
        raise CommandError(f"{wrong_ending(file, READABLE, 'read')}.")


@contextmanager
def writing_whole(file: Path) -> Generator[Path]:
    """A file to write into, which gets its name once it is whole; see `writing`."""
    with writing(file), whole_file(file) as part:
        yield part


def write_page(file: Path, page: str) -> None:
    with writing_whole(file) as part:
        part.write_text(page, encoding="utf-8")
    note(f"Wrote {file}")


def journal_to_resume(file: Path) -> JournalContent:
    """Reads the journal of an interrupted run, see `resuming.to_resume`."""
    from ..audit.journal_lines import JournalError
    from ..runs.resuming import JournalAltered, to_resume

    try:
        return to_resume(file)
    except JournalAltered as error:
        error.fix = "Restore the file; or leave out --resume, so that every call is made again"
        raise
    except JournalError as error:
        raise CommandError(f"{file} cannot be resumed from: {error}.") from None


@contextmanager
def going_on(file: Path | None, journal: Path | None) -> Generator[None]:
    """Keeps others from going on with the run in a file while it is gone on with in another journal."""
    if file is None or journal is None or is_same(file, journal):  # it is locked as it is written
        yield
        return
    from ..audit.journal import JournalBusy, held

    try:
        with held(file):
            yield
    except JournalBusy as error:
        raise CommandError(f"{error}.") from None


def open_journal(
    file: Path | None,
    run: Run,
    *,
    about: str,
    what: dict[str, Any] | None = None,
    calls: int | None = None,
    after: str | None = None,
) -> None:
    """Opens the journal of a command's run, which is closed at its end; the file may have earlier runs.

    `about`: the tool and settings of the run, without secrets; `what` it was told to do; `after` see
    `Journal`.
    """
    if file is None:
        return
    from ..audit.journal_lines import JournalError

    try:
        # A device or pipe has no earlier runs, and may have no end.
        run.open_journal(file, about=about, what=what or {}, calls=calls, append=file.is_file(), after=after)
    except JournalError as error:
        fix = "" if after is not None else " Name another file for --audit."
        raise CommandError(f"{error}.{fix}") from None


def recorded_run(file: Path | None, *, about: str) -> AbstractContextManager[Run | None]:
    """A run whose parts bring sessions of their own, with its journal; None without a file.

    Raises:
        CommandError: The file is not a journal.
    """
    if file is None:
        return nullcontext()
    from ..runs.engine import new_run

    run = new_run(_connects_nowhere)
    open_journal(file, run, about=about, what={"kind": "graph"})
    return run


def _connects_nowhere(route: ServerRoute) -> MCPClient:
    raise NotImplementedError(route.url)


@contextmanager
def reading_records() -> Generator[None]:
    """Makes errors of the command of those in a file of records or a table."""
    from ..audit.journal_lines import JournalError

    try:
        yield
    except (JournalError, TableError) as error:
        raise CommandError(f"{error}.") from None


def read_text(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError:
        raise CommandError(f"{file} is not UTF-8 text.") from None


def text_or_file(text: str, name: str) -> tuple[str, str]:
    """A text of the command line, of a file (``@FILE``) or of standard input (``@-``), and its source."""
    if not text.startswith("@"):
        return text, name
    if text == "@":
        raise UsageError(f"{name} has no file name after @.")
    if text != "@-":
        return read_text(Path(text[1:])), text[1:]
    return read_stdin(), "standard input"


def read_stdin() -> str:
    try:
        buffer = getattr(sys.stdin, "buffer", None)
        # A stream of the program around this one may hold text only.
        return (
            sys.stdin.read().removeprefix("\ufeff") if buffer is None else buffer.read().decode("utf-8-sig")
        )
    except UnicodeDecodeError:
        raise UsageError("Standard input is not UTF-8 text.") from None


def read_json(file: Path) -> Any:
    try:
        return json.loads(read_text(file))
    except (ValueError, RecursionError) as error:
        raise CommandError(f"{file} cannot be read as JSON: {why_no_json(error)}.") from None


_JSON_COLUMNS = ("Tool (JSON)", "Parameters", "Example arguments", "Security findings")
_ROWS_AT_ONCE: Final = 500
_JSON_KEYS = ("tool", "arguments", "structured_result")


def json_rows(table: pa.Table) -> Iterator[dict[str, Any]]:
    """Turns a table into JSON objects: *Tool name* becomes ``tool_name``, and JSON texts are parsed."""
    keys = {name: _key(name) for name in table.column_names if name != ROW_ID}
    for batch in table.to_batches(max_chunksize=_ROWS_AT_ONCE):
        for row in batch.to_pylist():
            yield {
                key: _parsed(row[name]) if name in _JSON_COLUMNS else row[name] for name, key in keys.items()
            }


def json_record(record: CallRecord) -> dict[str, Any]:
    """A record of a call as a JSON object, with its JSON texts parsed and without absent attributes."""
    members = record.to_json()
    return {key: _parsed(value) if key in _JSON_KEYS else value for key, value in members.items()}


def _parsed(text: str | None) -> Any:
    """Parses JSON text; returns the text itself if it is not JSON, as in edited tables."""
    try:
        return None if text is None else decode(text)
    except ProtocolError:
        return text


def _key(column: str) -> str:
    words = re.sub(r"[^0-9a-z]+", "_", column.removesuffix(" (JSON)").lower())
    return words.strip("_")


class Pair(NamedTuple):
    """One argument as written: its value is JSON text after ``:=``."""

    key: str
    value: str
    is_json: bool


def split_pairs(words: Iterable[str]) -> list[Pair]:
    """Splits words of the command line into pairs, before any server is asked for a schema."""
    pairs = [_split(word) for word in words]
    for key, times in Counter(pair.key for pair in pairs).items():
        if times > 1:
            raise UsageError(f"'{key}' is given {times} times. A list is {key}:='[\"one\", \"two\"]'.")
    return pairs


def _split(word: str) -> Pair:
    key, equals, value = word.partition("=")
    # Also `:=5`, which has no name.
    if not equals or not key.strip(":"):
        raise UsageError(f"'{word}' is not an argument for a tool. Write it as key=value, or as key:=JSON.")
    return Pair(key.removesuffix(":").strip(), value, key.endswith(":"))


def with_pairs(given: Mapping[str, Any], pairs: Sequence[Pair], schema: Mapping[str, Any]) -> dict[str, Any]:
    """Adds pairs to arguments that are given as JSON; values become what the tool's schema wants.

    A pair takes precedence. Arguments that the schema does not declare are remarked upon: usually they are
    typing errors.
    """
    if not given and not pairs:
        return {}  # unread: a server may name a hundred thousand parameters
    from ..client.validation.argument_schemas import parameters_in
    from ..runs.argument_sources import arguments_from_pairs

    parameters = parameters_in(schema, [*given, *(pair.key for pair in pairs)])
    values = dict(given)
    for key, value, is_json in pairs:
        if not is_json:
            values |= arguments_from_pairs([(key, value)], parameters)
            continue
        try:
            values[key] = json.loads(value)
        except (ValueError, RecursionError) as error:
            raise UsageError(f"The value of {key}:= is not JSON: {why_no_json(error)}.") from None
    for name in values:
        if parameters and name not in parameters:
            meant = difflib.get_close_matches(name, parameters, n=1, cutoff=0.5)
            ask = f" Did you mean '{meant[0]}'?" if meant else ""
            note(f"The tool declares no argument '{name}'.{ask}")
    return values
