"""The canvas of an audit workflow: a node or a note for each call, placed row by row."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, assert_never

from ...types.short_texts import shortened
from ...types.tool import MCPTool, WorkflowTool
from .segment import metanode, segment_of, with_arguments
from .step import caller_node, is_command, step_of

if TYPE_CHECKING:
    from ...audit.record import CallRecord
    from ...knwf import Node, Position

YELLOW, GREEN, RED, GRAY = 0xFFD800, 0x3CB371, 0xD9534F, 0xB0B0B0
"""Colours of the notes' borders."""

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
        """Adds a note over the whole width."""
        from ...knwf import Annotation

        shown = shortened(text, _LONGEST_NOTE)
        lines = sum(1 + len(line) // _CHARACTERS_PER_LINE for line in shown.split("\n"))
        height = 20 + lines * _LINE
        self.annotations.append(Annotation(shown, _LEFT, self._y, _WIDTH, height, border_color=color))
        self._y += height + 30

    def heading(self, text: str) -> None:
        """Adds a line of text above the calls of a turn."""
        from ...knwf import Annotation

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
        """Adds the node or the note of a call at the next free position."""
        from ...knwf import Position

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
        from ...knwf import KnwfError

        text = f"KNIME workflow, {record.status.value}\nParameters: {record.arguments or '{}'}"
        segment = segment_of(tool)
        if segment is not None:
            try:
                segment = with_arguments(segment, record.arguments)
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
        """Adds a note where the node of a call would stand."""
        from ...knwf import Annotation

        label = shortened(f"{record.call or place} · {record.tool_name or 'no tool'}\n{text}", _LONGEST_BOX)
        x, y = position.x - 20, position.y - 10
        self.annotations.append(
            Annotation(label, x, y, _STEP_X - 20, height, border_color=GRAY, font_size=10)
        )
