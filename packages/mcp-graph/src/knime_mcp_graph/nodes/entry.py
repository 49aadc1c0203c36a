"""The beginning of a run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Self

from .node import NEXT, Node, Opening, Shape

if TYPE_CHECKING:
    from collections.abc import Mapping

    from knime_mcp.yaml_text import Fields

    from ..document_reading import NodeReading
    from ..executor import NodeRun


@dataclass(frozen=True, slots=True, kw_only=True)
class EntryNode(Node):
    """Its output is the arguments."""

    kind: ClassVar[str] = "entry"
    shape: ClassVar[Shape] = Shape.END
    openings: ClassVar[tuple[Opening, ...]] = (NEXT,)
    computes_only: ClassVar[bool] = True

    @classmethod
    def read(cls, fields: Fields, reading: NodeReading) -> Self:
        return cls(id=fields.text("id"), next=fields.text("next"), written=reading.written(fields))

    @classmethod
    def detail(cls, raw: Mapping[str, Any]) -> str:
        del raw
        return ""

    def run(self, run: NodeRun) -> Any:
        return run.line.run.arguments
