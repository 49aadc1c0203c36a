"""What nodes have in common that call a tool."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from .node import Form, FormField, Node, Shape

if TYPE_CHECKING:
    from knime_mcp.yaml_text import Fields

    from ..document_reading import NodeReading
    from ..graph_model import Part, Retry, Template


@dataclass(frozen=True, slots=True, kw_only=True)
class CallingNode(Node):
    """A node with a tool and its arguments.

    Attributes:
        args: Arguments: name to template (JSON with `Expression` values in it), or an expression for all.
        retry: Its retries; None: none.
        timeout: Seconds for one call; None: the default.
    """

    shape: ClassVar[Shape] = Shape.CALL
    last_fields: ClassVar[tuple[FormField, ...]] = (
        FormField(key="args", label="Arguments", form=Form.ARGUMENTS),
        FormField(key="retry", label="retry"),
        FormField(key="timeout", label="timeout"),
    )

    tool: str
    args: Template
    retry: Retry | None = None
    timeout: float | None = None

    @classmethod
    def call(cls, fields: Fields, reading: NodeReading) -> dict[str, Any]:
        return {
            **reading.common(fields),
            "tool": fields.text("tool"),
            "args": reading.args(fields.mapping("args"), (*fields.path, "args")),
            "retry": reading.retry(fields),
            "timeout": reading.seconds(fields, "timeout", default=None),
        }

    @property
    def parts(self) -> tuple[tuple[str, Part], ...]:
        return (("args", self.args),)
