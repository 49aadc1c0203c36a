"""Measurements that run interleaved, and the table that they become.

Whatever else the machine does hits every way of a measurement, because the ways take turns, round after
round. A ratio is the median of the ratios within the rounds, so that slow minutes do not count against one
side only. Nothing is asserted about time.
"""

import random
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Way:
    """One way to do the same thing; `work` returns the seconds of doing it once, however often it does."""

    name: str
    work: Callable[[], float]


@dataclass(frozen=True)
class Row:
    """One line of the table. `values` are one per round, in `unit`; `ratio` is against the first way."""

    measurement: str
    way: str
    unit: str
    values: tuple[float, ...]
    ratio: float | None = None

    @property
    def cells(self) -> tuple[str, ...]:
        """The line as text: measurement, way, median, least, most, ratio."""
        numbers = (statistics.median(self.values), min(self.values), max(self.values))
        ratio = "" if self.ratio is None else f"{self.ratio:.3g}"
        return (self.measurement, self.way, *(f"{number:,.4g} {self.unit}" for number in numbers), ratio)


@dataclass
class Table:
    """The lines of one group, in order, printed as they come."""

    title: str
    rows: list[Row] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def add(self, row: Row) -> None:
        """Takes a line."""
        measurement, way, *numbers, ratio = row.cells
        print(f"{measurement:44.44} {way:38.38} {numbers[0]:>14}   {ratio}", flush=True)
        self.rows.append(row)

    def markdown(self) -> str:
        """The group as a section."""
        lines = [f"## {self.title}", "", "| measurement | way | median | min | max | ratio |"]
        lines.append("|---|---|--:|--:|--:|--:|")
        lines += ["| " + " | ".join(row.cells) + " |" for row in self.rows]
        return "\n".join([*lines, *(f"\n{note}" for note in self.notes)]) + "\n"

    def compare(self, measurement: str, ways: Sequence[Way], rounds: int, *, unit: str = "ms") -> None:
        """Runs the ways in turns and adds one line for each; ratios are against the first.

        Each round has another order, so that none mostly runs after the same other one: what that has left
        of caches would count for it. A round before the first warms up and is not counted, unless there is
        only one.
        """
        scale = {"s": 1.0, "ms": 1e3, "us": 1e6}[unit]
        found: dict[str, list[float]] = {way.name: [] for way in ways}
        for number in range(rounds + (rounds > 1)):
            for way in random.Random(number).sample(ways, len(ways)):
                found[way.name].append(way.work() * scale)
        skip = int(rounds > 1)
        reference = found[ways[0].name][skip:]
        for way in ways:
            values = found[way.name][skip:]
            ratio = statistics.median(own / other for own, other in zip(values, reference, strict=True))
            self.add(Row(measurement, way.name, unit, tuple(values), ratio))


def repeated(function: Callable[[], object], times: int = 1) -> Callable[[], float]:
    """Work that calls the function so often and returns the seconds of one call."""

    def work() -> float:
        start = time.perf_counter()
        for _ in range(times):
            function()
        return (time.perf_counter() - start) / times

    return work


def kept(function: Callable[[], object], share: float = 1.0, times: int = 1) -> Callable[[], float]:
    """Work that times the function without freeing its result; as if all were done, where a share is."""

    def work() -> float:
        taken = 0.0
        for _ in range(times):
            start = time.perf_counter()
            result = function()
            taken += time.perf_counter() - start
            del result
        return taken / times / share

    return work
