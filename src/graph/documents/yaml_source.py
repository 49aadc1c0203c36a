"""A graph document's text as values, with its mistakes as problems."""

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
        yaml: The values and where they stand.
        problems: What is wrong with single places; the rest could still be read.
    """

    yaml: Yaml
    problems: Sequence[Problem]

    @property
    def data(self) -> Any:
        """JSON: dict, list, str, int, float, bool, None."""
        return self.yaml.data

    def at(self, path: Path) -> Position:
        """The place of a key path; that of its nearest parent if there is no such key."""
        line, column = self.yaml.at(path)
        return Position(line=line, column=column, path=path)

    def value_at(self, path: Path) -> Position:
        """The place where the value of a key path begins; as `at` if there is no such key."""
        line, column = self.yaml.value_at(path)
        return Position(line=line, column=column, path=path)


def read_yaml(text: str, file: str) -> Source:
    """Reads a document.

    Args:
        text: The document.
        file: What it is called, for errors.

    Returns:
        Its values and where they stand. Duplicate keys, unknown tags and the like are in `Source.problems`.

    Raises:
        DocumentError: The text is no YAML at all, or nested or repeated beyond any use.
    """
    try:
        # As for js-yaml, every line has an end: a block at the end of the file, too.
        found = read(text if text.endswith(("\n", "\r")) else f"{text}\n", _RULES)
    except YamlError as error:
        raise DocumentError(file, map(_problem, error.mistakes)) from None
    return Source(found, [_problem(mistake) for mistake in found.mistakes])


def _problem(mistake: Mistake) -> Problem:
    position = Position(line=mistake.line, column=mistake.column, path=mistake.path)
    return Problem(message=mistake.what, position=position, fix=mistake.fix)
