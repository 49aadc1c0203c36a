"""An agent's run on the terminal: each turn and each tool call as it happens, on standard error."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from ..agents.agent_events import ModelAnswered, ModelRetried, TextDelta, ToolFinished, ToolStarted
from ..agents.message_content import shown_text
from ..agents.timeline import arguments_line, duration_text, kind_of, status_of_call, tokens_text
from .terminal import StatusLine, err, is_terminal, one_line, print_markdown, visible

if TYPE_CHECKING:
    from ..agents.agent_events import AgentEvent

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
