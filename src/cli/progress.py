"""Progress on standard error: what a running tool reports, and how far a batch is.

On a terminal it is one line that changes; elsewhere it is a line per report, for logs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

from .terminal import err, note, plain, remarks_on_terminal

if TYPE_CHECKING:
    from types import TracebackType

    from rich.progress import ProgressColumn, TaskID
    from rich.status import Status

    from ..tools.mcp_client import Progress


class StatusLine:
    """A line on a terminal that changes; appears with the first text. Elsewhere there is none."""

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
        """Shows a text. Returns whether there is a terminal to show it on."""
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
    """Shows what a tool reports while it runs."""

    def __call__(self, progress: Progress) -> None:
        """Takes a report."""
        of = f" of {progress.total:g}" if progress.total else ""
        text = f"{progress.progress:g}{of}{': ' + progress.message if progress.message else ''}"
        if not self.show(text):
            note(text)


class _Bar:
    """A bar on a terminal while something is done; nothing elsewhere.

    Args:
        last: What stands behind the bar, one of rich's columns.
    """

    def __init__(self, last: ProgressColumn) -> None:
        from rich.progress import BarColumn, Progress, TextColumn

        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            last,
            console=err(),
            disable=not remarks_on_terminal(),
            transient=True,
        )

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bar.stop()


class BatchProgress(_Bar):
    """Shows how many calls have finished, as a bar with ``call 37 of 200``.

    Args:
        total: How many calls there are.
    """

    def __init__(self, total: int) -> None:
        from rich.progress import TimeRemainingColumn

        super().__init__(TimeRemainingColumn())
        self._total = total
        self._tenths = 0
        self._task = self._bar.add_task(self._text(0), total=total)

    def __call__(self, finished: int) -> None:
        """Takes the number of calls that have finished."""
        self._bar.update(self._task, completed=finished, description=self._text(finished))
        tenths = 10 * finished // self._total
        if tenths > self._tenths and not remarks_on_terminal():  # enough for a log
            self._tenths = tenths
            note(self._text(finished))

    def _text(self, finished: int) -> str:
        return f"call {finished} of {self._total}"


class StepsProgress(_Bar):
    """Shows how far each step of a longer work is, as a bar for each; elsewhere a line per step."""

    def __init__(self) -> None:
        from rich.progress import MofNCompleteColumn

        super().__init__(MofNCompleteColumn())
        self._tasks: dict[str, TaskID] = {}

    def __call__(self, step: tuple[str, int, int]) -> None:
        """Takes (what, done, of how many)."""
        what, done, total = step
        if what not in self._tasks:
            self._tasks[what] = self._bar.add_task(what, total=total)
            if not remarks_on_terminal():
                note(f"{what}: {total}")
        self._bar.update(self._tasks[what], completed=done)
