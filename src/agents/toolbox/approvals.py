"""What a person says of a call before it is made, in a terminal or a page."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final, assert_never, cast

from ...runs.call_values import Allow, Deny, Edit
from ...types.errors import ArgumentsInvalid, CallDenied, Canceled
from ...types.tool import MCPTool, WorkflowTool
from .question_form import checked_form

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ...runs.call_values import PlannedCall

_PERSON: Final = "a person"


class Approvals:
    """The verdicts of one person; which tools that person has allowed for good."""

    def __init__(self) -> None:
        self._always: set[tuple[str, str]] = set()

    def already(self, plan: PlannedCall) -> Allow | None:
        return self._for_good() if called(plan) in self._always else None

    def allow(self, plan: PlannedCall, *, always: bool = False) -> Allow:
        if not always:
            return Allow(_PERSON)
        # With the place, as another server may have a tool of that name.
        self._always.add(called(plan))
        return self._for_good()

    def edit(self, text: str, form: Mapping[str, Any] | None = None) -> Edit:
        """Other arguments, as JSON text, or what was entered in a form, which has a schema.

        Raises `ArgumentsInvalid` if they are no JSON object, or do not fit the form.
        """
        try:
            value = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise ArgumentsInvalid(f"This is no JSON: {error}") from None
        if not isinstance(value, dict):
            raise ArgumentsInvalid("The arguments are an object of JSON, in braces")
        arguments = cast("dict[str, Any]", value)
        return Edit(arguments if form is None else checked_form(form, arguments), _PERSON)

    def dismiss(self) -> Deny:
        """Neither yes nor no: the person does not want to decide."""
        return Deny(Canceled("The user has dismissed the question"), f"{_PERSON}: dismissed")

    def unanswered(self, why: str) -> Deny:
        """Nobody has said yes; ``why`` says what came in between."""
        error = CallDenied(
            f"Nobody has allowed this call: {why}", fix="Go on without it, and say what could not be done"
        )
        return Deny(error, f"default: nobody has answered ({why})")

    def refuse(self, reason: str = "") -> Deny:
        said = f": {reason}" if reason else ""
        return Deny(
            CallDenied(
                f"The user does not want this call{said}",
                fix="Do not try it again in another way; ask the user, or go on without it",
            ),
            f"{_PERSON}{said}",
        )

    def _for_good(self) -> Allow:
        return Allow(f"{_PERSON}, for all calls of the tool")


def form_of(plan: PlannedCall) -> dict[str, Any]:
    """The schema of the form that a server asks to fill in."""
    assert isinstance(plan.tool, MCPTool)
    return plan.tool.parameter_schema


def called(plan: PlannedCall) -> tuple[str, str]:  # @ToolTypeDispatch
    """The tool that a call is of, and where that is, for people."""
    tool = plan.tool
    if tool is None:
        return plan.name or "", ""
    match tool:
        case MCPTool():
            return tool.name, tool.route.url
        case WorkflowTool():
            return tool.name, "a workflow"
        case _:
            assert_never(tool)
