"""What the chat's page calls, and what KNIME takes from it when the node is executed again.

KNIME lets a page call every attribute of the service by its name, so there is nothing here that a page must
not do. A view can make tables, but no file stores, in which tool cells are: only ``execute`` can.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from ...audit.calls_table import calls_table, records_of
from ...types.errors import MCPError
from ...types.texts import shortened
from ..base import to_table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ...audit.record import CallRecord
    from ..prompter.conversation_table import ConversationLayout
    from .chat_session import ChatSession
    from .kept_chat import KeptChat

_LONGEST_PROBLEM: Final = 2000


@dataclass(frozen=True, slots=True, kw_only=True)
class HandedOn:
    """What chats hand on: the conversation, the calls, tables of tools by name, and where the journal is.

    `head` is what proves the journal, empty without one; `problem` is why it could not be closed. `chat`
    names the folder in which the chat is kept.
    """

    conversation: Any
    calls: Sequence[CallRecord]
    tables: tuple[tuple[str, Any], ...] = ()
    journal: str = ""
    head: str = ""
    problem: str = ""
    chat: str = ""

    @classmethod
    def read(cls, view_data: Any) -> HandedOn:
        """Reads view data as KNIME gives them back."""
        conversation, calls, *tables = view_data["ports"]
        data = view_data["data"]
        named = tuple(zip(data["tables"], tables, strict=True))
        return cls(
            conversation=conversation,
            calls=records_of(calls.to_pyarrow()),
            tables=named,
            journal=data["journal"],
            head=data["head"],
            problem=data["problem"],
            chat=data["chat"],
        )

    def view_data(self) -> dict[str, Any]:
        """In KNIME's form. KNIME writes the data as one text of at most 64 KB; the tables have no limit."""
        names = [name for name, _ in self.tables]
        about = {"head": self.head, "problem": self.problem, "chat": self.chat}
        data = {"journal": self.journal, "tables": names, **about}
        ports = [self.conversation, to_table(calls_table(self.calls)), *(table for _, table in self.tables)]
        return {"data": data, "ports": ports, "portIds": []}


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatService:
    """The service of a view.

    Attributes:
        session: The conversation; None if there can be none.
        problem: The reason why there can be none.
        shown: What the page is told at its start.
        before: What was said before this service, and the tables of then.
        calls: The calls of then.
    """

    session: ChatSession | None
    problem: str = ""
    layout: ConversationLayout
    before: KeptChat
    calls: Sequence[CallRecord] = ()
    journal: str = ""
    chat: str = ""
    shown: dict[str, Any] = field(default_factory=dict[str, Any])

    def start(self) -> dict[str, Any]:
        """What the page shows before anybody says anything."""
        tools = [] if self.session is None else self.session.tools()
        return {**self.shown, "problem": self.problem, "tools": tools}

    def poll(self, after: int) -> dict[str, Any]:
        """What is new since the event of that number; waits a moment if nothing is."""
        session = self.session
        if session is None:
            return {"events": [], "last": after, "busy": False, "cost": None}
        events, last = session.events(int(after))
        return {"events": events, "last": last, "busy": session.is_answering, "cost": session.cost()}

    def ask(self, text: str) -> str | None:
        """Asks a question; returns why that is not possible."""
        return self.problem if self.session is None else self.session.ask(str(text))

    def prompts(self) -> dict[str, Any]:
        """What the servers offer to begin with, and why some offer nothing."""
        prompts, problems = ([], [self.problem]) if self.session is None else self.session.prompts()
        return {"prompts": prompts, "problems": problems}

    def ask_prompt(self, number: int, arguments: dict[str, str]) -> str | None:
        """Asks a prompt, by its place in the list; returns why that is not possible."""
        if self.session is None:
            return self.problem
        return self.session.ask_prompt(int(number), {str(name): str(arguments[name]) for name in arguments})

    def stop(self) -> None:
        if self.session is not None:
            self.session.stop()

    def undo(self) -> str | None:
        return self.problem if self.session is None else self.session.undo()

    def start_over(self) -> str | None:
        """Forgets the conversation; returns why that is not possible."""
        return self.problem if self.session is None else self.session.start_over()

    def decide(self, number: int, answer: str, text: str = "") -> str | None:
        if self.session is None:
            return self.problem
        return self.session.decide(int(number), str(answer), str(text))

    def get_view_data(self) -> dict[str, Any]:
        """Ends the conversation here and hands it on; called by KNIME."""
        session, head, problem = self.session, "", ""
        # First, as the conversation may still change until it is closed.
        try:
            head = "" if session is None else session.close()
        # KNIME loses the conversation if this raises, and says nothing of it.
        except (OSError, ValueError, MCPError) as error:
            problem = shortened(str(error), _LONGEST_PROBLEM)
        entries = self.before.entries if session is None else session.entries
        calls = [] if session is None else session.records()
        made = [] if session is None else session.made_tables()
        return HandedOn(
            conversation=to_table(self.layout.table(entries)),
            calls=(*self.calls, *calls),
            tables=tuple((name, hosts_table(data)) for name, data in (*self.before.tables, *made)),
            journal=self.journal if session is not None and session.has_begun else "",
            head=head,
            problem=problem,
            chat=self.chat,
        ).view_data()


def hosts_table(data: Any) -> Any:
    """A table of KNIME of one of Arrow."""
    return to_table(data) if isinstance(data, pa.Table) else data
