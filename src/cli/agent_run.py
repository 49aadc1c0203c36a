"""A run of an agent from the command line: its model, its tools, its journal, and its outcome."""

from __future__ import annotations

import json
from contextlib import contextmanager
from dataclasses import replace
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final

from ..agents.agent_events import SYSTEM_MESSAGE, AgentOptions, Ending, TokenUsage
from ..agents.answer_schema import AnswerSchema
from ..agents.chat.offered_prompts import filled_in, offered_prompts
from ..agents.message_content import calls_of, shown_text
from ..agents.model.chat_model import ChatModelSettings, create_model, model_route, more_fields
from ..agents.prompter.conversation_table import ConversationLayout, ConversationRow, MessageForm
from ..agents.prompter.prompter import Prompt, Prompter, PromptRuns
from ..agents.prompter.resuming import FinishedPrompts
from ..agents.toolbox.call_rules import CallLimits, CallRules
from ..agents.toolbox.tool_executor import TOOL_TOKENS, ToolOptions
from ..agents.toolbox.toolset import Toolset
from ..audit.journal import MemoryJournal
from ..runs.resuming import learn_unknown, unknown_calls
from ..runs.server_questions import ServerQuestions
from ..types.texts import canonical_json
from .agent_timeline import AgentTimeline, ChatTimeline
from .asking import PersonAsked
from .command_errors import CommandError, at_terminal
from .connection_options import ConnectionOptions
from .credentials import Credentials
from .files import journal_to_resume, json_record, open_journal
from .named_servers import is_trusted
from .sessions import CommandSessions
from .terminal import can_ask, complain, note

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Mapping, Sequence
    from pathlib import Path

    from ..agents.chat.offered_prompts import OfferedPrompt
    from ..agents.prompter.prompter import Answered
    from ..audit.journal_reading import JournalContent
    from ..types.errors import MCPError
    from ..types.routing import ServerRoute
    from ..types.tool import Tool
    from .agent import AgentSettings

_ABOUT: Final = "knime-mcp agent"
_SAVED: Final = ConversationLayout(form=MessageForm.PLAIN)


class AgentRun:
    """A run of an agent, and its outcome: `answered`, once the question was `asked`."""

    answered: Answered

    def __init__(
        self,
        settings: AgentSettings,
        connection: ConnectionOptions,
        interrupt: Callable[[], bool],
        *,
        streams: bool = False,
        answer_schema: str = "",
        resume: Path | None = None,
    ) -> None:
        self._resume = resume
        self._journal = settings.audit or resume
        self._answer_schema = AnswerSchema.parse(answer_schema)
        self._settings = settings
        self._connection = connection
        self._interrupt = interrupt
        self._timeline = ChatTimeline() if streams else AgentTimeline()
        self._usage = TokenUsage()
        self._runs: PromptRuns
        self._routes: list[ServerRoute] = []
        self._agent: Prompter
        self._finished: FinishedPrompts | None = None

    @property
    def has_form(self) -> bool:
        """Whether the answer is JSON, by a schema."""
        return self._answer_schema is not None

    @contextmanager
    def asked(self, question: str, *, routes: list[ServerRoute]) -> Generator[None]:
        """Asks the question, and shows the run on standard error; the run is complete after the block.

        Who kills it before its answer was told can resume it.
        """
        what = {"kind": "agent", "question": question}
        with self.opened(routes=routes, what=what):
            # `opened` may have filled it in, from the run that is gone on with.
            self.turn(what["question"], self.history)
            yield

    @contextmanager
    def opened(self, *, routes: list[ServerRoute], what: dict[str, Any]) -> Generator[None]:
        """The run with its servers, in which questions can be asked."""
        model, self._routes = _model(self._settings), routes
        questions = ServerQuestions() if can_ask() else None
        with (
            self._timeline as timeline,
            CommandSessions(self._connection, self._interrupt, questions=questions) as sessions,
        ):
            timeline.show("asking the servers for their tools")
            tools = self._tools(sessions, routes)
            sessions.run.records.journal = MemoryJournal()
            prompter = self._agent = self._prompter(model, tools, sessions, routes)
            is_chat = what["kind"] == "chat"
            earlier, finished = (None, None) if is_chat else self._kept(sessions.run.id)
            if not is_chat:
                # Without one in the command, it is that of the interrupted run.
                what["question"] = what["question"] or self._open_question(finished)
            open_journal(
                self._journal,
                sessions.run,
                about="knime-mcp chat" if is_chat else self._about,
                what={**what, **prompter.described()},
                after=None if earlier is None else earlier.chain,
            )
            if earlier is not None:
                learn_unknown(unknown_calls(earlier), sessions.run)
            self._finished = finished
            timeline.hide()
            yield
            has_failed = not is_chat and self.answered.error is not None
            sessions.run.close("failed" if has_failed else "complete")
            if finished is not None and not has_failed:
                finished.forget()

    def turn(self, question: str, history: Sequence[ConversationRow]) -> None:
        """Asks a question that goes on with a conversation; raises `Canceled`."""
        self._timeline.show("the model reads the question")
        self._runs = PromptRuns(prompter=self._agent, keep_errors=True, finished=self._finished)
        prompt = Prompt(text=question, history=tuple(history))
        try:
            self._runs.run([prompt], is_canceled=self._interrupt, on_event=self._timeline)
        finally:
            self._timeline.hide()
        assert self._runs.first is not None
        self.answered = self._runs.first
        self._usage += self.answered.timeline.usage

    @property
    def history(self) -> list[ConversationRow]:
        """The conversation that the settings name."""
        if self._settings.history is None:
            return []
        from ..agents.prompter.conversation_table import message_of

        file = self._settings.history
        try:
            rows = json.loads(file.read_text(encoding="utf-8"))
            return [ConversationRow(message=message_of(row, row[_SAVED.column])) for row in rows]
        except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
            raise CommandError(f"{file} is no conversation that chat has saved ({error}).") from None

    def save(self, file: Path, conversation: Sequence[ConversationRow]) -> None:
        """Writes a conversation, with its secrets marked as in the records."""
        rows = [_SAVED.cells(entry) for entry in conversation]
        try:
            file.write_text(json.dumps(rows, indent=1, ensure_ascii=False), encoding="utf-8")
        except OSError as error:
            complain(f"{file} cannot be written: {error.strerror or error}.")
        else:
            note(f"{len(rows)} messages are in {file}.")

    @property
    def tool_names(self) -> list[str]:
        return [bound.shown_name for bound in self._agent.toolset.bound]

    def prompts(self) -> tuple[list[OfferedPrompt], list[MCPError]]:
        """The prompts that the servers offer, and why some could not be asked."""
        return offered_prompts(self._agent.run, self._routes)

    def filled_in(self, prompt: OfferedPrompt, arguments: Mapping[str, str]) -> list[ConversationRow]:
        """The messages of a prompt; raises `MCPError`."""
        return filled_in(self._agent.run, prompt, arguments)

    def cost(self) -> str:
        usage, calls = self._usage, len(self._agent.records)
        return f"{usage.input:,} tokens read, {usage.output:,} written; {calls} tool calls."

    def _kept(self, run: str) -> tuple[JournalContent | None, FinishedPrompts | None]:
        """The journal to go on from, and what is beside it and the present one; None without a journal."""
        journal, resume = self._journal, self._resume
        if journal is None or (journal.exists() and not journal.is_file()):  # nothing stands beside a device
            return None, None
        earlier = None if resume is None else journal_to_resume(resume)
        if earlier is not None and earlier.outcome == "complete":  # asked again, it would do everything twice
            raise CommandError(f"The run in {resume} is complete: there is nothing to go on with.")
        if earlier is not None and earlier.about.startswith(_ABOUT) and earlier.about != self._about:
            raise CommandError(
                f"The answer of the run in {resume} was to have another form. Give the same --answer-schema"
                " (or none, if it had none), or ask anew, with --audit and another file."
            )
        return earlier, FinishedPrompts(journal, run, earlier, in_one_file=True)

    @property
    def _about(self) -> str:
        """Tells runs apart whose answers differ in form: one must not be told as that of the other."""
        if self._answer_schema is None:
            return _ABOUT
        form = sha256(canonical_json(self._answer_schema.schema).encode()).hexdigest()[:16]
        return f"{_ABOUT}, answer in the form {form}"

    def _open_question(self, finished: FinishedPrompts | None) -> str:
        text = None if finished is None else finished.open_question()
        if text is None:
            raise CommandError(
                f"{self._resume} has not exactly one question without an answer. Write the question"
                " in quotes after the command."
            )
        return text

    def warnings(self) -> list[str]:
        return self._runs.warnings()

    def page(self) -> str:
        """The run as an HTML page."""
        from ..agents.timeline_page import timeline_page

        model = f"{self._agent.model.name} at {self._agent.model.server}"
        audit = self._journal
        facts = (("Model", model), ("Journal", None if audit is None else str(audit)))
        return timeline_page(
            self._runs.timelines, title="knime-mcp agent", warning=self._runs.warning(), facts=facts
        )

    def as_json(self) -> dict[str, Any]:
        answered, timeline = self.answered, self.answered.timeline
        usage = timeline.usage
        records = sorted(self._runs.prompter.records, key=lambda record: record.call)
        return {
            "answer": answered.text if answered.error is None else None,
            **self._structured(),
            "ending": "error" if answered.ending is None else answered.ending.value,
            "error": None if answered.error is None else at_terminal(answered.error),
            "iterations": len(timeline.turns),
            "input_tokens": usage.input if usage.turns else None,
            "output_tokens": usage.output if usage.turns else None,
            "seconds": round(timeline.seconds, 6),
            "notes": list(map(at_terminal, answered.notes)),
            "conversation": [_entry_json(entry) for entry in answered.entries],
            "calls": [json_record(record) for record in records],
        }

    def _structured(self) -> dict[str, Any]:
        """The answer as a JSON value, where it has a form."""
        if self._answer_schema is None:
            return {}
        has_form = self.answered.ending in (Ending.ANSWER, Ending.LIMIT)
        return {"structured_answer": json.loads(self.answered.text) if has_form else None}

    def _tools(self, sessions: CommandSessions, routes: list[ServerRoute]) -> list[Tool]:
        """The tools of all servers that can be reached; a server that fails does not end the run."""
        if not routes:
            return []
        provision = sessions.provide(routes, include=self._settings.include)
        failed = [outcome.error for outcome in provision.failed if outcome.error is not None]
        # Without any tool the model could only guess.
        if len(failed) == len(routes):
            raise failed[0]
        for error in failed:
            complain(f"{at_terminal(error)} Going on without this server.")
        return [tool.tool for tool in provision.tools]

    def _prompter(
        self,
        model: Any,
        tools: Sequence[Tool],
        sessions: CommandSessions,
        routes: list[ServerRoute],
    ) -> Prompter:
        settings = self._settings
        run = sessions.run_for(routes, settings.save_dir)
        run.secrets.learn(model.secrets)
        rules = CallRules.parse("\n".join(settings.rule or ()), ",".join(settings.trust or ()))
        named = {url: config.name for url, config in self._connection.named.items()}
        trusted = (url for url, name in named.items() if is_trusted(name))
        rules = replace(rules, trusted=(*rules.trusted, *trusted))
        return Prompter(
            model=model,
            toolset=Toolset(tools),
            run=run,
            options=self._options(),
            tool_options=ToolOptions(
                rules=rules, search_above=TOOL_TOKENS, limits=CallLimits.parse(settings.max_calls)
            ),
            system_message=SYSTEM_MESSAGE if settings.system is None else settings.system,
            approver=PersonAsked(self._interrupt, self._timeline.hide, rules, named) if can_ask() else None,
            questions=sessions.questions,
            links={},
        )

    def _options(self) -> AgentOptions:
        return AgentOptions(
            token_limit=self._settings.max_tokens,
            iteration_limit=self._settings.max_iterations,
            answer_at_limit=True,
            answer_schema=self._answer_schema,
            total_timeout=self._settings.time_limit,
            longest_wait=self._settings.longest_wait,
            stream=True,
        )


def _model(settings: AgentSettings) -> Any:
    name = settings.api_key or settings.api_key_env
    chat_model = ChatModelSettings(
        route=model_route(settings.model_url, model=settings.model, credential=name),
        model=settings.model,
        temperature=settings.temperature,
        token_limit=settings.token_limit,
        timeout=settings.model_timeout,
        more=more_fields(settings.request_fields),
    )
    return create_model(chat_model, Credentials(ConnectionOptions(bearer_env=settings.api_key_env))(name))


def _entry_json(entry: ConversationRow) -> dict[str, Any]:
    from langchain_core.messages import AIMessage, ToolMessage

    message = entry.message
    if message is None:
        return {"role": "error", "text": entry.error}
    members: dict[str, Any] = {"role": "user", "text": shown_text(message)}
    match message:
        case AIMessage():
            calls = calls_of(message)
            members |= {"role": "ai"} | ({"tool_calls": calls} if calls else {})
        case ToolMessage():
            members |= {"role": "tool", "tool": message.name, "tool_call_id": message.tool_call_id}
        case _:
            pass
    return members
