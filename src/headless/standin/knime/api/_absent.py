"""Names that KNIME has and this stand-in has not: whoever uses one is told so, by its name."""

from collections.abc import Callable
from typing import Any, NoReturn

#: The absent names, by module.
ABSENT: dict[str, tuple[str, ...]] = {}


def absent(module: str, *names: str) -> Callable[[str], Any]:
    """The ``__getattr__`` of a module without these names of KNIME's."""
    ABSENT[module] = names

    def refuse(name: str) -> NoReturn:
        if name in names:
            raise NotImplementedError(f"{name} of {module} is not part of the stand-in")
        raise AttributeError(f"module {module!r} has no attribute {name!r}")

    return refuse
