"""Prints results to standard output, and remarks, errors and progress to standard error.

Names, descriptions and results come from servers and are untrusted. On a terminal their control characters
are shown as escapes, so that no server can recolour, overwrite or hide text. In a pipe or file, text is not
changed. Progress is one changing line on a terminal; elsewhere, such as in logs, there is a line per report.

There is one way of asking whoever sits at the terminal. Consent is given by somebody who has read the
question. So what was typed or pasted before it is thrown away, and an answer is a whole line of one of the
words that are offered; after *no* may stand why. Anything else is asked again. Where the input ends, nobody
has answered.
"""

from __future__ import annotations

import functools
import json
import os
import re
import shlex
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from time import monotonic
from typing import IO, TYPE_CHECKING, Any, Final, Self, cast

from ..system import forget_typed, typed_line
from ..types.texts import CUT, counted, escape, shortened
from ..types.texts import visible as escape_hidden

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Generator, Iterable, Mapping, Sequence

    from rich.console import Console
    from rich.progress import Progress as ProgressBars
    from rich.progress import ProgressColumn, TaskID
    from rich.status import Status
    from rich.text import Text

    from ..client.mcp_client import Progress


try:
    import orjson as _orjson
except ImportError:  # optional: orjson comes with LangChain, on platforms that have it
    _orjson = None

LONGEST_ERROR = 100_000
"""Characters that are shown of an error which a server words: tens of megabytes are possible."""
_INDENTED = 1_000_000  # bytes: a value of 2 MB that is nested 190 levels deep takes 370 MB indented
_LAID_OUT = 2_000  # rows: rich takes 6 s for 40,000
_WIDEST = 60  # characters of a column where not
_REPORTS = 100  # of progress; a server may send tens of thousands
_LONGEST_REPORT = 1_000
_NARROWEST = 20  # characters; narrower tables would have no text
# After a single carriage return, the end of a line would overwrite its beginning.
_OVERWRITES = re.compile(r"\r(?!\n)")


def visible(text: str) -> str:
    r"""Shows control and other hidden characters as escapes such as ``\\u{001b}``."""
    return _OVERWRITES.sub(lambda match: escape(match[0]), escape_hidden(text))


def out() -> Console:
    """The console for results: as wide as the terminal or ``COLUMNS``, without both so that little is cut."""
    return _out(sys.stdout)


@functools.lru_cache(maxsize=1)
def _out(stream: IO[str]) -> Console:
    from rich.console import Console

    console = Console(file=stream, highlight=False, emoji=False, markup=False)
    # With COLUMNS, rich has taken the width from there.
    if not console.is_terminal and "COLUMNS" not in os.environ:
        console.width = 200
    elif console.width < _NARROWEST:
        console.width = _NARROWEST
    return console


def err() -> Console:
    """The console for progress, notes and errors."""
    return _err(sys.stderr)


@functools.lru_cache(maxsize=1)
def _err(stream: IO[str]) -> Console:
    from rich.console import Console

    remarks = cast("IO[str]", _SafeStandardError(stream))
    return Console(file=remarks, highlight=False, emoji=False, markup=False, soft_wrap=True)


class _SafeStandardError:
    """Standard error without write errors: a closed pipe or a full disk must not cost a result."""

    def __init__(self, stream: IO[str]) -> None:
        self._stream = stream

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> None:
        with suppress(OSError):
            self._stream.write(text)

    def flush(self) -> None:
        with suppress(OSError):
            self._stream.flush()


def plain(text: str, style: str = "") -> Text:
    """Untrusted text for a table or line: without markup, and with control characters as escapes."""
    from rich.text import Text

    return Text(visible(text), style=style)


def say(text: str, style: str = "") -> None:
    out().print(plain(text, style), soft_wrap=True)  # a hash or URL stays in one piece


def note(text: str) -> None:
    _remark(text, "dim")


def complain(text: str) -> None:
    _remark(text, "bold red")


def remarks_on_terminal() -> bool:
    """Returns whether standard error is a terminal. If not, no progress is drawn and rich is not loaded."""
    return is_terminal(sys.stderr) or bool(os.environ.get("FORCE_COLOR"))


def is_embedded() -> bool:
    """Returns whether a program has put its own streams here: it goes on when the command has ended."""
    names = ("stdin", "stdout", "stderr")
    return any(getattr(sys, f"__{name}__") not in (None, getattr(sys, name)) for name in names)


def is_terminal(stream: IO[str]) -> bool:
    """Returns whether a stream is a terminal; a stream that does not say is none."""
    asks = getattr(stream, "isatty", None)
    return asks is not None and asks()


def can_ask() -> bool:
    """Whether somebody sits at the terminal."""
    return is_terminal(sys.stdin) and is_terminal(sys.stderr)


def _remark(text: str, style: str) -> None:
    if remarks_on_terminal():
        err().print(plain(text, style))
        return
    with suppress(OSError):  # as `_SafeStandardError` does
        print(visible(text), file=sys.stderr, flush=True)


def print_text(text: str) -> None:
    """Prints a result unchanged; on a terminal, control characters are shown as escapes."""
    print(visible(text) if is_terminal(sys.stdout) else text)


def print_markdown(text: str) -> None:
    """Prints what a model wrote: on a terminal as Markdown is meant to look, elsewhere as it is."""
    if not is_terminal(sys.stdout):
        print_text(text)
        return
    from rich.markdown import Markdown

    # A link is shown with its target, which its text might hide.
    out().print(Markdown(visible(text), hyperlinks=False))


def typed_again(
    *options: str, without: Collection[str], instead: Mapping[str, str | None] | None = None
) -> str:
    """The command that was typed, without some of its options and their values, and with others.

    Of its words, those stand ``instead`` of others that are named there; None for none.
    """
    words = sys.argv[1:]
    kept = [
        (instead or {}).get(word, word)
        for before, word in zip(["", *words], words, strict=False)
        if before not in without and word.partition("=")[0] not in without
    ]
    return shlex.join(["knime-mcp", *(word for word in kept if word is not None), *options])


def print_json(value: Any) -> None:
    """Prints JSON for other programs: always valid, indented by two spaces, escaped only where necessary.

    Iterators, also as members, are printed as lists, while they are made. What is long stands on one line.
    """
    escaped, shown = not _speaks_unicode(), is_terminal(sys.stdout)
    for piece in json_pieces(value, escaped=escaped):
        sys.stdout.write(visible(piece) if shown else piece)
    sys.stdout.write("\n")


def json_pieces(value: Any, *, escaped: bool = False) -> Iterator[str]:
    """Indented JSON text in pieces; so neither large lists nor their text are in memory as a whole."""
    match value:
        case Iterator():
            before = "["
            for item in cast("Iterator[Any]", value):
                yield f"{before}\n  {_json_text(item, escaped=escaped).replace(chr(10), chr(10) + '  ')}"
                before = ","
            yield "\n]" if before == "," else "[]"
        case dict() if value:
            before = "{"
            for key, member in cast("dict[str, Any]", value).items():
                yield f"{before}\n  {_json_text(key, escaped=escaped)}: "
                if isinstance(member, Iterator):
                    pieces = json_pieces(cast("Iterator[Any]", member), escaped=escaped)
                else:
                    pieces = [_json_text(member, escaped=escaped)]  # in one piece it is written faster
                for piece in pieces:
                    yield piece.replace("\n", "\n  ")
                before = ","
            yield "\n}"
        case _:
            yield _json_text(value, escaped=escaped)


def _json_text(value: Any, *, escaped: bool) -> str:
    if _orjson is not None and not escaped:
        # Indented, json takes 20 times as long, as it does that in Python.
        with suppress(TypeError):  # what orjson does not write: long integers, deep values, lone surrogates
            text = _orjson.dumps(value)
            if len(text) <= _INDENTED:
                text = _orjson.dumps(value, option=_orjson.OPT_INDENT_2)
            return text.decode()
    return json.dumps(value, indent=2, ensure_ascii=escaped, allow_nan=False)


def show_table(title: str | None, columns: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Prints untrusted text as a table that fits the terminal; the last column takes the rest.

    Thousands of rows are printed as lines, each column as wide as its widest cell.
    """
    cells = [[visible(cell) for cell in row] for row in rows]
    if title:
        say(title, "bold")
    if len(cells) > _LAID_OUT:
        lines = [columns, *([" ".join(cell.split()) for cell in row] for row in cells)]
        widths = [min(max(map(len, column)), _WIDEST) for column in zip(*lines, strict=True)]
        print(*("  ".join(map(str.ljust, line, widths)).rstrip() for line in lines), sep="\n")
        return
    from rich import box
    from rich.table import Table
    from rich.text import Text

    grid = Table(box=box.SIMPLE_HEAD, pad_edge=False, expand=False)
    for column in columns:
        grid.add_column(column, overflow="fold")
    for row in cells:
        grid.add_row(*map(Text, row))
    out().print(grid)


def one_line(text: str | None, limit: int = 120) -> str:
    """The beginning of a text, on one line."""
    text = text or ""
    start = text[: 10 * limit]  # megabytes may have millions of words
    return shortened(" ".join(start.split()) + (CUT if len(text) > len(start) else ""), limit)


def _speaks_unicode() -> bool:
    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"  # text in memory has none
    return encoding.lower().replace("-", "").startswith("utf")


class StatusLine:
    """A changing line on a terminal, shown with the first text. Without a terminal it is not shown."""

    def __init__(self) -> None:
        self._status: Status | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.hide()

    def hide(self) -> None:
        if self._status is not None:
            self._status.stop()
            self._status = None

    def show(self, text: str) -> bool:
        """Shows a text if there is a terminal. Returns whether there is one."""
        if not remarks_on_terminal():
            return False
        shown = plain(text, "dim")
        shown.no_wrap, shown.overflow = True, "ellipsis"
        if self._status is None:
            self._status = err().status(shown)
            self._status.start()
        else:
            self._status.update(shown)
        return True


class CallProgress(StatusLine):
    """Shows the progress that a tool reports; beyond a hundred reports, one in a second."""

    def __init__(self) -> None:
        super().__init__()
        self._shown = self._left_out = 0
        self._next = 0.0

    def __exit__(self, *_: object) -> None:
        super().__exit__()
        if self._left_out and not remarks_on_terminal():
            note(f"{counted(self._left_out, 'further report')} of progress left out")

    def __call__(self, progress: Progress) -> None:
        if self._shown >= _REPORTS and monotonic() < self._next:
            self._left_out += 1
            return
        self._shown, self._next = self._shown + 1, monotonic() + 1
        of = f" of {progress.total:g}" if progress.total else ""
        text = f"{progress.progress:g}{of}{': ' + progress.message if progress.message else ''}"
        if not self.show(shortened(text, _LONGEST_REPORT)):
            note(shortened(text, _LONGEST_REPORT))


@contextmanager
def batch_progress(total: int) -> Generator[Callable[[int], None]]:
    """Shows the number of finished calls, as a bar with ``call 37 of 200``; in a log every tenth call."""
    from rich.progress import TimeRemainingColumn

    tenths = 0

    def finished(number: int) -> None:
        nonlocal tenths
        text = f"call {number} of {total}"
        bar.update(task, completed=number, description=text)
        if 10 * number // total > tenths and not remarks_on_terminal():
            tenths = 10 * number // total
            note(text)

    with _bar(TimeRemainingColumn()) as bar:
        task = bar.add_task(f"call 0 of {total}", total=total)
        yield finished


@contextmanager
def steps_progress() -> Generator[Callable[[tuple[str, int, int]], None]]:
    """Shows the progress of each step of a longer job, as (name, done, total): a bar, in a log a line."""
    from rich.progress import MofNCompleteColumn

    tasks: dict[str, TaskID] = {}

    def done(step: tuple[str, int, int]) -> None:
        what, completed, total = step
        if what not in tasks:
            tasks[what] = bar.add_task(what, total=total)
            if not remarks_on_terminal():
                note(f"{what}: {total}")
        bar.update(tasks[what], completed=completed)

    with _bar(MofNCompleteColumn()) as bar:
        yield done


def _bar(last: ProgressColumn) -> ProgressBars:
    from rich.progress import BarColumn, Progress, TextColumn

    columns = (TextColumn("{task.description}"), BarColumn(), last)
    return Progress(*columns, console=err(), disable=not remarks_on_terminal(), transient=True)


_POLL_SECONDS: Final = 0.1
_NO: Final = "no"
_WHY: Final = " or no and why"
_HINT: Final = "That is no answer. Type one of these words and nothing else; only after no may stand why."
_ENDED: Final = "The input has ended: nobody has answered, and that is no yes."


@dataclass(frozen=True, slots=True)
class Answer:
    """One of the words that were offered; after *no*, why."""

    word: str
    reason: str = ""


def asked(question: str, *words: str, is_stopped: Callable[[], bool] = lambda: False) -> Answer | None:
    """Asks until the answer is one of the words, or its first letter; None if nobody has answered.

    Args:
        question: What the person reads before it decides.
        words: What can be answered; their first letters differ.
        is_stopped: Whether nobody waits for the answer any more.
    """
    text = question
    offered = ", ".join(f"{word[0]}({word[1:]}){_WHY if word == _NO else ''}" for word in words)
    while True:
        line = entered(f"{text}\n{offered}: ", is_stopped)
        if line is None:
            if not is_stopped():
                note(_ENDED)
            return None
        word, _, reason = line.partition(" ")
        for known in words:
            is_whole = not reason or known == word.lower() == _NO
            if is_whole and word.lower() in (known, known[0]):
                return Answer(known, reason.strip())
        text = _HINT


def entered(prompt: str, is_stopped: Callable[[], bool]) -> str | None:
    """A line that is typed after the prompt is shown; None at the end of the input, or if it is stopped."""
    if forget_typed():
        note("What was typed before this question is no answer to it, and was thrown away.")
    err().print(plain(prompt), end="")
    typed = ""
    while not is_stopped():
        if (piece := typed_line(_POLL_SECONDS)) is None:
            continue
        typed += piece
        if not piece:
            return None
        # Ctrl-D hands on the beginning of a line.
        if typed.endswith("\n"):
            return typed.strip()
    return None
