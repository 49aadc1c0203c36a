"""Asks the person at the terminal about an agent's call, before it is made."""

from __future__ import annotations

import json
import os
import select
import sys
from typing import TYPE_CHECKING, Any, Final, cast

from ..runs.call_values import Allow, Deny, Edit
from ..types.errors import MCPError
from ..types.tool import MCPTool
from .terminal import err, is_terminal, plain

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..runs.call_values import Ask, PlannedCall

_PERSON: Final = "a person"
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
        self._always: set[tuple[str, str]] = set()

    def __call__(self, plan: PlannedCall, question: Ask) -> Allow | Deny | Edit:
        tool = plan.tool
        name = plan.name or "" if tool is None else tool.name
        server = tool.route.url if isinstance(tool, MCPTool) else "a workflow"
        if (name, server) in self._always:
            return Allow(f"{_PERSON}, for all calls of the tool")
        self._hide()
        arguments: dict[str, Any] = dict(plan.arguments or {})
        self._say(f"May {name} be called, of {server}? ({question.why})")
        self._say(json.dumps(arguments, indent=2, ensure_ascii=False))
        while True:
            answer = self._read("y(es), a(lways this tool), n(o) and why, e(dit): ")
            word, _, reason = (answer or "no").strip().partition(" ")
            match word.lower():
                case "y" | "yes":
                    return Allow(_PERSON)
                case "a" | "always":
                    self._always.add((name, server))
                    return Allow(f"{_PERSON}, for all calls of the tool")
                case "n" | "no":
                    return _refused(reason.strip())
                case "e" | "edit" if (edited := self._edited()) is not None:
                    return Edit(edited, _PERSON)
                case _:
                    pass

    def _edited(self) -> dict[str, Any] | None:
        try:
            value = json.loads(self._read("The arguments, as one line of JSON: ") or "")
        except (ValueError, RecursionError) as error:
            self._say(f"This is no JSON: {error}")
            return None
        return cast("dict[str, Any]", value) if isinstance(value, dict) else None

    def _read(self, prompt: str) -> str | None:
        """A line; None at the end of the input, or if the turn is stopped."""
        err().print(plain(prompt), end="")
        while not self._is_stopped():
            if select.select([0], [], [], _POLL_SECONDS)[0]:
                return os.read(0, _LONGEST_LINE).decode(errors="replace") or None
        return None

    def _say(self, text: str) -> None:
        err().print(plain(text))


def _refused(reason: str) -> Deny:
    said = f": {reason}" if reason else ""
    return Deny(
        MCPError(
            f"The user does not want this call{said}",
            fix="Do not try it again in another way; ask the user, or go on without it",
        ),
        f"{_PERSON}{said}",
    )
