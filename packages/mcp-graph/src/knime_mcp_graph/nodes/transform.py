"""A node that evaluates an expression on the context."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Self

from .node import Form, FormField, Node, Raw

if TYPE_CHECKING:
    from knime_mcp.yaml_text import Fields

    from ..document_reading import NodeReading
    from ..executor import NodeRun
    from ..graph_model import Expression, Part


@dataclass(frozen=True, slots=True, kw_only=True)
class TransformNode(Node):
    kind: ClassVar[str] = "transform"
    fields: ClassVar[tuple[FormField, ...]] = (
        FormField(key="transform", label="Expression", form=Form.EXPRESSION),
    )
    new: ClassVar[Raw] = {"transform": {"expr": "{}"}}
    computes_only: ClassVar[bool] = True

    expression: Expression

    @classmethod
    def read(cls, fields: Fields, reading: NodeReading) -> Self:
        inner = fields.inside("transform")
        expression = reading.expression(inner.text("expr"), (*inner.path, "expr"))
        inner.end()
        return cls(**reading.common(fields), expression=expression)

    @property
    def parts(self) -> tuple[tuple[str, Part], ...]:
        return (("transform expression", self.expression),)

    def run(self, run: NodeRun) -> Any:
        return run.line.evaluate(self.expression.text)
