"""Keeps the conversations that a canceled run had finished: KNIME discards the tables of a canceled node.

The file is a *Conversation* as text, so a CSV Reader before *Conversation history* goes on with it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from .conversation import ConversationLayout, MessageForm

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from .conversation import Entry

_SUFFIX: Final = ".conversations.csv"


def save_finished(entries: Sequence[Entry], journal: Path) -> Path:
    """Writes finished conversations into a file beside the journal of their calls.

    Args:
        entries: The rows of *Conversation*.
        journal: The file with the calls.

    Returns:
        The file, in UTF-8.

    Raises:
        OSError: It cannot be written.
    """
    from pyarrow import csv

    layout = ConversationLayout(form=MessageForm.PLAIN, error_column="Errors", per_row=True)
    path = journal.with_name(f"{journal.stem}{_SUFFIX}")
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("xb") as file:
        path.chmod(0o600)
        csv.write_csv(layout.table(entries), file)
    return path
