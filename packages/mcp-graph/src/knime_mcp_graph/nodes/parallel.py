"""A node that runs several branches at once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Self

from knime_mcp.yaml_text import WHOLE, as_list

from ..expressions.javascript import UNDEFINED
from ..graph_model import reachable
from .node import ON_ERROR, FormField, Node, Opening, Raw

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from knime_mcp.yaml_text import Fields

    from ..document_reading import NodeReading
    from ..executor import NodeRun


@dataclass(frozen=True, slots=True, kw_only=True)
class ParallelNode(Node):
    """A branch is the chain of nodes from its first node up to, but without, the node `next`.

    It sees the context from before the branches, and its own nodes. The output is an object: the id of each
    branch's first node to the output of its last node.
    """

    kind: ClassVar[str] = "parallel"
    openings: ClassVar[tuple[Opening, ...]] = (
        Opening(key="branches", label="branch", words="as a new branch", called="branch"),
        Opening(key="next", label="joined"),
        ON_ERROR,
    )
    fields: ClassVar[tuple[FormField, ...]] = (FormField(key="maxConcurrency", label="maxConcurrency"),)
    new: ClassVar[Raw] = {"branches": []}

    branches: tuple[str, ...]  # first node of each branch
    max_concurrency: int | None = None  # maximum number of branches that run at the same time; None: all

    @classmethod
    def read(cls, fields: Fields, reading: NodeReading) -> Self:
        branches = fields.texts("branches")
        if fields.fit and not branches:
            fields.misfit("'branches' must have at least one entry", (*fields.path, "branches"))
        return cls(
            **reading.common(fields),
            branches=tuple(branches),
            max_concurrency=fields.number("maxConcurrency", WHOLE, default=None),
        )

    @classmethod
    def detail(cls, raw: Mapping[str, Any]) -> str:
        return f"parallel: {len(as_list(raw.get('branches')))} branches"

    @property
    def inner_starts(self) -> tuple[str, ...]:
        return self.branches

    def ways_to_end(self, graph: Mapping[str, Sequence[str]], ending: Collection[str]) -> Sequence[str]:
        del ending
        # A branch is no way on by itself, and the node waits for all of them.
        if all(self.next in reachable(graph, [branch], self.next) for branch in self.branches):
            return [target for target in (self.next,) if target is not None]
        return [] if self.on_error is None else [self.on_error]

    def run(self, run: NodeRun) -> dict[str, Any]:
        chains = [(run.line.inner(run.record, first), first) for first in self.branches]
        outputs = run.chains(chains, self.next, self.max_concurrency or len(chains))
        by_branch = zip(self.branches, outputs, strict=True)
        return {first: output for first, output in by_branch if output is not UNDEFINED}
