"""What the commands share that run graphs."""

from __future__ import annotations

from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..exits import CommandError, UsageError

if TYPE_CHECKING:
    from collections.abc import Generator

    from ...audit.journal import Journal

AuditOption = Annotated[
    Path | None,
    typer.Option(metavar="FILE.jsonl", help="Add a record of each call that a graph makes to this journal."),
]


@contextmanager
def opened_journal(file: Path | None, about: str) -> Generator[Journal | None]:
    """The journal that records go to, if there is one.

    Args:
        file: The file, or None.
        about: What identifies the run.

    Raises:
        UsageError: The file has the wrong name.
        CommandError: The file holds something else.
    """
    if file is None:
        yield None
        return
    if file.suffix.lower() != ".jsonl":
        raise UsageError(f"{file} should end in .jsonl: it gets one line of JSON per call.")
    from ...audit.journal import Journal, JournalError, new_run_id

    try:
        journal = Journal(file, run=new_run_id(), about=about, append=True)
    except JournalError as error:
        raise CommandError(f"{error}. Name another file for --audit.") from None
    with journal:
        yield journal
