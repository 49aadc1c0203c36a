"""``knime-mcp chat``: a conversation with a model that may call tools, and asks before it does."""

from __future__ import annotations

import shlex
import signal
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final, NoReturn

from ..system import edit_typed_lines
from ..types.errors import Canceled, MCPError
from .agent import AgentSettings, checked_settings
from .command_errors import ExitCode, Interrupt, at_terminal, reports_errors
from .connection_options import ConnectionOptions
from .shared_options import ServersOption, takes
from .terminal import complain, is_terminal, note, one_line, visible

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import FrameType

    from ..agents.prompter.conversation_table import ConversationRow
    from .agent_run import AgentRun

_ASK: Final = "ask * if not read-only"
_HELP: Final = """/tools      the tools that the model may call
/prompts    the prompts of the servers; /prompts NAME KEY=VALUE … asks one
/cost       what was spent so far
/undo       forgets the last question and its answer
/save FILE  writes the conversation, for --history
/exit       ends, like Ctrl-D; Ctrl-C stops an answer
Several pasted lines are one message."""


class _Stop:
    """Whether the person wants to stop the turn that is under way."""

    turn: Interrupt | None = None
    ends = False  # on SIGTERM the whole chat ends

    def __call__(self) -> bool:
        return self.turn is not None and self.turn()


@reports_errors
@takes(ConnectionOptions, "connection", seldom=True)
@takes(AgentSettings, "settings")
def chat(
    server: ServersOption = None,
    *,
    settings: AgentSettings,
    connection: ConnectionOptions,
) -> ExitCode:
    """Talk to a model that may call tools.

    Before each call that no rule decides about you are asked, unless a server that you trust says that the
    tool only reads. A paste is one message. /help lists what else can be typed. The exit code is 0.

    Example: knime-mcp chat --server shop --model qwen3 --model-url http://localhost:11434/v1
    """
    settings = checked_settings(settings)
    settings = replace(settings, rule=[*(settings.rule or ()), _ASK])
    routes = connection.routes(server or []) if server or connection.servers else []
    from .agent_run import AgentRun

    stop = _Stop()
    run = AgentRun(settings, connection, stop, streams=True)
    with Interrupt() as stop.turn, run.opened(routes=routes, what={"kind": "chat"}):
        stop.turn.__exit__(None, None, None)  # from here on, Ctrl-C stops a turn
        note(f"{len(run.agent.toolset.bound)} tools. /help says what can be typed.")
        _talk(run, stop, list(run.history))
    return ExitCode.OK


def _talk(run: AgentRun, stop: _Stop, conversation: list[ConversationRow]) -> None:
    lengths: list[int] = []  # of the conversation before each question
    while not stop.ends and (line := _line()) is not None:
        text = line.strip()
        # Several lines are a paste, which is a message whatever it begins with.
        command, _, rest = ("", "", "") if "\n" in text else text.partition(" ")
        match command:
            case "" if not text:
                pass
            case "/exit" | "/quit":
                return
            case "/help":
                note(_HELP)
            case "/tools":
                names = (bound.shown_name for bound in run.agent.toolset.bound)
                note("\n".join(names) or "There are no tools.")
            case "/cost":
                note(run.cost())
            case "/prompts" if rest.strip():
                if begun := _prompt(run, rest):
                    lengths.append(len(conversation))
                    conversation[:] = _turn(run, stop, "", conversation, begun)
            case "/prompts":
                _show_prompts(run)
            case "/undo" if lengths:
                del conversation[lengths.pop() :]
                note("Forgotten. What tools have done stays done.")
            case "/undo":
                note("There is nothing to undo.")
            case "/save" if rest.strip():
                run.save(Path(rest.strip()), conversation)
            case _ if command.startswith("/"):
                note(f"There is no {command}.\n{_HELP}")
            case _:
                lengths.append(len(conversation))
                conversation[:] = _turn(run, stop, text, conversation)


def _show_prompts(run: AgentRun) -> None:
    offered, problems = run.prompts()
    for problem in problems:
        complain(at_terminal(problem))
    lines = [f"{prompt.usage}  {one_line(prompt.definition.description)}".rstrip() for prompt in offered]
    note("\n".join(lines) or "There are no prompts.")


def _prompt(run: AgentRun, typed: str) -> list[ConversationRow]:
    """The messages of a prompt that is typed with its arguments; asks for those that are missing."""
    try:
        name, *pairs = shlex.split(typed)
        # A word without = is a ValueError, like a quote that is not closed.
        given = dict(pair.split("=", 1) for pair in pairs)
    except ValueError:
        complain("Write the prompt's name, and its arguments as KEY=VALUE.")
        return []
    offered, problems = run.prompts()
    prompt = next((prompt for prompt in offered if prompt.definition.name == name), None)
    if prompt is None:
        complain(" ".join([f"There is no prompt {name}. /prompts lists them.", *map(str, problems)]))
        return []
    try:
        from ..agents.chat.offered_prompts import filled_in

        for missing in prompt.missing(given):
            if not (value := _line(f"{missing}: ")):
                return []
            given[missing] = value
        return filled_in(run.agent.run, prompt, given)
    except MCPError as error:
        complain(at_terminal(error))
        return []


def _turn(
    run: AgentRun,
    stop: _Stop,
    question: str,
    conversation: list[ConversationRow],
    begun: Sequence[ConversationRow] = (),
) -> list[ConversationRow]:
    try:
        with Interrupt() as stop.turn:
            run.turn(question, [*conversation, *begun])
    except Canceled:
        note("Stopped. The question is forgotten; what tools have done stays done.")
        # As it was before the question: a turn with calls and no answer would confuse the model.
        return conversation
    finally:
        stop.ends = stop.turn is not None and stop.turn.number == signal.SIGTERM
        stop.turn = None
    answered = run.answered
    if answered.error is not None:
        complain(at_terminal(answered.error))
        return conversation
    for remark in answered.notes:
        note(at_terminal(remark))
    return list(answered.entries)


def _line(before: str = "> ") -> str | None:
    """The next line that is typed; None at the end, or on SIGTERM."""
    if is_terminal(sys.stdin):
        edit_typed_lines()
    handler = signal.signal(signal.SIGTERM, _end)
    try:
        while True:
            try:
                return input(visible(before))
            except KeyboardInterrupt:
                print()  # the line is dropped
    except EOFError:
        print()
        return None
    finally:
        signal.signal(signal.SIGTERM, handler)


def _end(_number: int, _frame: FrameType | None) -> NoReturn:
    raise EOFError
