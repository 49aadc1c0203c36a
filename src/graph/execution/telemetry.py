"""The costs of a run, per node and per type of node."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from .history import NodeRecord


@dataclass(slots=True)
class Spent:
    """The total costs of several nodes.

    Attributes:
        count: Executions.
        duration: Milliseconds.
        errors: Executions that failed.
    """

    count: int = 0
    duration: float = 0.0
    errors: int = 0

    def add(self, record: NodeRecord) -> None:
        """Adds one execution."""
        self.count += 1
        self.duration += record.duration or 0.0
        self.errors += record.error is not None


@dataclass(frozen=True, slots=True)
class Telemetry:
    """The costs of a run.

    Attributes:
        total_duration: Milliseconds from beginning to end.
        by_node: Per node id.
        by_type: Per type of node.
    """

    total_duration: float
    by_node: dict[str, Spent] = field(default_factory=dict[str, Spent])
    by_type: dict[str, Spent] = field(default_factory=dict[str, Spent])

    @property
    def error_count(self) -> int:
        """Executions that failed."""
        return sum(spent.errors for spent in self.by_node.values())


def telemetry_of(records: Iterable[NodeRecord], total_duration: float) -> Telemetry:
    """Adds up the costs of nodes.

    Args:
        records: The records of the run.
        total_duration: Milliseconds of the whole run.
    """
    telemetry = Telemetry(total_duration)
    for record in records:
        telemetry.by_node.setdefault(record.node_id, Spent()).add(record)
        telemetry.by_type.setdefault(record.node_type, Spent()).add(record)
    return telemetry
