"""The one way of asking whoever sits at the terminal.

Consent is given by somebody who has read the question. So what was typed or pasted before it is thrown away,
and an answer is a whole line of one of the words that are offered; after *no* may stand why. Anything else is
asked again. Where the input ends, nobody has answered.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from ..system import forget_typed, typed_line
from .terminal import err, note, plain

if TYPE_CHECKING:
    from collections.abc import Callable

_POLL_SECONDS: Final = 0.1
_NO: Final = "no"
_WHY: Final = " or no and why"
_HINT: Final = "That is no answer. Type one of these words and nothing else; only after no may stand why."
_ENDED: Final = "The input has ended: nobody has answered, and that is no yes."


@dataclass(frozen=True, slots=True)
class Answer:
    """One of the words that were offered; after *no*, why."""

    word: str
    reason: str = ""


def asked(question: str, *words: str, is_stopped: Callable[[], bool] = lambda: False) -> Answer | None:
    """Asks until the answer is one of the words, or its first letter; None if nobody has answered.

    Args:
        question: What the person reads before it decides.
        words: What can be answered; their first letters differ.
        is_stopped: Whether nobody waits for the answer any more.
    """
    text = question
    offered = ", ".join(f"{word[0]}({word[1:]}){_WHY if word == _NO else ''}" for word in words)
    while True:
        line = entered(f"{text}\n{offered}: ", is_stopped)
        if line is None:
            if not is_stopped():
                note(_ENDED)
            return None
        word, _, reason = line.partition(" ")
        for known in words:
            is_whole = not reason or known == word.lower() == _NO
            if is_whole and word.lower() in (known, known[0]):
                return Answer(known, reason.strip())
        text = _HINT


def entered(prompt: str, is_stopped: Callable[[], bool]) -> str | None:
    """A line that is typed after the prompt is shown; None at the end of the input, or if it is stopped."""
    if forget_typed():
        note("What was typed before this question is no answer to it, and was thrown away.")
    err().print(plain(prompt), end="")
    typed = ""
    while not is_stopped():
        if (piece := typed_line(_POLL_SECONDS)) is None:
            continue
        typed += piece
        if not piece:
            return None
        # Ctrl-D hands on the beginning of a line.
        if typed.endswith("\n"):
            return typed.strip()
    return None
