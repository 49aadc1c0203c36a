"""A run of an agent from the command line: its model, tools and journal, what is shown, and what comes of it.

Each turn and each call is told on standard error as it happens; before a call that a rule wants asked about,
whoever sits at the terminal is asked.
"""

from __future__ import annotations

import json
import sys
import time
from contextlib import contextmanager
from dataclasses import replace
from hashlib import sha256
from shlex import quote
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from ..agents.agent_events import (
    SYSTEM_MESSAGE,
    AgentOptions,
    Ending,
    ModelAnswered,
    ModelRetried,
    TextDelta,
    TokenUsage,
    ToolFinished,
    ToolStarted,
)
from ..agents.answer_schema import AnswerSchema
from ..agents.chat.offered_prompts import offered_prompts
from ..agents.message_content import calls_of, shown_text
from ..agents.model.chat_model import ChatModelSettings, create_model, model_route, more_fields
from ..agents.prompter.conversation_table import ConversationLayout, ConversationRow, MessageForm
from ..agents.prompter.prompter import Prompt, Prompter, PromptRuns
from ..agents.prompter.resuming import FinishedPrompts
from ..agents.timeline import arguments_line, duration_text, kind_of, status_of_call, tokens_text
from ..agents.toolbox.approvals import Approvals, called, checked_form, form_fields, form_of
from ..agents.toolbox.call_rules import CallLimits, CallRule, CallRules
from ..agents.toolbox.tool_executor import TOOL_TOKENS, ToolOptions
from ..agents.toolbox.toolset import Toolset
from ..audit.journal import MemoryJournal
from ..runs.call_values import Deny
from ..runs.resuming import learn_unknown, unknown_calls
from ..runs.server_questions import ServerQuestions
from ..types.errors import ArgumentsInvalid
from ..types.texts import canonical_json
from ..types.tool import MCPTool, WorkflowTool
from .command_errors import CommandError, at_terminal
from .connection_options import ConnectionOptions
from .files import journal_to_resume, json_record, open_journal
from .named_servers import is_trusted
from .sessions import CommandSessions, Credentials
from .terminal import (
    StatusLine,
    asked,
    can_ask,
    complain,
    entered,
    err,
    is_terminal,
    note,
    one_line,
    plain,
    print_markdown,
    visible,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Mapping, Sequence
    from pathlib import Path

    from ..agents.agent_events import AgentEvent
    from ..agents.chat.offered_prompts import OfferedPrompt
    from ..agents.prompter.prompter import Answered
    from ..agents.toolbox.approvals import FormField
    from ..audit.journal_reading import JournalContent
    from ..runs.call_values import Allow, Ask, Edit, PlannedCall
    from ..types.errors import MCPError
    from ..types.routing import ServerRoute
    from ..types.tool import Tool
    from .agent import AgentSettings


_ABOUT: Final = "knime-mcp agent"
_SAVED: Final = ConversationLayout(form=MessageForm.PLAIN)


class AgentRun:
    """A run of an agent, and its outcome: `answered`, once the question was `asked`.

    Attributes:
        answer_schema: The form of the answer; None if it has none.
        agent: What answers, once the run is `opened`.
        runs: What came of the last question.
    """

    answered: Answered
    agent: Prompter
    runs: PromptRuns

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
        self.answer_schema = AnswerSchema.parse(answer_schema)
        self._settings = settings
        self._connection = connection
        self._interrupt = interrupt
        self._timeline = ChatTimeline() if streams else AgentTimeline()
        self._usage = TokenUsage()
        self._routes: list[ServerRoute] = []
        self._finished: FinishedPrompts | None = None

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
            prompter = self.agent = self._prompter(model, tools, sessions, routes)
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
        self.runs = PromptRuns(prompter=self.agent, keep_errors=True, finished=self._finished)
        prompt = Prompt(text=question, history=tuple(history))
        try:
            self.runs.run([prompt], is_canceled=self._interrupt, on_event=self._timeline)
        finally:
            self._timeline.hide()
        assert self.runs.first is not None
        self.answered = self.runs.first
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

    def prompts(self) -> tuple[list[OfferedPrompt], list[MCPError]]:
        """The prompts that the servers offer, and why some could not be asked."""
        return offered_prompts(self.agent.run, self._routes)

    def cost(self) -> str:
        usage, calls = self._usage, len(self.agent.records)
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
        if self.answer_schema is None:
            return _ABOUT
        form = sha256(canonical_json(self.answer_schema.schema).encode()).hexdigest()[:16]
        return f"{_ABOUT}, answer in the form {form}"

    def _open_question(self, finished: FinishedPrompts | None) -> str:
        text = None if finished is None else finished.open_question()
        if text is None:
            raise CommandError(
                f"{self._resume} has not exactly one question without an answer. Write the question"
                " in quotes after the command."
            )
        return text

    def page(self) -> str:
        """The run as an HTML page."""
        from ..agents.timeline_page import timeline_page

        model = f"{self.agent.model.name} at {self.agent.model.server}"
        audit = self._journal
        facts = (("Model", model), ("Journal", None if audit is None else str(audit)))
        return timeline_page(
            self.runs.timelines, title="knime-mcp agent", warning=self.runs.warning(), facts=facts
        )

    def as_json(self) -> dict[str, Any]:
        answered, timeline = self.answered, self.answered.timeline
        usage = timeline.usage
        records = sorted(self.runs.prompter.records, key=lambda record: record.call)
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
        if self.answer_schema is None:
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
            answer_schema=self.answer_schema,
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


_STYLES = {"good": "green", "warning": "yellow", "bad": "bold red"}
_SHOWN_RESULT = 100


class AgentTimeline(StatusLine):
    """Shows the events of an agent's run.

    Finished turns and calls are lines; a terminal also has one changing line with the running tools and the
    text that the model is writing.
    """

    def __init__(self) -> None:
        super().__init__()
        self._running: dict[str, str] = {}
        self._text = ""

    def __call__(self, event: AgentEvent) -> None:
        match event:
            case TextDelta(text=text):
                self._text += text
                self.show(self._text[-400:].replace("\n", " ")[-80:])
            case ModelRetried(iteration=iteration, reason=reason, wait=wait):
                # What came before the attempt failed is not part of the answer.
                self._text = ""
                self._line((f"Turn {iteration}: the model again in {wait:.1f} s. {reason}", "yellow"))
            case ModelAnswered():
                self._turn(event)
            case ToolStarted(request=request, shown_name=name):
                self._running[request.id] = name
                self.show(", ".join(self._running.values()))
            case ToolFinished():
                self._running.pop(event.reply.request.id, None)
                self._call(event)
                self.show(", ".join(self._running.values()) or "the model reads the results")
            case _:
                pass

    def _turn(self, turn: ModelAnswered) -> None:
        self._text = ""
        parts = [duration_text(turn.duration), tokens_text(turn.usage)]
        self._line(
            (f"Turn {turn.iteration}", "bold"), (f" · {' · '.join(part for part in parts if part)}", "dim")
        )
        if turn.message.tool_calls and (text := shown_text(turn.message)):
            self._line((f"  {one_line(text, 300)}", "italic"))

    def _call(self, call: ToolFinished) -> None:
        record = call.reply.record
        kind = kind_of(call.reply.tool, recorded=record is not None, unfinished=call.reply.unfinished)
        status, meaning = status_of_call(call)
        self._line(
            (f"  {kind.glyph} {kind.word:8} ", "cyan"),
            (call.shown_name or call.reply.request.name or "(no name)", "bold"),
            (f" {status}", _STYLES[meaning]),
            (f" · {duration_text(call.duration)} · {arguments_line(call)}", "dim"),
        )
        error = record.error if record is not None and record.error else None
        if error is not None:
            self._line((f"    {one_line(error, 300)}", "red"))
        elif record is not None and record.result:
            self._line((f"    → {one_line(record.result, _SHOWN_RESULT)}", "dim"))

    def _line(self, *parts: tuple[str, str]) -> None:
        from rich.text import Text

        line = Text()
        for text, style in parts:
            line.append(visible(text), style=style)
        err().print(line)


class ChatTimeline(AgentTimeline):
    """The same in a chat, where what the model writes stands on standard output as it is written.

    On a terminal that is paragraph by paragraph, as Markdown is meant to look.
    """

    def __init__(self) -> None:
        super().__init__()
        self._is_written = False
        self._unfinished = ""  # what is not yet a paragraph

    def __call__(self, event: AgentEvent) -> None:
        match event:
            case TextDelta(text=text) if is_terminal(sys.stdout):
                self._is_written = True
                whole, self._unfinished = paragraphs(self._unfinished + text)
                self._write(whole)
                super().__call__(event)
            case TextDelta(text=text):
                print(visible(text), end="", flush=True)
                self._is_written = True
            case ModelAnswered(message=message):
                if not self._is_written and (text := shown_text(message)):
                    self._unfinished = text
                    self._is_written = True
                self._end_line()
                super().__call__(event)
            case _:
                self._end_line()
                super().__call__(event)

    def _write(self, text: str) -> None:
        if text:
            self.hide()
            print_markdown(text)

    def _end_line(self) -> None:
        if self._is_written and not is_terminal(sys.stdout):
            print(visible(self._unfinished), flush=True)
        elif self._is_written:
            self._write(self._unfinished)
        self._unfinished, self._is_written = "", False


def paragraphs(text: str) -> tuple[str, str]:
    """Divides Markdown behind its last whole paragraph; a block of code is whole with its end."""
    end, place, fence = 0, 0, ""
    for line in text.splitlines(keepends=True):
        place += len(line)
        mark = line.strip()[:3]
        if mark in ("```", "~~~"):
            fence = "" if mark == fence else fence or mark
        elif not line.strip() and line.endswith("\n") and not fence:
            end = place
    return text[:end].rstrip(), text[end:]


class PersonAsked:
    """Shows a call and reads what the person wants: an `Approver`. `hide` clears a line that changes.

    ``named`` has the names of servers by their URLs.
    """

    def __init__(
        self,
        is_stopped: Callable[[], bool],
        hide: Callable[[], None],
        rules: CallRules,
        named: Mapping[str, str],
    ) -> None:
        self._named = named
        self._is_stopped = is_stopped
        self._hide = hide
        self._rules = rules
        self._approvals = Approvals()

    def __call__(self, plan: PlannedCall, question: Ask) -> Allow | Deny | Edit:
        if known := self._approvals.already(plan):
            return known
        self._hide()
        began = time.monotonic()
        verdict = self._decided(plan, question)
        return replace(verdict, asked=round(time.monotonic() - began, 3))

    def _decided(self, plan: PlannedCall, question: Ask) -> Allow | Deny | Edit:
        name, server = called(plan)
        match question.about:
            case "form" if (fields := form_fields(form_of(plan))) is not None:
                return self._filled_in(plan, fields, f"{server} asks: {question.why}")
            case "page":
                return self._opened(plan, f"{server} asks: {question.why}")
            case "call":
                asks = f"May {name} be called, of {server}?"
            case "answer":
                asks = f"May {server} get this answer of your model?"
            case _:
                asks = f"{server} asks: {question.why} ({name})"
        arguments = json.dumps(dict(plan.arguments or {}), indent=2, ensure_ascii=False)
        text = f"{asks}\n{self._why(plan, question)}\n{arguments}"
        while True:
            answer = asked(text, "yes", "all", "no", "edit", is_stopped=self._is_stopped)
            match "" if answer is None else answer.word:
                case "yes":
                    return self._approvals.allow(plan)
                case "all" if self._allows_all(plan, question):
                    return self._approvals.allow(plan, always=True)
                case "all":
                    text = f"So not all. {asks}"
                case "edit" if (edited := self._edited(plan, question)) is not None:
                    return edited
                case "edit":
                    text = asks
                case "no" if answer is not None:
                    return self._approvals.refuse(answer.reason)
                case _:
                    return self._unanswered()

    def _allows_all(self, plan: PlannedCall, question: Ask) -> bool:
        name, server = called(plan)
        if question.about == "call":
            what = f"all further calls of {name}, of {server}, are made, whatever their arguments"
        else:
            what = f"{server} gets whatever it wants with {name}, and you do not see it before"
        answer = asked(
            f"Until this conversation ends {what}, and you are not asked. Is that what you want?",
            *("yes", "no"),
            is_stopped=self._is_stopped,
        )
        return answer is not None and answer.word == "yes"

    def _why(self, plan: PlannedCall, question: Ask) -> str:
        """Why the person is asked, and what to write so as not to be asked."""
        assert plan.tool is not None
        name, server = called(plan)
        is_workflow = isinstance(plan.tool, WorkflowTool)
        about = CallRule(verb="allow", name=name, server=None if is_workflow else server)
        if question.about != "call":
            rule = replace(about, verb="deny")
            return (
                f"A server may not do this unasked. To refuse without a question: --rule {quote(str(rule))}"
            )
        said = f"You are asked because of the {question.why}; {self._rules.known_of(plan.tool)}."
        instead = f"Not to be asked, put this before other rules: --rule {quote(str(about))}"
        return "\n".join(filter(None, (said, self._how_to_trust(plan.tool), instead)))

    def _how_to_trust(self, tool: Tool) -> str:
        """Where a server that is not trusted says that the tool only reads, how to believe it."""
        if not isinstance(tool, MCPTool) or self._rules.trusts(tool.route.url):
            return ""
        if (tool.annotations or {}).get("readOnlyHint") is not True:
            return ""
        url = tool.route.url
        host = urlsplit(url).netloc or url
        how = f"knime-mcp config trust {self._named[url]}" if url in self._named else f"--trust {quote(host)}"
        return f"The server says that this tool only reads. To believe what it says, and not be asked: {how}"

    def _unanswered(self) -> Deny:
        why = "the answer was stopped" if self._is_stopped() else "the input has ended"
        return self._approvals.unanswered(why)

    def _opened(self, plan: PlannedCall, why: str) -> Allow | Deny:
        text = f"{why}\n{(plan.arguments or {})['url']}\nOpen it only if you trust it."
        answer = asked(text, "done", "no", "later", is_stopped=self._is_stopped)
        match "" if answer is None else answer.word:
            case "done":
                return self._approvals.allow(plan)
            case "no" if answer is not None:
                return self._approvals.refuse(answer.reason)
            case _:
                return self._approvals.dismiss()

    def _filled_in(self, plan: PlannedCall, fields: Sequence[FormField], why: str) -> Deny | Edit:
        self._say(f"{why}\n/decline answers nothing, /cancel leaves it; Enter takes what is in brackets.")
        form = form_of(plan)
        content: dict[str, Any] = {}
        for form_field in fields:
            entered = self._entered(form, form_field)
            if isinstance(entered, Deny):
                return entered
            content |= entered
        return self._approvals.edit(json.dumps(content), form)

    def _entered(self, form: Mapping[str, Any], form_field: FormField) -> dict[str, Any] | Deny:
        """The value of a field under its name, nothing for one that is left out, or no answer at all."""
        required = [form_field.name] if form_field.is_required else []
        # Each field is checked as it is typed, not all of them at the end.
        alone = {"type": "object", "properties": {form_field.name: form["properties"][form_field.name]}}
        while True:
            typed = self._read(_prompt(form_field))
            match text := "/cancel" if typed is None else typed:
                case "/decline":
                    return self._approvals.refuse()
                case "/cancel":
                    return self._approvals.dismiss()
                case _:
                    value = form_field.value_of(text) if text else form_field.default
            try:
                content = {} if value is None else {form_field.name: value}
                return checked_form({**alone, "required": required}, content)
            except ArgumentsInvalid as error:
                self._say(str(error))

    def _edited(self, plan: PlannedCall, question: Ask) -> Edit | None:
        form = form_of(plan) if question.about == "answer" else None
        try:
            return self._approvals.edit(self._read("The arguments, as one line of JSON: ") or "", form)
        except ArgumentsInvalid as error:
            self._say(str(error))
            return None

    def _read(self, prompt: str) -> str | None:
        """A line; None at the end of the input, or if the turn is stopped."""
        return entered(prompt, self._is_stopped)

    def _say(self, text: str) -> None:
        err().print(plain(text))


def _prompt(form_field: FormField) -> str:
    parts = [form_field.label, f" ({form_field.hint})" if form_field.hint else ""]
    parts += [f"\n  {number} {title}" for number, (_, title) in enumerate(form_field.choices, 1)]
    parts += ["\n  numbers, with commas" if form_field.kind == "choices" else ""]
    parts += [" yes/no" if form_field.kind == "boolean" else ""]
    default = form_field.default
    known = json.dumps(default, ensure_ascii=False) if default is not None else ""
    return f"{''.join(parts)} [{known}{'' if form_field.is_required or known else 'nothing'}]: "
