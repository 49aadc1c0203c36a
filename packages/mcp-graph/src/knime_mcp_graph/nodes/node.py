"""What every kind of node has: how it is read, checked, run, drawn and edited. Each kind is a module here."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any, ClassVar, Final, Self

from knime_mcp.yaml_text import as_list, as_mapping

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from knime_mcp.yaml_text import Fields, Path, Position, Yaml

    from ..document_checks import GraphChecks
    from ..document_reading import NodeReading
    from ..executor import NodeRun
    from ..graph_model import Dialect, Part

Raw = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """An edge from one node to another, and the key below the node in which its target stands."""

    source: str
    target: str
    label: str
    key: Path
    called: str  # what messages call the target

    @property
    def is_error(self) -> bool:
        return self.key == ("onError",)


@dataclass(frozen=True, slots=True, kw_only=True)
class Opening:
    """A key of a node with the id of the node that follows, or with a list of such ids."""

    key: str
    label: str = ""
    words: str = "next"  # on the page, for a way that is added
    called: str = "next node"

    def ways(self, raw: Mapping[str, Any]) -> Iterator[Way]:
        written = raw.get(self.key)
        if isinstance(written, str):
            yield self.way(raw, written, (self.key,), self.label)
        for index, target in enumerate(as_list(written)):
            if isinstance(target, str):
                yield self.way(raw, target, (self.key, index), self.label)

    def way(self, raw: Mapping[str, Any], target: str, key: Path, label: str) -> Way:
        return Way(source=str(raw.get("id")), target=target, label=label, key=key, called=self.called)


NEXT: Final = Opening(key="next")
ON_ERROR: Final = Opening(key="onError", label="error", words="if it fails", called="onError node")


class Shape(StrEnum):
    """How a node is drawn."""

    BOX = "box"
    END = "end"
    CALL = "call"
    SWITCH = "switch"


class Form(StrEnum):
    """How a key of a node is written, and edited on the page."""

    EXPRESSION = "expression"  # as ``{expr: ...}`` or, in ``items``, as a text
    ARGUMENTS = "arguments"
    RULES = "rules"
    SERVER = "server"
    SERVER_TOOL = "serverTool"
    TOOL = "tool"
    SETTING = "setting"  # a short value, JSON or text


@dataclass(frozen=True, slots=True, kw_only=True)
class FormField:
    key: str
    label: str
    form: Form = Form.SETTING


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """A node as it stands in its document."""

    raw: Mapping[str, Any]
    path: Path
    source: Yaml
    dialect: Dialect

    def at(self, *keys: str | int) -> Position:
        return self.source.at((*self.path, *keys))


@dataclass(frozen=True, slots=True, kw_only=True)
class Node(ABC):
    """A node of a graph.

    Attributes:
        kind: Its type, as documents have it.
        openings: The keys in which its ways stand.
        fields: The keys that its form on the page shows, besides id and ways.
        new: What a new node has on the page.
        computes_only: Whether it calls nothing.
        id: Unique in its tool.
        next: The node that follows, if it does not decide that itself.
        on_error: The node that follows if it fails; None ends the run.
    """

    kind: ClassVar[str]
    shape: ClassVar[Shape] = Shape.BOX
    openings: ClassVar[tuple[Opening, ...]] = (NEXT, ON_ERROR)
    fields: ClassVar[tuple[FormField, ...]] = ()
    new: ClassVar[Raw] = {}
    computes_only: ClassVar[bool] = False

    id: str
    next: str | None = None
    on_error: str | None = None
    written: Written = field(compare=False, repr=False)

    @classmethod
    @abstractmethod
    def read(cls, fields: Fields, reading: NodeReading) -> Self:
        """Makes the node from its keys; what is wrong with them is among the findings."""

    @abstractmethod
    def run(self, run: NodeRun) -> Any:
        """Does the work of the node; returns its output."""

    @classmethod
    def opened(cls, dialect: Dialect) -> tuple[Opening, ...]:
        """The keys in which its ways stand in a dialect."""
        del dialect
        return cls.openings

    @classmethod
    def ways_of(cls, raw: Mapping[str, Any], dialect: Dialect) -> Iterator[Way]:
        """The ways of a node, in the order in which they are tried, also if it has mistakes."""
        for opening in cls.opened(dialect):
            yield from opening.ways(raw)

    @classmethod
    def detail(cls, raw: Mapping[str, Any]) -> str:
        """Its work in one short line, also if it has mistakes."""
        return str(raw.get("type") or "no type")

    @property
    def position(self) -> Position:
        return self.written.at()

    @property
    def ways(self) -> tuple[Way, ...]:
        return tuple(self.ways_of(self.written.raw, self.written.dialect))

    @property
    def parts(self) -> tuple[tuple[str, Part], ...]:
        """What it evaluates, by names for people."""
        return ()

    @property
    def inner_starts(self) -> tuple[str, ...]:
        """The first nodes of the chains inside of it, which end at `next`."""
        return ()

    @property
    def facts(self) -> tuple[tuple[str, Any], ...]:
        """Its short settings, by names for people."""
        shown = (each for each in self.fields if each.form not in _EVALUATED)
        values = ((each.label, self.written.raw.get(each.key)) for each in shown)
        return tuple((label, value) for label, value in values if value is not None)

    def check(self, checks: GraphChecks, tool: str) -> None:
        """Finds what only this kind of node can have wrong, in a tool of that name."""
        del checks, tool

    def ways_to_end(self, graph: Mapping[str, Sequence[str]], ending: Collection[str]) -> Sequence[str]:
        """The nodes that can follow if only tools in `ending` come to an end."""
        del ending
        return graph[self.id]

    def following(self, output: Any) -> str | None:
        del output
        return self.next


_EVALUATED: Final = frozenset({Form.EXPRESSION, Form.ARGUMENTS, Form.RULES})


def kind_in(kinds: Mapping[str, type[Node]], raw: Any) -> type[Node]:
    """The kind of a node as it is written; `Node` itself if it has no known one."""
    kind = as_mapping(raw).get("type")
    return kinds.get(kind, Node) if isinstance(kind, str) else Node
