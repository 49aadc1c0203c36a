"""What the commands share that run graphs."""

from __future__ import annotations

from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..files import check_journal, open_journal

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
    check_journal(file)
    from ...audit.journal import new_run_id

    with open_journal(file, run=new_run_id(), about=about) as journal:
        yield journal
