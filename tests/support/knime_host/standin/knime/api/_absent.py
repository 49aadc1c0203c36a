"""Refuses what KNIME's classes can do and no node of ours does."""

from collections.abc import Callable
from typing import Any, NoReturn


def not_here(what: str) -> Callable[..., Any]:
    """A function of KNIME's that can be imported, but not called."""

    def refuse(*_: Any, **__: Any) -> NoReturn:
        raise NotImplementedError(f"{what} is not part of the stand-in")

    return refuse
