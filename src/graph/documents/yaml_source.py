"""Reads a graph document's text as values, with js-yaml's scalars and JavaScript's numbers."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Any, Final

from ...types.errors import MCPError
from ...yaml_text import Hints, Problem, Rules, Severity, Yaml, YamlError, core_scalar, read, sorted_problems
from ..expressions.coercion import to_number, to_string
from ..expressions.values import plain_number

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

#: What people write instead of the forms of a document. JSONata's objects and lists are YAML's, too.
HINTS: Final = Hints(forms={"transform": "Write it as transform: {expr: ...}"}, quoted=frozenset({"expr"}))

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
