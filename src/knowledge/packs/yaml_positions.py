"""YAML text into plain values, with the line and column of every key: for errors that name the place.

PyYAML means YAML 1.1, in which ``no`` is a truth value and ``12:30`` a number. Here texts without quotes mean
what YAML 1.2 says (https://yaml.org/spec/1.2.2/#103-core-schema).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Final, cast

import yaml

_LOADER: Final[type[Any]] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_MOST_VALUES: Final = 200_000
_DEEPEST: Final = 60
_TAG: Final = "tag:yaml.org,2002:"
_SCALARS: Final = frozenset({"str", "int", "float", "bool", "null", "timestamp"})
_NULL: Final = re.compile(r"(?:~|null|Null|NULL|)$")
_BOOL: Final = re.compile(r"(?:true|True|TRUE|false|False|FALSE)$")
_INT: Final = re.compile(r"(?:[-+]?[0-9]+|0x[0-9a-fA-F]+|0o[0-7]+)$")
_FLOAT: Final = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?$")

Path = tuple[str | int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A place in a text.

    Attributes:
        line: From 1.
        column: From 1.
    """

    line: int
    column: int


class YamlError(Exception):
    """A text that cannot be read, at `place`."""

    def __init__(self, what: str, place: Place) -> None:
        super().__init__(what)
        self.place = place


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacedYaml:
    """A document.

    Attributes:
        data: dict, list, str, int, float, bool, None.
        places: Where each key path stands.
    """

    data: Any
    places: dict[Path, Place]

    def at(self, path: Path) -> Place:
        """Where a key path stands; where its nearest parent stands if there is none."""
        for length in range(len(path), 0, -1):
            if path[:length] in self.places:
                return self.places[path[:length]]
        return Place(line=1, column=1)


def read_placed(text: str) -> PlacedYaml:
    """Reads one document.

    Raises:
        YamlError: It is no YAML, has a key twice, or uses what specs have no use for (tags, merge keys).
    """
    loader = _LOADER(text)
    try:
        node = loader.get_single_node()
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = Place(line=mark.line + 1, column=mark.column + 1) if mark else Place(line=1, column=1)
        raise YamlError(error.problem or "is no YAML", place) from None
    except (yaml.YAMLError, RecursionError) as error:
        raise YamlError(str(error) or "is nested too deeply", Place(line=1, column=1)) from None
    finally:
        loader.dispose()
    reading = _Reading()
    return PlacedYaml(data=None if node is None else reading.value(node, ()), places=reading.places)


class _Reading:
    def __init__(self) -> None:
        self.places: dict[Path, Place] = {}
        self._count = 0

    def value(self, node: Any, path: Path) -> Any:
        self._count += 1
        if self._count > _MOST_VALUES or len(path) > _DEEPEST:
            raise YamlError("is too large or too deep; look for aliases that repeat each other", _place(node))
        match node:
            case yaml.ScalarNode():
                return _scalar(node)
            case yaml.SequenceNode():
                self._plain(node, "seq")
                return [self._entry(entry, (*path, index)) for index, entry in enumerate(_children(node))]
            case _:
                self._plain(node, "map")
                return self._mapping(node, path)

    def _entry(self, node: Any, path: Path) -> Any:
        self.places[path] = _place(node)
        return self.value(node, path)

    def _mapping(self, node: Any, path: Path) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for key_node, value_node in cast("list[tuple[Any, Any]]", node.value):
            if not isinstance(key_node, yaml.ScalarNode):
                raise YamlError("a key must be text", _place(key_node))
            key = str(key_node.value)
            if key == "<<" and _is_plain(key_node):
                raise YamlError("merge keys (<<) are not read; repeat the keys", _place(key_node))
            if key in found:
                raise YamlError(f"the key '{key}' stands here twice", _place(key_node))
            self.places[*path, key] = _place(key_node)
            found[key] = self.value(value_node, (*path, key))
        return found

    def _plain(self, node: Any, kind: str) -> None:
        if node.tag != _TAG + kind:
            raise YamlError(f"the tag {node.tag} is not read", _place(node))


def _children(node: Any) -> list[Any]:
    return node.value


def _scalar(node: Any) -> Any:
    text = cast("str", node.value)
    if node.tag.removeprefix(_TAG) not in _SCALARS:
        raise YamlError(f"the tag {node.tag} is not read", _place(node))
    return _plain_scalar(text) if _is_plain(node) else text


def _is_plain(node: Any) -> bool:
    """Whether a scalar stands there without quotes; libyaml's parser says "" for that, Python's None."""
    return not node.style


def _plain_scalar(text: str) -> Any:
    if _NULL.match(text):
        return None
    if _BOOL.match(text):
        return text.lower() == "true"
    if _INT.match(text):
        return int(text, 0) if text.lower().startswith(("0x", "0o")) else int(text)
    return float(text) if _FLOAT.match(text) else text


def _place(node: Any) -> Place:
    return Place(line=node.start_mark.line + 1, column=node.start_mark.column + 1)
