"""Makes the audit workflow of recorded calls: a KNIME workflow that shows them and can make them again.

One *MCP Tool Caller* per call of an MCP tool, configured with the server's URL, the tool, the arguments and
the digest of the definition, in recorded order. It holds the names of credentials only; a secret argument is
a placeholder that the Caller refuses until a person has filled it in. Calls that cannot or must not run again
are notes on the canvas.

Agent, Caller and Replayer save it where their parameter *Save audit workflow to* says. Many calls are in
several workflows, as KNIME could not open one with all of them.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, assert_never

from ..types.texts import counted, shortened, without_surrogates
from ..types.tool import MCPTool, WorkflowTool
from .recorded_steps import caller_node, is_command, metanode, segment_of, step_of, with_arguments

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ..audit.record import CallRecord
    from ..knwf import CanvasPosition, Node, Workflow


MOST_STEPS: Final = 1000
"""So many calls are in one workflow, the others in further ones."""

# Colours of the notes' borders.
YELLOW, GREEN, GRAY = 0xFFD800, 0x3CB371, 0xB0B0B0

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
_MOST_NAMED: Final = 20


@dataclass(frozen=True, slots=True)
class Exported:
    """An audit workflow, and the numbers of calls in it."""

    workflow: Workflow
    steps: int  # calls that are nodes
    notes: int  # calls that are notes on the canvas
    placeholders: tuple[str, ...]  # secret arguments to fill in, as "node 3: /password"


@dataclass(slots=True)
class Saved:
    """The audit workflows of some calls, in files."""

    files: list[Path] = field(default_factory=list[Path])
    steps: int = 0
    notes: int = 0
    placeholders: int = 0
    named: list[str] = field(default_factory=list[str])  # the first of them

    def add(self, file: Path, exported: Exported) -> None:
        self.files.append(file)
        self.steps += exported.steps
        self.notes += exported.notes
        self.placeholders += len(exported.placeholders)
        of = f"{file.name}, " if len(self.files) > 1 else ""
        self.named += [f"{of}{text}" for text in exported.placeholders[: _MOST_NAMED - len(self.named)]]

    def text(self) -> str:
        parts = [f"{counted(self.steps, 'call')} as nodes"]
        parts += [f"{self.notes} as notes"] if self.notes else []
        more = self.placeholders - len(self.named)
        named = [*self.named, *([f"and {more} more"] if more else [])]
        parts += [f"to fill in: {', '.join(named)}"] if named else []
        parts += [f"in {len(self.files)} files, up to {self.files[-1].name}"] if len(self.files) > 1 else []
        return "; ".join(parts)


def audit_workflow(
    records: Sequence[CallRecord],
    *,
    name: str,
    question: str = "",
    answer: str = "",
    before: str = "",
    after: str = "",
) -> Exported:
    """Makes the audit workflow of some calls; an agent's question and answer become notes.

    Every node has the state CONFIGURED, so that KNIME checks its settings. ``before`` and ``after`` are the
    files with other calls of the same audit.
    """
    from ..knwf import Connection, Workflow, WorkflowCredential

    canvas = Canvas()
    canvas.note(_about(records), color=GRAY)
    if before:
        canvas.note(f"The calls before these are in {before}", color=GRAY)
    if question:
        canvas.note(f"Question\n{question}", color=YELLOW)
    several_runs = len({record.run for record in records}) > 1
    turn: tuple[str, int | None] | None = None
    for place, record in enumerate(records, start=1):
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
    if after:
        canvas.note(f"… the calls after these are in {after}", color=GRAY)
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
    return Exported(workflow, steps, len(records) - steps, tuple(canvas.placeholders))


def _about(records: Sequence[CallRecord]) -> str:
    """What the first note says."""
    statuses = Counter(record.status.value for record in records)
    tools = [step for record in records if isinstance(step := step_of(record), MCPTool)]
    counts = ", ".join(f"{count} {status}" for status, count in statuses.most_common())
    lines = [
        f"Audit of {counted(len(records), 'tool call')}: {counts}",
        "Each node is one call, in the order in which they finished. Executing a node makes its call again.",
    ]
    if writing := sum(not tool.is_read_only for tool in tools):
        lines.append(
            f"{writing} of them are of tools not declared as read-only: they do again what they did."
        )
    if commands := sorted({tool.route.url for tool in tools if is_command(tool)}):
        lines.append(
            f"Servers that were commands ({', '.join(commands)}) cannot be started from a workflow: run"
            " them over HTTP and enter their URLs. No other node waits for theirs."
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
) -> Saved:
    """Writes the audit workflows of calls: into the given ``.knwf`` file, then ``NAME-2`` and so on.

    The folder is created, and each file replaced as a whole. The calls of two workflows are in memory at a
    time.
    """
    from ..knwf import write_workflow

    saved, left, before, path = Saved(), iter(records), "", file
    following = list(islice(left, MOST_STEPS))
    while following or not saved.files:
        # One workflow ahead, as each names the one behind it.
        calls, following = following, list(islice(left, MOST_STEPS))
        other = file.with_name(f"{file.stem}-{len(saved.files) + 2}{file.suffix}")
        exported = audit_workflow(
            calls,
            name=path.stem,
            question="" if before else question,
            answer="" if following else answer,
            before=before,
            after=other.name if following else "",
        )
        path.parent.mkdir(parents=True, exist_ok=True)
        write_workflow(exported.workflow, path)
        saved.add(path, exported)
        before, path = path.name, other
    return saved


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
        # Several threads hand in records; their numbers are those of the journal.
        ordered = sorted(records, key=lambda record: (record.run, record.call))
        saved = save_audit_workflow(ordered, file, question=question, answer=answer)
    # An impossible file name raises ValueError, an unknown ~user RuntimeError.
    except (OSError, ValueError, RuntimeError) as error:
        why = error.strerror if isinstance(error, OSError) else None
        where = setting.strip()
        return without_surrogates(f"The audit workflow cannot be written to {where}: {why or error}.")
    if saved.placeholders or len(saved.files) > 1:
        return f"The audit workflow {file} has {saved.text()}."
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
        from ..knwf import CanvasPosition

        if self._column == _COLUMNS:
            self.new_row()
        x, y = _LEFT + 30 + self._column * _STEP_X, self._y + 20
        self._column += 1
        step = step_of(record)
        match step:  # @ToolTypeDispatch
            case str():
                self._box(record, place, step, CanvasPosition(x, y))
            case MCPTool():
                self._call(record, place, step, CanvasPosition(x, y))
            case WorkflowTool():
                self._workflow(record, place, step, CanvasPosition(x, y))
            case _:
                assert_never(step)

    def _call(self, record: CallRecord, place: int, tool: MCPTool, position: CanvasPosition) -> None:
        node, secrets = caller_node(len(self.nodes) + 1, place, record, tool, position)
        self.nodes.append(node)
        if self._last is not None:
            self.lines.append((self._last, node.id))
        if not is_command(tool):  # KNIME starts no commands: nothing may wait for this node
            self._last = node.id
        if tool.route.credential:
            self.credentials.add(tool.route.credential)
        self.placeholders += [f"node {node.id}: {pointer}" for pointer in secrets]

    def _workflow(self, record: CallRecord, place: int, tool: WorkflowTool, position: CanvasPosition) -> None:
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
        self, record: CallRecord, place: int, text: str, position: CanvasPosition, *, height: int = _BOX
    ) -> None:
        from ..knwf import Annotation

        label = shortened(f"{record.call or place} · {record.tool_name or 'no tool'}\n{text}", _LONGEST_BOX)
        x, y = position.x - 20, position.y - 10
        self.annotations.append(
            Annotation(label, x, y, _STEP_X - 20, height, border_color=GRAY, font_size=10)
        )
