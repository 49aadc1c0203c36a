"""What an expression in Java source is worth, as far as the source alone says."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from .java_classes import JavaClass


class _Unknown:
    def __repr__(self) -> str:
        return "?"

    def __bool__(self) -> bool:
        return False


UNKNOWN: Final = _Unknown()


@dataclass(frozen=True, slots=True)
class ClassRef:
    name: str


@dataclass(frozen=True, slots=True)
class Static:
    """A static field or an enum's constant that is not looked into."""

    owner: str
    name: str


@dataclass(slots=True, eq=False)
class Obj:
    """An object. `base` is the first constructor up the line that is not looked into, with its arguments."""

    type: str
    args: list[Any] = field(default_factory=list[Any])
    cls: JavaClass | None = None
    fields: dict[str, Any] = field(default_factory=dict[str, Any])
    base: tuple[str, list[Any]] | None = None
    calls: list[Call] = field(default_factory=list["Call"])
    scope: Any = None  # of an anonymous class: where it was made


@dataclass(slots=True, eq=False)
class Call:
    """A call that is not looked into, which stands for its result, too."""

    name: str
    args: list[Any]
    target: Any = None  # an object, a call, or a ClassRef for static methods

    def chain(self) -> list[Call]:
        """The calls of a chain such as ``builder().name("x").build()``, the first one first."""
        found: list[Call] = []
        call: Any = self
        while isinstance(call, Call):
            found.append(call)
            call = call.target
        return found[::-1]


@dataclass(slots=True, eq=False)
class Lambda:
    parameters: list[str]
    body: Any  # the node of an expression or a block
    frame: Any


@dataclass(slots=True, eq=False)
class MethodRef:
    target: Any
    name: str
    frame: Any
