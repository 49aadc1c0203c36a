"""Reads a graph document's text as values, with js-yaml's scalars and JavaScript's numbers."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

from ..types.errors import MCPError
from ..yaml_text import (
    Hints,
    Problem,
    Rules,
    Severity,
    Yaml,
    YamlError,
    as_list,
    as_mapping,
    core_scalar,
    read,
    sorted_problems,
)
from .expressions.javascript import plain_number, to_number, to_string
from .graph_model import Dialect

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence


#: What people write instead of the forms of a document. JSONata's objects and lists are YAML's, too.
HINTS: Final = Hints(forms={"transform": "Write it as transform: {expr: ...}"}, quoted=frozenset({"expr"}))

#: The document that ``knime-mcp graph new`` writes; it runs unchanged, and its comments explain the rest.
STARTER: Final = Path(__file__).with_name("starter.yaml")

_INT: Final = re.compile(r"([-+]?)(0b[01]+|0x[0-9a-fA-F]+|0o[0-7]+|[0-9]+)")
_FLOAT: Final = re.compile(r"(?:[-+]?[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][-+]?[0-9]+)?")
_INFINITE: Final = re.compile(r"([-+]?)\.(?:inf|Inf|INF)")
_NAN: Final = frozenset({".nan", ".NaN", ".NAN"})
_LONGEST: Final = 1100
"""Binary digits of the largest number; Python is slow with, or refuses, longer texts."""


class DocumentError(MCPError):
    """A document cannot be served.

    Args:
        file: Name of the document.
        problems: All its problems, including warnings.

    Attributes:
        problems: All its problems, including warnings, in the order of the file.
    """

    def __init__(self, file: str, problems: Iterable[Problem]) -> None:
        self.problems: Sequence[Problem] = sorted_problems(problems)
        errors = [problem for problem in self.problems if problem.severity is Severity.ERROR]
        count = "1 error" if len(errors) == 1 else f"{len(errors)} errors"
        lines = "\n".join(f"  {problem.text(file)}" for problem in errors)
        super().__init__(f"{file} cannot be used because of {count}:\n{lines}")


def read_yaml(text: str, file: str) -> Yaml:
    """Reads a document; `file` is its name in errors.

    Returns:
        The values and their places. Duplicate keys, unknown tags and similar mistakes are in `Yaml.problems`.

    Raises:
        DocumentError: The text is not YAML, or has too much depth or repetition.
    """
    try:
        # As in js-yaml, the last line always has an end, which matters for a block at the end of the file.
        return read(text if text.endswith(("\n", "\r")) else f"{text}\n", _RULES)
    except YamlError as error:
        raise DocumentError(file, error.problems) from None


def javascript_scalar(text: str) -> Any:
    """Resolves an unquoted scalar to None, a truth value, a number or the text itself.

    Numbers that are too large stay texts; numbers without a fraction are integers, as in JavaScript.
    """
    if text in _NAN:
        return math.nan
    if infinite := _INFINITE.fullmatch(text):
        return -math.inf if infinite[1] == "-" else math.inf
    if (whole := _INT.fullmatch(text)) and len(text) <= _LONGEST:
        digits = whole[2]
        base = {"0b": 2, "0o": 8, "0x": 16}.get(digits[:2], 10)
        number = to_number(int(whole[1] + digits[2 if base != 10 else 0 :], base))
    elif _FLOAT.fullmatch(text):
        number = float(text)
    else:
        value = core_scalar(text)
        # All numbers of js-yaml were handled above; it does not accept "-.5".
        return value if value is None or isinstance(value, bool) else text
    if not math.isfinite(number):
        return text
    return number if isinstance(number, int) else plain_number(number)


_RULES: Final = Rules(
    merge_keys=True,
    most_values=100_000,
    deepest=200,
    scalar=javascript_scalar,
    key=lambda text: to_string(javascript_scalar(text)),
)

# "$.entry.path", "$entry", "$count(...)", "$$", "$previousNode()" or "$ ~> $keys()", but not "$5.00" or "$".
_LOOKS_LIKE_JSONATA: Final = re.compile(r"\$(?:[.$\[({^]|[^\W\d]|\s*(?:~>|[&=?!]))")


@dataclass(frozen=True, slots=True)
class Choice:
    """A dialect, and the part of the document that shows it."""

    dialect: Dialect
    reason: str


def choose_dialect(data: Any) -> Choice:
    """Detects the dialect of a document.

    A switch decides first, as its two forms exclude each other; then ``{expr: ...}`` among arguments; then
    arguments that look like expressions. A document with none of these has the same meaning in both dialects.
    """
    nodes = list(raw_nodes(data))
    for node in nodes:
        if any("target" in condition for condition in _conditions(node)):
            return Choice(Dialect.TARGET, f"the switch '{node.get('id')}' has conditions with 'target'")
    for node in nodes:
        if node.get("type") == "switch" and ("next" in node or any("next" in c for c in _conditions(node))):
            return Choice(Dialect.NEXT, f"the switch '{node.get('id')}' uses 'next'")
    for node in nodes:
        if node.get("type") == "switch":
            return Choice(Dialect.TARGET, f"the switch '{node.get('id')}' has no 'next'")
    args = [(node, node["args"]) for node in nodes if isinstance(node.get("args"), dict)]
    for node, values in args:
        if _has_expr(values):
            return Choice(Dialect.NEXT, f"the arguments of '{node.get('id')}' have {{expr: ...}}")
    for node, values in args:
        for name, value in cast("dict[str, Any]", values).items():
            if isinstance(value, str) and looks_like_jsonata(value):
                return Choice(Dialect.TARGET, f"the argument '{name}' of '{node.get('id')}' begins with '$'")
    return Choice(Dialect.NEXT, "nothing in it depends on the dialect")


def looks_like_jsonata(text: str) -> bool:
    """Returns whether a text begins like an expression (``$.a``, ``$f(``), not like a price (``$5.00``)."""
    return _LOOKS_LIKE_JSONATA.match(text) is not None


def raw_nodes(data: Any) -> Iterator[dict[str, Any]]:
    for holder in (data, *_entries(data, "tools")):
        yield from _entries(holder, "nodes")


def _entries(holder: Any, key: str) -> list[dict[str, Any]]:
    return [entry for entry in as_list(as_mapping(holder).get(key)) if isinstance(entry, dict)]


def _conditions(node: dict[str, Any]) -> list[dict[str, Any]]:
    return _entries(node, "conditions") if node.get("type") == "switch" else []


def _has_expr(value: Any) -> bool:
    if isinstance(value, dict):
        values = cast("dict[str, Any]", value)
        is_expression = len(values) == 1 and isinstance(values.get("expr"), str)
        return is_expression or any(_has_expr(entry) for entry in values.values())
    return isinstance(value, list) and any(_has_expr(entry) for entry in cast("list[Any]", value))
