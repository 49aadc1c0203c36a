"""Asks the person at the terminal about an agent's call, before it is made."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from shlex import quote
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from ..agents.toolbox.approvals import Approvals, called, checked_form, form_fields, form_of
from ..agents.toolbox.call_rules import CallRule
from ..runs.call_values import Deny
from ..types.errors import ArgumentsInvalid
from ..types.tool import MCPTool, WorkflowTool
from .person import asked, entered
from .terminal import err, plain

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from ..agents.toolbox.approvals import FormField
    from ..agents.toolbox.call_rules import CallRules
    from ..runs.call_values import Allow, Ask, Edit, PlannedCall
    from ..types.tool import Tool


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
