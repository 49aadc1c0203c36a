"""Progress of tools and batches on standard error.

On a terminal, progress is one changing line; elsewhere, such as in logs, there is a line per report.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Self

from .terminal import err, note, plain, remarks_on_terminal

if TYPE_CHECKING:
    from collections.abc import Callable, Generator
    from types import TracebackType

    from rich.progress import Progress as ProgressBars
    from rich.progress import ProgressColumn, TaskID
    from rich.status import Status

    from ..client.mcp_client import Progress


class StatusLine:
    """A changing line on a terminal, shown with the first text. Without a terminal it is not shown."""

    def __init__(self) -> None:
        self._status: Status | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
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
    """Shows the progress that a tool reports."""

    def __call__(self, progress: Progress) -> None:
        """Shows a report."""
        of = f" of {progress.total:g}" if progress.total else ""
        text = f"{progress.progress:g}{of}{': ' + progress.message if progress.message else ''}"
        if not self.show(text):
            note(text)


@contextmanager
def batch_progress(total: int) -> Generator[Callable[[int], None]]:
    """Shows the number of finished calls, as a bar with ``call 37 of 200``; in a log every tenth call.

    Args:
        total: The number of calls.

    Yields:
        A function to call with the number of finished calls.
    """
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
    """Shows the progress of each step of a longer job, as a bar; in a log as a line.

    Yields:
        A function to call with (name of the step, done, total).
    """
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
    """Progress bars, which are hidden without a terminal.

    Args:
        last: The column after the bar.
    """
    from rich.progress import BarColumn, Progress, TextColumn

    columns = (TextColumn("{task.description}"), BarColumn(), last)
    return Progress(*columns, console=err(), disable=not remarks_on_terminal(), transient=True)
