"""Which of the project's own modules a piece of work crosses."""

import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

SRC = Path(__file__).parents[2] / "src"
#: What stands in for KNIME is not on the way of a call inside KNIME; what stands before the operating system
#: is as little a part of it as Python's own modules are.
OUTSIDE = ("headless", "system.py")


class Crossed(NamedTuple):
    """Own modules, and how many of their functions, were entered."""

    modules: frozenset[str]
    functions: int


def crossed(work: Callable[[], Any]) -> Crossed:
    """Runs `work` and notes what it enters, in all threads that it starts; imports do not count."""
    entered: set[tuple[str, str]] = set()
    root = f"{SRC}/"
    importing = threading.local()

    def note(frame: FrameType, event: str, _: Any) -> None:
        code = frame.f_code
        if code.co_name == "<module>":
            change = {"call": 1, "return": -1}.get(event, 0)
            importing.depth = getattr(importing, "depth", 0) + change
        elif event == "call" and code.co_filename.startswith(root) and not getattr(importing, "depth", 0):
            entered.add((code.co_filename.removeprefix(root), code.co_qualname))

    threading.setprofile(note)
    sys.setprofile(note)
    try:
        work()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)  # type: ignore[arg-type]
    inside = {(module, name) for module, name in entered if not module.startswith(OUTSIDE)}
    return Crossed(frozenset(module for module, _ in inside), len(inside))
