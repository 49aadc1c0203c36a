"""A conversation with an agent, held by a person whose page asks again and again what is new.

Each answer has two threads: one in which the model is asked and everything is told, and one that stands for
the host's, in which workflows run and the person is asked. So the page is told of calls while the person
decides about another one.
"""

from __future__ import annotations

import threading
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from ...runs.call_values import Allow, Deny, Edit, PlannedCall
from ...types.errors import ArgumentsInvalid, Canceled, MCPError
from ...types.tool import MCPTool
from ..agent_events import Ending, ModelAnswered, RunEnded, TokenUsage
from ..message_content import shown_text
from ..prompter.prompter import HostThread, Prompt
from ..toolbox.approvals import Approvals, called, form_of
from ..toolbox.data_registry import TABLE, DataRegistry
from .chat_page_events import asked_event, page_event, past_events, table_event
from .offered_prompts import filled_in, offered_prompts

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from ...audit.record import CallRecord
    from ...runs.call_values import Ask
    from ..agent_events import AgentEvent
    from ..prompter.conversation_table import ConversationRow
    from ..prompter.prompter import Answered, Prompter
    from .chat_page_events import PageEvent
    from .offered_prompts import OfferedPrompt

LONG_POLL: Final = 0.5
"""Seconds that a page waits for news, at most. Short, as a host may make a page's requests one by one."""

_POLL_SECONDS: Final = 0.1
_LAST_SECONDS: Final = 10.0
_HANDED_ON: Final = "This conversation was handed on. Open the view again to go on with it."
_BUSY: Final = "The last question is still being answered."
_ENDINGS: Final = {
    Ending.LIMIT: "A limit was reached; this answer was given without further calls.",
    Ending.REFUSED: "The model refused.",
}


class ChatSession:
    """One conversation: `entries`. All methods may be called from any thread.

    `prompter` streams, and its approver is the person at the page. Failed and stopped questions do not stay
    in the conversation; what tools have done for them stays done, and on record. `keep` writes down the
    session with the question under way, and raises `FileFailed`; `remark` is told after the `history`.
    """

    def __init__(
        self,
        prompter: Prompter,
        history: Sequence[ConversationRow] = (),
        *,
        keep: Callable[[ChatSession, str], None] | None = None,
        remark: str = "",
    ) -> None:
        self.entries = list(history)
        self._keep_chat = keep
        self.usage = self._usage_before = TokenUsage()
        self._prompter = prompter
        prompter.approver = self._approve
        self._approvals = Approvals()
        self._lengths: list[int] = []  # of the conversation before each question
        self._news = threading.Condition()
        self._events: list[PageEvent] = []
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._question = 0
        self._asked: tuple[int, PlannedCall, Ask] | None = None
        self._verdict: Allow | Deny | Edit | None = None
        if prompter.registry is None:
            prompter.registry = DataRegistry(prompter.data, to_table=prompter.to_table)
        self._registry = prompter.registry
        prompter.links = {}
        self._known_data = self._tables = len(self._registry)
        self._closed = False
        self._prompts: list[OfferedPrompt] = []
        for event in past_events(history):
            self._tell(event)
        if remark:
            self._tell({"kind": "note", "text": remark})

    @property
    def has_begun(self) -> bool:
        """Whether anything was asked."""
        return self._question > 0

    @property
    def is_answering(self) -> bool:
        return self._thread is not None and self._thread.is_alive()

    def ask(self, text: str) -> str | None:
        """Begins to answer a question; the reason if that is not possible now."""
        return self._begin(text.strip(), []) if text.strip() else "There is no question."

    def prompts(self) -> tuple[list[dict[str, Any]], list[str]]:
        """The prompts of the servers, for people, and why some have none."""
        tools = [bound.tool for bound in self._prompter.toolset.bound]
        routes = [tool.route for tool in tools if isinstance(tool, MCPTool)]
        self._prompts, problems = offered_prompts(self._prompter.run, routes)
        return [prompt.shown() for prompt in self._prompts], [str(problem) for problem in problems]

    def ask_prompt(self, number: int, arguments: Mapping[str, str]) -> str | None:
        """Begins to answer a prompt of a server, by its place in `prompts`; the reason if that fails."""
        try:
            begun = filled_in(self._prompter.run, self._prompts[number], arguments)
        except MCPError as error:
            return str(error)
        return self._begin("", begun)

    def _begin(self, text: str, begun: list[ConversationRow]) -> str | None:
        with self._news:
            if self._closed:
                return _HANDED_ON
            if self.is_answering:
                return _BUSY
            said = "\n\n".join(shown_text(entry.message) for entry in begun if entry.message is not None)
            if wrong := self._kept(text or said):
                return wrong
            self._stop.clear()
            self._usage_before = self.usage
            self._question += 1
            self._thread = threading.Thread(target=self._answer, args=(text, begun), name="chat", daemon=True)
            self._tell({"kind": "question", "text": text or said})
            self._thread.start()
        return None

    def stop(self) -> None:
        """Ends the present answer, with its calls."""
        with self._news:
            self._stop.set()
            self._news.notify_all()

    def undo(self) -> str | None:
        """Forgets the last question and its answer; the reason if that is not possible now."""
        with self._news:
            if self.is_answering or not self._lengths:
                return "There is nothing to undo."
            del self.entries[self._lengths.pop() :]
            self._tell({"kind": "undone"})
            return self._kept()

    def start_over(self) -> str | None:
        """Forgets the conversation, also that of earlier views; the reason if that is not possible now."""
        with self._news:
            if self._closed or self.is_answering:
                return _HANDED_ON if self._closed else _BUSY
            self.entries.clear()
            self._lengths.clear()
            self._tell({"kind": "cleared"})
            return self._kept()

    def _kept(self, asked: str = "") -> str | None:
        """Writes the conversation down; returns why that is not possible."""
        if self._keep_chat is None:
            return None
        try:
            self._keep_chat(self, asked)
        except MCPError as error:
            return str(error)
        return None

    def decide(self, number: int, answer: str, text: str = "") -> str | None:
        """What the person says of what was asked: allow, always, deny, dismiss, or edit.

        ``text`` is the reason of a denial, or the other arguments or what was entered, as JSON. Returns what
        is wrong with it.
        """
        with self._news:
            if self._asked is None or self._asked[0] != number:
                return "This is not waiting for you any more."
            _, plan, question = self._asked
            try:
                match answer:
                    case "allow" | "always":
                        self._verdict = self._approvals.allow(plan, always=answer == "always")
                    case "edit":
                        form = form_of(plan) if question.about in ("form", "answer") else None
                        self._verdict = self._approvals.edit(text, form)
                    case "dismiss":
                        self._verdict = self._approvals.dismiss()
                    case _:
                        self._verdict = self._approvals.refuse(text.strip())
            except ArgumentsInvalid as error:
                return str(error)
            self._news.notify_all()
        return None

    def events(self, after: int, seconds: float = LONG_POLL) -> tuple[list[PageEvent], int]:
        """What happened after an event of that number, and the number of the last one."""
        with self._news:
            self._news.wait_for(lambda: len(self._events) > after, timeout=seconds)
            return [event for event in self._events[max(after, 0) :] if event], len(self._events)

    def cost(self) -> dict[str, Any]:
        usage = self.usage
        return {
            "read": usage.input,
            "written": usage.output,
            "unreported": usage.unreported,
            "calls": len(self._prompter.records),
        }

    def tools(self) -> list[dict[str, str]]:
        """The tools that the model may call, for people."""
        found = self._prompter.toolset.bound
        return [
            {"name": bound.shown_name, "server": called(PlannedCall(tool=bound.tool))[1]} for bound in found
        ]

    def records(self) -> list[CallRecord]:
        """The records of all calls, in the order in which they ended."""
        return sorted(self._prompter.records, key=lambda record: record.call)

    def made_tables(self) -> list[tuple[str, Any]]:
        """The tables that tools gave, by name."""
        made = self._registry.items[self._known_data :]
        return [(item.name, item.data) for item in made if item.type == TABLE]

    def close(self) -> str:
        """Ends what is under way, and the conversation; returns what proves its journal."""
        self._closed = True
        self.stop()
        if self._thread is not None:
            self._thread.join(_LAST_SECONDS)
        run = self._prompter.run
        try:
            run.close("complete")
        finally:
            run.pool.close()
        return "" if run.journal is None else run.journal.anchor

    def _answer(self, text: str, begun: list[ConversationRow]) -> None:
        """Answers a question, or what a prompt has begun; this thread stands for the host's."""
        wake, done = threading.Event(), threading.Event()
        host = HostThread(wake.set)
        outcome: list[Answered | BaseException] = []

        def converse() -> None:
            try:
                prompt = Prompt(text=text, history=(*self.entries, *begun))
                outcome.append(
                    self._prompter.ask(prompt, is_canceled=self._stop.is_set, host=host, on_event=self._take)
                )
            except BaseException as error:  # told to the person
                outcome.append(error)
            finally:
                done.set()
                wake.set()

        asking = threading.Thread(target=converse, name="chat-model", daemon=True)
        asking.start()
        while not done.is_set():
            host.run_pending()
            # No further workflow begins.
            if self._stop.is_set():
                host.close()
            wake.wait(_POLL_SECONDS)
            wake.clear()
        host.close()
        asking.join()
        self._prompter.run.records.finish()
        self._end(outcome[0])

    def _end(self, outcome: Answered | BaseException) -> None:
        with self._news:
            match outcome:
                case Canceled():
                    self._tell(
                        {
                            "kind": "stopped",
                            "text": "Stopped. The question is forgotten; what tools have done stays done.",
                        }
                    )
                case MCPError():
                    self._tell({"kind": "error", "text": str(outcome)})
                case BaseException():
                    text = f"Unexpected {type(outcome).__name__}: {outcome}"
                    self._tell({"kind": "error", "text": self._prompter.run.secrets.text(text)})
                case _:
                    self._keep(outcome)
            if wrong := self._kept():
                self._tell({"kind": "note", "text": wrong})

    def _keep(self, answered: Answered) -> None:
        for remark in answered.notes:
            self._tell({"kind": "note", "text": remark})
        if answered.error is not None:
            self._tell({"kind": "error", "text": str(answered.error)})
            return
        if answered.ending is not None and answered.ending in _ENDINGS:
            self._tell({"kind": "note", "text": _ENDINGS[answered.ending]})
        self._lengths.append(len(self.entries))
        self.entries = list(answered.entries)
        self._tell({"kind": "end"})

    def _take(self, event: AgentEvent) -> None:
        if isinstance(event, RunEnded):
            self.usage = self._usage_before + event.usage  # with what servers asked of the model
            return
        shown = page_event(event, self._prompter)
        with self._news:
            if shown is not None:
                if isinstance(event, ModelAnswered):
                    self.usage += event.usage
                    self._forget_pieces(event.iteration)
                self._tell(shown)
                if shown["kind"] == "result":
                    self._tell_of_tables()

    def _forget_pieces(self, turn: int) -> None:
        """A page that comes later needs the whole text only."""
        for number in range(len(self._events) - 1, -1, -1):
            event = self._events[number]
            if event.get("question", self._question) != self._question:
                return
            if event.get("kind") == "delta" and event["turn"] == turn:
                # Emptied and not removed, as pages know events by their number.
                self._events[number] = {}

    def _tell_of_tables(self) -> None:
        for item in self._registry.items[self._tables :]:
            self._tables += 1
            if item.type == TABLE:
                self._tell(table_event(item))

    def _approve(self, plan: PlannedCall, question: Ask) -> Allow | Deny | Edit:
        with self._news:
            if known := self._approvals.already(plan):
                return known
            number = len(self._events)
            # The number of the event names the question: an answer to an earlier one, from a page that lags
            # behind, does not count.
            self._asked, self._verdict = (number, plan, question), None
            self._tell(asked_event(number, plan, question))
            began = time.monotonic()
            verdict = replace(self._decided(question), asked=round(time.monotonic() - began, 3))
            self._asked = None
            self._tell({"kind": "decided", "number": number})
            return verdict

    def _decided(self, question: Ask) -> Allow | Deny | Edit:
        self._news.wait_for(lambda: self._verdict is not None or self._stop.is_set())
        if self._verdict is not None:
            return self._verdict
        is_call = question.about == "call"
        return self._approvals.refuse("the answer was stopped") if is_call else self._approvals.dismiss()

    def _tell(self, event: PageEvent) -> None:
        with self._news:
            self._events.append({"question": self._question, **event})
            self._news.notify_all()
