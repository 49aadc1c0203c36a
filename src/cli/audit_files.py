"""Files with records of calls, as the command line reads them."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from .exits import CommandError

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")


def read(work: Callable[[], T]) -> T:
    """Reads records.

    Args:
        work: Does it.

    Returns:
        What it read.

    Raises:
        CommandError: The file holds no records, or cannot be read.
    """
    from ..audit.journal import JournalError
    from ..audit.table import TableError

    try:
        return work()
    except (JournalError, TableError) as error:
        raise CommandError(f"{error}.") from None
