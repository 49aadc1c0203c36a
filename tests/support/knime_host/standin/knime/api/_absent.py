"""What KNIME has and this stand-in has not, as no node of this project uses it.

Other extensions are imported here, too, and describe their nodes. So what they name while they are imported,
and all settings and ports that they declare, are there; what only their running nodes could use is not, and
says so.
"""

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


def not_here(what: str) -> Callable[..., Any]:
    """A function of KNIME's that can be imported, but not called."""

    def refuse(*_: Any, **__: Any) -> NoReturn:
        raise NotImplementedError(f"{what} is not part of the stand-in")

    return refuse
