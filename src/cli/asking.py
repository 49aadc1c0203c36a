"""Asks the person at the terminal about an agent's call, before it is made."""

from __future__ import annotations

import json
import os
import select
import sys
from typing import TYPE_CHECKING, Final

from ..agents.toolbox.approvals import Approvals, called
from ..types.errors import ArgumentsInvalid
from .terminal import err, is_terminal, plain

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..runs.call_values import Allow, Ask, Deny, Edit, PlannedCall

_POLL_SECONDS: Final = 0.1
_LONGEST_LINE: Final = 1 << 16


def can_ask() -> bool:
    """Whether somebody sits at the terminal."""
    return is_terminal(sys.stdin) and is_terminal(sys.stderr)


class PersonAsked:
    """Shows a call and reads what the person wants: an `Approver`. `hide` clears a line that changes."""

    def __init__(self, is_stopped: Callable[[], bool], hide: Callable[[], None]) -> None:
        self._is_stopped = is_stopped
        self._hide = hide
        self._approvals = Approvals()

    def __call__(self, plan: PlannedCall, question: Ask) -> Allow | Deny | Edit:
        if known := self._approvals.already(plan):
            return known
        name, server = called(plan)
        self._hide()
        self._say(f"May {name} be called, of {server}? ({question.why})")
        self._say(json.dumps(dict(plan.arguments or {}), indent=2, ensure_ascii=False))
        while True:
            answer = self._read("y(es), a(lways this tool), n(o) and why, e(dit): ")
            word, _, reason = (answer or "no").strip().partition(" ")
            match word.lower():
                case "y" | "yes":
                    return self._approvals.allow(plan)
                case "a" | "always":
                    return self._approvals.allow(plan, always=True)
                case "n" | "no":
                    return self._approvals.refuse(reason.strip())
                case "e" | "edit" if (edited := self._edited()) is not None:
                    return edited
                case _:
                    pass

    def _edited(self) -> Edit | None:
        try:
            return self._approvals.edit(self._read("The arguments, as one line of JSON: ") or "")
        except ArgumentsInvalid as error:
            self._say(str(error))
            return None

    def _read(self, prompt: str) -> str | None:
        """A line; None at the end of the input, or if the turn is stopped."""
        err().print(plain(prompt), end="")
        while not self._is_stopped():
            if select.select([0], [], [], _POLL_SECONDS)[0]:
                return os.read(0, _LONGEST_LINE).decode(errors="replace") or None
        return None

    def _say(self, text: str) -> None:
        err().print(plain(text))
