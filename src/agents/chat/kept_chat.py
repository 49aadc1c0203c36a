"""A chat in a folder of its user: it outlives its view, a reset of its node, and KNIME.

KNIME keeps what was said in a view only if the view hands it on, so it is written down before a question is
asked and after it is answered. Not in the workflow, which may be given to others after a reset of its nodes.
"""

from __future__ import annotations

import hmac
import json
import re
import secrets
import shutil
import tempfile
from dataclasses import dataclass, replace
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ...audit.journal import anchor_of
from ...audit.journal_lines import JournalError, end_of, journal_parts
from ...audit.journal_reading import JournalReading
from ...system import user_folder, whole_file
from ...types.errors import FileFailed
from ..message_content import shown_text
from ..prompter.conversation_table import ERRORS, ConversationLayout, ConversationRow, MessageForm, message_of
from ..toolbox.data_registry import table_of_text, table_text

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ...audit.record import CallRecord
    from .chat_session import ChatSession

_FILE: Final = "chat.json"
_NAME: Final = re.compile("[0-9a-f]{64}")
_MADE_WHEN: Final = re.compile(r'key="authored-when"[^>]*\bvalue="([^"]*)"')
_JOURNAL: Final = re.compile(r"[0-9]{8}T[0-9]{6}\.[0-9]{6}Z-[0-9a-f]{6}\.jsonl")  # of `new_run_id`
_LAYOUT: Final = ConversationLayout(form=MessageForm.PLAIN, error_column=ERRORS)


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptChat:
    """What was said in a chat, in any of its views.

    Attributes:
        entries: The conversation.
        tables: The tables that tools have given, by name; without those that only KNIME can read.
        journals: The names of the journals with its calls, the last one last.
        asked: The question that is being answered, "" for none.
    """

    entries: Sequence[ConversationRow] = ()
    tables: Sequence[tuple[str, Any]] = ()
    journals: tuple[str, ...] = ()
    asked: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToldChat:
    """What the journals of a chat say: its calls, what proves the last journal, what people have to know."""

    calls: Sequence[CallRecord] = ()
    head: str = ""
    remark: str = ""


class ChatFolder:
    """The folder of a chat, for one view at a time: it does not write over what another one has said."""

    def __init__(self, name: str) -> None:
        # A workflow may come from anybody, with any name in its settings.
        self.name = name if _NAME.fullmatch(name) else ""
        # Without a name it is one that nobody finds again.
        self.path = _chats() / name if self.name else Path(tempfile.mkdtemp(prefix="knime-mcp-chat-"))
        self._known: KeptChat | None = None

    @classmethod
    def of_node(cls, workflow: Path, place: str) -> ChatFolder:
        """The folder of a node, from its place in its workflow; without a name if this user can have none.

        A workflow that was made anew where another one has been finds no chat of that one.
        """
        try:
            secret = _secret()
        except OSError:
            return cls("")
        text = f"{workflow.resolve()} {_made_when(workflow)} {place}"
        return cls(hmac.new(secret, text.encode(), "sha256").hexdigest())

    def read(self) -> KeptChat | None:
        """What is kept; None if nothing is. `FileFailed` if it cannot be read."""
        try:
            text = (self.path / _FILE).read_text(encoding="utf-8")
        except FileNotFoundError:
            return None
        except (OSError, UnicodeDecodeError) as error:
            raise self._failed("read", error) from None
        try:
            said = json.loads(text)
            kept = KeptChat(
                entries=[_entry(cells) for cells in said["entries"]],
                tables=[(name, table_of_text(table)) for name, table in said["tables"]],
                journals=tuple(said["journals"]),
                asked=said["asked"],
            )
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
            raise self._failed("read", error) from None
        self._known = kept
        return kept

    def write(self, kept: KeptChat) -> None:
        """Replaces what is kept. `FileFailed` if it cannot be written, or another view has written it."""
        known = self._known
        there = self.read()
        if there is not None and (known is None or there.journals != known.journals):
            self._known = known
            raise FileFailed(
                "This chat was gone on with in another view",
                fix="Go on there, or close both and open one again",
            )
        tables = ((name, table_text(table)) for name, table in kept.tables)
        said = {
            "entries": [_LAYOUT.cells(entry) for entry in kept.entries],
            "tables": [(name, text) for name, text in tables if text is not None],
            "journals": kept.journals,
            "asked": kept.asked,
        }
        self.make()
        try:
            with whole_file(self.path / _FILE, private=True) as file:
                file.write_text(json.dumps(said, ensure_ascii=True), encoding="utf-8")
        except OSError as error:
            raise self._failed("written", error) from None
        self._known = kept

    def writer(self, before: KeptChat, journal: str) -> Callable[[ChatSession, str], None]:
        """What writes down a session with the question under way, behind what was before it."""
        journals = (*before.journals, journal)

        def write(session: ChatSession, asked: str) -> None:
            tables = (*before.tables, *session.made_tables())
            self.write(KeptChat(entries=session.entries, tables=tables, journals=journals, asked=asked))

        return write

    def joined(self, kept: KeptChat, entries: Sequence[ConversationRow], journal: str) -> KeptChat:
        """What is kept, and behind it what was said in a view, which may not have known of it.

        ``journal`` is that of the view, "" if nothing was said there.
        """
        name = Path(journal).name
        if not name:
            return replace(kept, entries=kept.entries or entries)
        if name in kept.journals:
            return kept
        pairs = zip(map(_words, kept.entries), map(_words, entries), strict=False)
        same = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
        self.make()
        # A workflow may come from anybody, and name any file, which would be copied to its data.
        is_journal = _JOURNAL.fullmatch(name) is not None
        if is_journal:
            _copied(Path(journal), self.path)
        there = (name,) if is_journal and (self.path / name).is_file() else ()  # not from another machine
        joined = replace(kept, entries=[*kept.entries, *entries[same:]], journals=(*kept.journals, *there))
        self.write(joined)
        return joined

    def make(self) -> None:
        """Makes the folder, which nobody else can read. `FileFailed` if it cannot be made."""
        try:
            self.path.mkdir(parents=True, exist_ok=True, mode=0o700)
        except OSError as error:
            raise self._failed("written", error) from None

    def give_journals(self, kept: KeptChat, folder: Path) -> None:
        """Copies the journals to those of the workflow."""
        for name in kept.journals:
            _copied(self.path / name, folder)

    def told(self, kept: KeptChat, others: Sequence[CallRecord] = ()) -> ToldChat:
        """What its journals say; `others` are calls that may be in none of them, of a view elsewhere."""
        calls: list[CallRecord] = []
        head, remarks, reading = "", list[str](), None
        for name in kept.journals:
            reading = JournalReading(self.path / name)
            try:
                for _, record in reading:
                    calls.append(record)
                end = end_of(self.path / name)
                head = anchor_of(end.head, end.chain)
            except (OSError, JournalError) as error:
                head = ""
                remarks.append(f"Not all calls of this chat can be read: {error}.")
        known = {(call.run, call.call) for call in calls}
        calls += (call for call in others if (call.run, call.call) not in known)
        if kept.asked:
            remarks.append(f"This was not answered when the view was closed, ask it again: {kept.asked}")
            sent = () if reading is None else reading.content.unanswered
            if unknown := ", ".join(call.tool_name for call in sent):
                remarks.append(f"Whether these calls were made is unknown: {unknown}.")
        return ToldChat(calls=calls, head=head, remark="\n".join(remarks))

    def _failed(self, what: str, error: Exception) -> FileFailed:
        why = (isinstance(error, OSError) and error.strerror) or f"{type(error).__name__}: {error}"
        return FileFailed(
            f"What was said in this chat cannot be {what}: {self.path}: {why}",
            fix="See that you may write there; if a file is broken, move the folder away",
        )


def _chats() -> Path:
    return user_folder("data") / "knime-mcp" / "chats"


def _made_when(workflow: Path) -> str:
    """When KNIME first saved the workflow, which each later save keeps; "" if its file does not say so."""
    try:
        text = (workflow / "workflow.knime").read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return ""
    found = _MADE_WHEN.search(text)
    return found[1] if found else ""


def _secret() -> bytes:
    """What makes the names: nobody can guess them, and name another chat in a workflow that he gives away."""
    file = _chats() / "secret"
    if not file.is_file():
        file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with whole_file(file, private=True) as new:
            new.write_bytes(secrets.token_bytes(32))
    return file.read_bytes()


def _copied(journal: Path, folder: Path) -> None:
    if journal.is_file() and journal.parent != folder:
        for part in journal_parts(journal).values():
            shutil.copy2(part, folder / part.name)


def _words(entry: ConversationRow) -> tuple[str, str]:
    message = entry.message
    return ("", entry.error or "") if message is None else (message.type, shown_text(message))


def _entry(cells: dict[str, Any]) -> ConversationRow:
    message, error = message_of(cells, cells.get(_LAYOUT.column)), cells.get(ERRORS)
    return ConversationRow(message=message, error=error)
