"""Makes the audit workflow of recorded calls: a KNIME workflow that shows them and can make them again.

One *MCP Tool Caller* per call of an MCP tool, configured with the server's URL, the tool, the arguments and
the digest of the definition, in recorded order. It holds the names of credentials only; a secret argument is
a placeholder that the Caller refuses until a person has filled it in. Calls that cannot or must not run again
are notes on the canvas.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from ...types.short_texts import counted
from ...types.tool import MCPTool
from .canvas import GRAY, GREEN, RED, YELLOW, Canvas
from .step import is_command, step_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ...audit.record import CallRecord
    from ...knwf import Workflow

MOST_STEPS: Final = 1000
"""Calls beyond this number are only counted on the canvas: KNIME could not open such a large workflow."""


@dataclass(frozen=True, slots=True)
class Exported:
    """Numbers of calls in a saved audit workflow.

    Attributes:
        workflow: The workflow.
        steps: How many calls are nodes.
        notes: How many calls are notes on the canvas.
        left_out: How many calls are neither, because there are too many.
        placeholders: Secret arguments to fill in, as ``node 3: /password``.
    """

    workflow: Workflow
    steps: int
    notes: int
    left_out: int
    placeholders: tuple[str, ...]

    def text(self) -> str:
        """The numbers in one sentence."""
        parts = [f"{counted(self.steps, 'call')} as nodes"]
        parts += [f"{self.notes} as notes"] if self.notes else []
        parts += [f"{self.left_out} left out"] if self.left_out else []
        parts += [f"to fill in: {', '.join(self.placeholders)}"] if self.placeholders else []
        return "; ".join(parts)


def audit_workflow(
    records: Iterable[CallRecord], *, name: str, question: str = "", answer: str = ""
) -> Exported:
    """Makes the audit workflow of some calls.

    Args:
        records: The calls, in any order.
        name: Name of the workflow.
        question: The prompt of an agent.
        answer: The agent's answer.

    Returns:
        The workflow; every node has the state CONFIGURED, so that KNIME checks its settings.
    """
    from ...knwf import Connection, Workflow, WorkflowCredential

    ordered = sorted(records, key=lambda record: (record.run, record.call))
    shown = ordered[:MOST_STEPS]
    canvas = Canvas()
    canvas.note(_about(ordered), color=GRAY)
    if question:
        canvas.note(f"Question\n{question}", color=YELLOW)
    several_runs = len({record.run for record in ordered}) > 1
    turn: tuple[str, int | None] | None = None
    for place, record in enumerate(shown, start=1):
        if turn is not None and turn != (record.run, record.iteration):
            canvas.new_row()
        if turn != (record.run, record.iteration):
            heading = [f"Run {record.run}"] if several_runs and record.run else []
            heading += [f"turn {record.iteration}"] if record.iteration is not None else []
            canvas.heading(", ".join(heading))
        turn = (record.run, record.iteration)
        # Every run counts its calls from 1, so several runs are numbered anew.
        canvas.add(replace(record, call=place) if several_runs else record, place)
    canvas.new_row()
    if len(ordered) > len(shown):
        canvas.note(
            f"… and {len(ordered) - len(shown)} more calls, which are not in this workflow", color=RED
        )
    if answer:
        canvas.note(f"Answer\n{answer}", color=GREEN)
    workflow = Workflow(
        name,
        tuple(canvas.nodes),
        # Connections of flow variable ports, which only set the order of the calls.
        tuple(Connection(one, 0, other, 0) for one, other in canvas.lines),
        annotations=tuple(canvas.annotations),
        credentials=tuple(map(WorkflowCredential, sorted(canvas.credentials))),
        files=canvas.files,
    )
    steps = len(canvas.nodes)
    return Exported(
        workflow, steps, len(shown) - steps, len(ordered) - len(shown), tuple(canvas.placeholders)
    )


def _about(records: Sequence[CallRecord]) -> str:
    statuses = Counter(record.status.value for record in records)
    counts = ", ".join(f"{count} {status}" for status, count in statuses.most_common())
    tools = [step for record in records if isinstance(step := step_of(record), MCPTool)]
    writing = sum(not tool.is_read_only for tool in tools)
    lines = [
        f"Audit of {counted(len(records), 'tool call')}: {counts}",
        "Each node is one call, in the order in which they finished. Executing a node makes its call again.",
    ]
    if writing:
        lines.append(
            f"{writing} of them are of tools not declared as read-only: they do again what they did."
        )
    commands = sorted({tool.route.url for tool in tools if is_command(tool)})
    if commands:
        lines.append(
            f"Servers that were commands ({', '.join(commands)}) cannot be started from a workflow: run them"
            " over HTTP and enter their URLs. No other node waits for theirs. From the command line:"
            f" knime-mcp run FILE.knwf --server {commands[0]}=http://127.0.0.1:8000/mcp"
        )
    return "\n".join(lines)
