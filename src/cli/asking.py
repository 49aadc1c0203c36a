"""Asks the person at the terminal about an agent's call, before it is made."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from ..agents.toolbox.approvals import Approvals, called, form_of
from ..agents.toolbox.question_form import checked_form, form_fields
from ..runs.call_values import Deny
from ..types.errors import ArgumentsInvalid
from .terminal import err, plain, read_line

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from ..agents.toolbox.question_form import FormField
    from ..runs.call_values import Allow, Ask, Edit, PlannedCall


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
        match question.about:
            case "form" if (fields := form_fields(form_of(plan))) is not None:
                return self._filled_in(plan, fields, f"{server} asks: {question.why}")
            case "page":
                return self._opened(plan, f"{server} asks: {question.why}")
            case "call":
                self._say(f"May {name} be called, of {server}? ({question.why})")
            case "answer":
                self._say(f"May {server} get this answer of your model?")
            case _:
                self._say(f"{server} asks: {question.why} ({name})")
        self._say(json.dumps(dict(plan.arguments or {}), indent=2, ensure_ascii=False))
        while True:
            answer = self._read("y(es), a(lways this tool), n(o) and why, e(dit): ")
            # The end of the input is no consent.
            word, _, reason = (answer or "no").strip().partition(" ")
            match word.lower():
                case "y" | "yes":
                    return self._approvals.allow(plan)
                case "a" | "always":
                    return self._approvals.allow(plan, always=True)
                case "n" | "no":
                    return self._approvals.refuse(reason.strip())
                case "e" | "edit" if (edited := self._edited(plan, question)) is not None:
                    return edited
                case _:
                    pass

    def _opened(self, plan: PlannedCall, why: str) -> Allow | Deny:
        self._say(f"{why}\n{(plan.arguments or {})['url']}")
        answer = (self._read("Open it only if you trust it. d(one), n(o), l(ater): ") or "later").strip()
        match answer.lower():
            case "d" | "done" | "y" | "yes":
                return self._approvals.allow(plan)
            case "n" | "no":
                return self._approvals.refuse()
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
            match text := "/cancel" if typed is None else typed.strip():
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
        return read_line(prompt, self._is_stopped)

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
