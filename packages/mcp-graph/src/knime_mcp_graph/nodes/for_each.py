"""A node that runs a chain of nodes for each entry of a list."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Self

from knime_mcp.yaml_text import MAPPING, TEXT, WHOLE, as_list

from ..expressions.javascript import UNDEFINED
from ..run_control import RunError
from .node import ON_ERROR, Form, FormField, Node, Opening, Raw

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from knime_mcp.yaml_text import Fields

    from ..document_reading import NodeReading
    from ..executor import NodeRun
    from ..graph_model import Expression, Part


@dataclass(frozen=True, slots=True, kw_only=True)
class ForEachNode(Node):
    """The chain begins with the node `body` and goes up to, but without, the node `next`.

    In the chain, the value of this node's id is ``{"item": ..., "index": ...}`` (index from 0). The node's
    output is the list of the outputs of the chain's last nodes, in the order of the entries.
    """

    kind: ClassVar[str] = "forEach"
    openings: ClassVar[tuple[Opening, ...]] = (
        Opening(key="do", label="each", words="for each entry", called="'do' node"),
        Opening(key="next", label="done"),
        ON_ERROR,
    )
    fields: ClassVar[tuple[FormField, ...]] = (
        FormField(key="items", label="List", form=Form.EXPRESSION),
        FormField(key="maxConcurrency", label="maxConcurrency"),
        FormField(key="maxItems", label="maxItems"),
    )
    new: ClassVar[Raw] = {"items": "[]", "do": ""}

    items: Expression  # undefined is an empty list, a single value a list with one entry
    body: str
    max_concurrency: int = 1
    max_items: int = 1000

    @classmethod
    def read(cls, fields: Fields, reading: NodeReading) -> Self:
        written, place = fields.get("items", TEXT, MAPPING), (*fields.path, "items")
        if isinstance(written, dict):
            inner = fields.inside("items")
            written, place = inner.text("expr"), (*place, "expr")
            inner.end()
        return cls(
            **reading.common(fields),
            items=reading.expression(written or "", place),
            body=fields.text("do"),
            max_concurrency=fields.number("maxConcurrency", WHOLE, default=1),
            max_items=fields.number("maxItems", WHOLE, default=1000),
        )

    @classmethod
    def detail(cls, raw: Mapping[str, Any]) -> str:
        del raw
        return "for each"

    @property
    def parts(self) -> tuple[tuple[str, Part], ...]:
        return (("items", self.items),)

    @property
    def inner_starts(self) -> tuple[str, ...]:
        return (self.body,)

    def ways_to_end(self, graph: Mapping[str, Sequence[str]], ending: Collection[str]) -> Sequence[str]:
        del graph, ending  # the list may be empty
        return [target for target in (self.next,) if target is not None]

    def run(self, run: NodeRun) -> list[Any]:
        value = run.line.evaluate(self.items.text)
        # An empty list is null in some languages, Go for one.
        items = as_list(value) or [one for one in (value,) if one not in (UNDEFINED, None, [])]
        run.record.input = items
        if len(items) > self.max_items:
            raise RunError(
                f"The list has {len(items)} entries, more than maxItems ({self.max_items})",
                kind="limit",
                fix="Raise maxItems of the node, or give it a shorter list",
            )
        chains = [
            (run.line.inner(run.record, str(index), {self.id: {"item": item, "index": index}}), self.body)
            for index, item in enumerate(items)
        ]
        outputs = run.chains(chains, self.next, self.max_concurrency)
        return [None if output is UNDEFINED else output for output in outputs]
