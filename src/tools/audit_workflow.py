"""Makes the audit workflow of recorded calls: a KNIME workflow that shows them and can make them again.

One *MCP Tool Caller* per call of an MCP tool, configured with the server's URL, the tool, the arguments and
the digest of the definition, in recorded order. It holds the names of credentials only; a secret argument is
a placeholder that the Caller refuses until a person has filled it in. Calls that cannot or must not run again
are notes on the canvas.

Agent, Caller and Replayer save it where their parameter *Save audit workflow to* says.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from heapq import nsmallest
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, assert_never

from ..types.texts import counted, shortened, without_surrogates
from ..types.tool import MCPTool, WorkflowTool
from .recorded_steps import caller_node, is_command, metanode, segment_of, step_of, with_arguments

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ..audit.record import CallRecord
    from ..knwf import Node, Position, Workflow


MOST_STEPS: Final = 1000
"""Calls beyond this number are only counted on the canvas: KNIME could not open such a large workflow."""

# Colours of the notes' borders.
YELLOW, GREEN, RED, GRAY = 0xFFD800, 0x3CB371, 0xD9534F, 0xB0B0B0

# Pixels and characters on the canvas.
_COLUMNS: Final = 6
_STEP_X, _STEP_Y = 190, 190
_LEFT, _TOP = 60, 60
_LINE: Final = 20
_CHARACTERS_PER_LINE: Final = 150
_LONGEST_NOTE: Final = 6000
_LONGEST_BOX: Final = 800
_BOX: Final = 160
_LOW_BOX: Final = 70
_WIDTH: Final = _COLUMNS * _STEP_X


@dataclass(frozen=True, slots=True)
class Exported:
    """An audit workflow, and the numbers of calls in it."""

    workflow: Workflow
    steps: int  # calls that are nodes
    notes: int  # calls that are notes on the canvas
    left_out: int  # calls that are neither, because there are too many
    placeholders: tuple[str, ...]  # secret arguments to fill in, as "node 3: /password"

    def text(self) -> str:
        parts = [f"{counted(self.steps, 'call')} as nodes"]
        parts += [f"{self.notes} as notes"] if self.notes else []
        parts += [f"{self.left_out} left out"] if self.left_out else []
        parts += [f"to fill in: {', '.join(self.placeholders)}"] if self.placeholders else []
        return "; ".join(parts)


def audit_workflow(
    records: Iterable[CallRecord], *, name: str, question: str = "", answer: str = ""
) -> Exported:
    """Makes the audit workflow of some calls, in any order; an agent's question and answer become notes.

    Every node has the state CONFIGURED, so that KNIME checks its settings.
    """
    from ..knwf import Connection, Workflow, WorkflowCredential

    seen = _Seen()
    shown = nsmallest(MOST_STEPS, map(seen.take, records), key=lambda record: (record.run, record.call))
    left_out = seen.statuses.total() - len(shown)
    canvas = Canvas()
    canvas.note(seen.about(), color=GRAY)
    if question:
        canvas.note(f"Question\n{question}", color=YELLOW)
    several_runs = len(seen.runs) > 1
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
    if left_out:
        canvas.note(f"… and {left_out} more calls, which are not in this workflow", color=RED)
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
    return Exported(workflow, steps, len(shown) - steps, left_out, tuple(canvas.placeholders))


class _Seen:
    """What the first note says of all calls, of which only some are on the canvas."""

    def __init__(self) -> None:
        self.statuses: Counter[str] = Counter()
        self.runs: set[str] = set()
        self._writing = 0
        self._commands: set[str] = set()

    def take(self, record: CallRecord) -> CallRecord:
        self.statuses[record.status.value] += 1
        self.runs.add(record.run)
        step = step_of(record)
        if isinstance(step, MCPTool):
            self._writing += not step.is_read_only
            self._commands |= {step.route.url} if is_command(step) else set()
        return record

    def about(self) -> str:
        counts = ", ".join(f"{count} {status}" for status, count in self.statuses.most_common())
        lines = [
            f"Audit of {counted(self.statuses.total(), 'tool call')}: {counts}",
            "Each node is one call, in the order in which they finished. Executing a node makes its call"
            " again.",
        ]
        if self._writing:
            lines.append(
                f"{self._writing} of them are of tools not declared as read-only: they do again what they"
                " did."
            )
        if self._commands:
            commands = sorted(self._commands)
            lines.append(
                f"Servers that were commands ({', '.join(commands)}) cannot be started from a workflow: run"
                " them over HTTP and enter their URLs. No other node waits for theirs. From the command line:"
                f" knime-mcp run FILE.knwf --server {commands[0]}=http://127.0.0.1:8000/mcp"
            )
        return "\n".join(lines)


def target_of(setting: str, data_area: Path, run: str) -> Path | None:
    """The file that the setting names for a run; a relative path is in the data area. None: no file."""
    text = setting.strip()
    if not text:
        return None
    path = data_area / Path(text).expanduser()
    return path if path.suffix.lower() == ".knwf" else path / f"{run}.knwf"


def save_audit_workflow(
    records: Iterable[CallRecord], file: Path, *, question: str = "", answer: str = ""
) -> Exported:
    """Writes the audit workflow of some calls into a ``.knwf`` file, which gives it its name.

    The folder is created, and the file replaced as a whole.
    """
    from ..knwf import write_workflow

    exported = audit_workflow(records, name=file.stem, question=question, answer=answer)
    file.parent.mkdir(parents=True, exist_ok=True)
    write_workflow(exported.workflow, file)
    return exported


def save_after_run(
    records: Iterable[CallRecord],
    setting: str,
    data_area: Path,
    run: str,
    *,
    question: str = "",
    answer: str = "",
) -> str | None:
    """Saves the audit workflow where the parameter says. A failure fails no node: it is a warning."""
    try:
        file = target_of(setting, data_area, run)
        if file is None:
            return None
        exported = save_audit_workflow(records, file, question=question, answer=answer)
    # An impossible file name raises ValueError, an unknown ~user RuntimeError.
    except (OSError, ValueError, RuntimeError) as error:
        why = error.strerror if isinstance(error, OSError) else None
        where = setting.strip()
        return without_surrogates(f"The audit workflow cannot be written to {where}: {why or error}.")
    if exported.placeholders or exported.left_out:
        return f"The audit workflow {file} has {exported.text()}."
    return None


class Canvas:
    """Nodes and notes, placed row by row."""

    def __init__(self) -> None:
        self.nodes: list[Node] = []
        self.annotations: list[Any] = []
        self.credentials: set[str] = set()
        self.placeholders: list[str] = []
        self.lines: list[tuple[int, int]] = []
        self.files: dict[str, bytes] = {}
        self._y = _TOP
        self._column = 0
        self._last: int | None = None

    def note(self, text: str, *, color: int) -> None:
        from ..knwf import Annotation

        shown = shortened(text, _LONGEST_NOTE)
        lines = sum(1 + len(line) // _CHARACTERS_PER_LINE for line in shown.split("\n"))
        height = 20 + lines * _LINE
        self.annotations.append(Annotation(shown, _LEFT, self._y, _WIDTH, height, border_color=color))
        self._y += height + 30

    def heading(self, text: str) -> None:
        from ..knwf import Annotation

        if text:
            label = text[0].upper() + text[1:]
            self.annotations.append(
                Annotation(label, _LEFT, self._y, 400, 26, border_size=0, font_size=13, border_color=GRAY)
            )
            self._y += 40

    def new_row(self) -> None:
        """Starts the next row, unless the current row is empty."""
        if self._column:
            self._y += _STEP_Y
            self._column = 0

    def add(self, record: CallRecord, place: int) -> None:
        from ..knwf import Position

        if self._column == _COLUMNS:
            self.new_row()
        x, y = _LEFT + 30 + self._column * _STEP_X, self._y + 20
        self._column += 1
        step = step_of(record)
        match step:  # @ToolTypeDispatch
            case str():
                self._box(record, place, step, Position(x, y))
            case MCPTool():
                self._call(record, place, step, Position(x, y))
            case WorkflowTool():
                self._workflow(record, place, step, Position(x, y))
            case _:
                assert_never(step)

    def _call(self, record: CallRecord, place: int, tool: MCPTool, position: Position) -> None:
        node, secrets = caller_node(len(self.nodes) + 1, place, record, tool, position)
        self.nodes.append(node)
        if self._last is not None:
            self.lines.append((self._last, node.id))
        if not is_command(tool):  # KNIME starts no commands: nothing may wait for this node
            self._last = node.id
        if tool.route.credential:
            self.credentials.add(tool.route.credential)
        self.placeholders += [f"node {node.id}: {pointer}" for pointer in secrets]

    def _workflow(self, record: CallRecord, place: int, tool: WorkflowTool, position: Position) -> None:
        from ..knwf import KnwfError

        text = f"KNIME workflow, {record.status.value}\nParameters: {record.arguments or '{}'}"
        segment = segment_of(tool)
        if segment is not None:
            try:
                segment = with_arguments(segment, record)
                node, files = metanode(len(self.nodes) + 1, tool, segment, position)
            except KnwfError:
                pass  # a workflow that cannot be written gets a note, like one that is missing
            else:
                self.nodes.append(node)
                self.files |= files
                self.credentials |= {credential.name for credential in segment.credentials}
                position = replace(position, y=position.y + position.height + 20)
                self._box(record, place, text, position, height=_LOW_BOX)
                return
        self._box(record, place, text, position)

    def _box(
        self, record: CallRecord, place: int, text: str, position: Position, *, height: int = _BOX
    ) -> None:
        from ..knwf import Annotation

        label = shortened(f"{record.call or place} · {record.tool_name or 'no tool'}\n{text}", _LONGEST_BOX)
        x, y = position.x - 20, position.y - 10
        self.annotations.append(
            Annotation(label, x, y, _STEP_X - 20, height, border_color=GRAY, font_size=10)
        )
