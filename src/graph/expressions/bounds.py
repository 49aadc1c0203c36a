"""The limits of an evaluation: time, depth, and cancellation."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from .errors import Stopped

if TYPE_CHECKING:
    from collections.abc import Callable

_STEPS_PER_LOOK: Final = 64

DEFAULT_SECONDS: Final = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """Limits of one evaluation.

    Attributes:
        seconds: Maximum time.
        depth: Maximum nesting of evaluations. Each level of a recursive function takes several of them.
        is_stopped: Called now and then; True ends the evaluation. None: the evaluation cannot be stopped.
    """

    seconds: float = DEFAULT_SECONDS
    depth: int = 1000
    is_stopped: Callable[[], bool] | None = None


class TooLong(Exception):  # noqa: N818
    """The time is over."""


class TooDeep(Exception):  # noqa: N818
    """The nesting is too deep."""


class Watch:
    """Checks one evaluation against its bounds; the library calls it at each step.

    Args:
        bounds: The bounds.
    """

    __slots__ = ("_bounds", "_deadline", "_depth", "_steps")

    def __init__(self, bounds: Bounds) -> None:
        self._bounds = bounds
        self._deadline = time.monotonic() + bounds.seconds
        self._depth = 0
        self._steps = 0

    def enter(self, _expression: Any, _input: Any, _environment: Any) -> None:
        """Counts the beginning of a step.

        Raises:
            TooDeep: The nesting is too deep.
            TooLong: The time is over.
            Stopped: The evaluation was stopped from outside.
        """
        self._depth += 1
        if self._depth > self._bounds.depth:
            raise TooDeep("nested too deeply")
        self._steps += 1
        if self._steps >= _STEPS_PER_LOOK:
            self._steps = 0
            self._look()

    def leave(self, _expression: Any, _input: Any, _environment: Any, _result: Any) -> None:
        """Counts the end of a step."""
        self._depth -= 1

    def _look(self) -> None:
        """Checks the time, and whether the evaluation is to stop.

        Raises:
            TooLong: The time is over.
            Stopped: The evaluation was stopped from outside.
        """
        if time.monotonic() > self._deadline:
            raise TooLong
        if self._bounds.is_stopped is not None and self._bounds.is_stopped():
            raise Stopped("The evaluation was stopped")

    @property
    def left(self) -> float:
        """Seconds until the time is over; at least a millisecond."""
        return max(0.001, self._deadline - time.monotonic())
