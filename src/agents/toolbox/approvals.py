"""What a person says of a call before it is made, in a terminal or a page."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final, assert_never, cast

from ...runs.call_values import Allow, Deny, Edit
from ...types.errors import ArgumentsInvalid, CallDenied
from ...types.tool import MCPTool, WorkflowTool

if TYPE_CHECKING:
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
        self._always.add(called(plan))
        return self._for_good()

    def edit(self, text: str) -> Edit:
        """Other arguments, as JSON text; raises `ArgumentsInvalid` if they are no JSON object."""
        try:
            value = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise ArgumentsInvalid(f"This is no JSON: {error}") from None
        if not isinstance(value, dict):
            raise ArgumentsInvalid("The arguments are an object of JSON, in braces")
        return Edit(cast("dict[str, Any]", value), _PERSON)

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
