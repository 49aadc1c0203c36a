"""The beginning and the end of a run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Self

from ..expressions.javascript import UNDEFINED, truthy
from .node import NEXT, Node, Opening, Shape

if TYPE_CHECKING:
    from collections.abc import Mapping

    from knime_mcp.yaml_text import Fields

    from ..document_checks import GraphChecks
    from ..document_reading import NodeReading
    from ..executor import NodeRun


@dataclass(frozen=True, slots=True, kw_only=True)
class _EndNode(Node):
    shape: ClassVar[Shape] = Shape.END
    computes_only: ClassVar[bool] = True

    @classmethod
    def detail(cls, raw: Mapping[str, Any]) -> str:
        del raw
        return ""


@dataclass(frozen=True, slots=True, kw_only=True)
class EntryNode(_EndNode):
    """Its output is the arguments."""

    kind: ClassVar[str] = "entry"
    openings: ClassVar[tuple[Opening, ...]] = (NEXT,)

    @classmethod
    def read(cls, fields: Fields, reading: NodeReading) -> Self:
        return cls(id=fields.text("id"), next=fields.text("next"), written=reading.written(fields))

    def run(self, run: NodeRun) -> Any:
        return run.line.run.arguments


@dataclass(frozen=True, slots=True, kw_only=True)
class ExitNode(_EndNode):
    """Its output is that of the node before it."""

    kind: ClassVar[str] = "exit"
    openings: ClassVar[tuple[Opening, ...]] = ()

    ignored: str | None = None  # its ``next``, which the reference looks for but never follows

    @classmethod
    def read(cls, fields: Fields, reading: NodeReading) -> Self:
        ignored = fields.optional_text("next") or None
        return cls(id=fields.text("id"), ignored=ignored, written=reading.written(fields))

    def check(self, checks: GraphChecks, tool: str) -> None:
        if self.ignored is not None:
            checks.target(tool, self, self.ignored, ("next",), "next node")
        if self.written.raw.get("next") is not None:
            message = "an exit node ends the run: its 'next' is ignored"
            checks.findings.warn(message, (*self.written.path, "next"))

    def run(self, run: NodeRun) -> Any:
        output = UNDEFINED if run.last is None else run.last.output
        # As in the reference, an empty object if that is nothing.
        return output if output is not UNDEFINED and truthy(output) else {}
