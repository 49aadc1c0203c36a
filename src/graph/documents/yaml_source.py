"""Reads a graph document's text as values, with mistakes as problems."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from ...yaml_text import Mistake, Rules, Yaml, YamlError, read
from ..nodes import Position
from .javascript_scalars import javascript_key, javascript_scalar
from .problems import DocumentError, Problem

if TYPE_CHECKING:
    from collections.abc import Sequence

Path = tuple[str | int, ...]
_RULES: Final = Rules(
    merge_keys=True, most_values=100_000, deepest=200, scalar=javascript_scalar, key=javascript_key
)


@dataclass(frozen=True, slots=True)
class Source:
    """A document's text as values.

    Attributes:
        yaml: The values and their places.
        problems: Mistakes that did not keep the rest from being read.
    """

    yaml: Yaml
    problems: Sequence[Problem]

    @property
    def data(self) -> Any:
        """JSON: dict, list, str, int, float, bool, None."""
        return self.yaml.data

    def at(self, path: Path) -> Position:
        """The place of a key path; if there is no such key, the place of its nearest parent."""
        line, column = self.yaml.at(path)
        return Position(line=line, column=column, path=path)

    def value_at(self, path: Path) -> Position:
        """The place where the value of a key path begins; like `at` if there is no such key."""
        line, column = self.yaml.value_at(path)
        return Position(line=line, column=column, path=path)


def read_yaml(text: str, file: str) -> Source:
    """Reads a document.

    Args:
        text: The document.
        file: Its name, for errors.

    Returns:
        The values and their places. Duplicate keys, unknown tags and similar mistakes are in
        `Source.problems`.

    Raises:
        DocumentError: The text is not YAML, or has too much depth or repetition.
    """
    try:
        # As in js-yaml, the last line always has an end, which matters for a block at the end of the file.
        yaml = read(text if text.endswith(("\n", "\r")) else f"{text}\n", _RULES)
    except YamlError as error:
        raise DocumentError(file, map(_problem, error.mistakes)) from None
    return Source(yaml, [_problem(mistake) for mistake in yaml.mistakes])


def _problem(mistake: Mistake) -> Problem:
    position = Position(line=mistake.line, column=mistake.column, path=mistake.path)
    return Problem(message=mistake.what, position=position, fix=mistake.fix)
