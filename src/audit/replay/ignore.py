"""The parts of results that a comparison ignores: JSON pointers with ``*``, and regular expressions.

A rule that begins with ``/`` is a JSON pointer (RFC 6901) in which ``*`` stands for any member or item. It
points into the document that is compared (see `comparison`), so that paths of a patch can be copied:
``/structured_result/time``. A pointer that does not begin with a member of the document, such as ``/time`` or
``/items/*/id``, points into both forms of the result. Every other rule is a regular expression, whose matches
in texts are ignored. ``re:`` before the expression allows it to begin with ``/``.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, cast

from ...types.errors import SettingInvalid

if TYPE_CHECKING:
    from collections.abc import Iterable

IGNORED: Final = "⟨ignored⟩"
MEMBERS: Final = ("status", "result", "structured_result", "error")
"""The members of the document that is compared."""
_ANY: Final = "*"
_REGEX: Final = "re:"


@dataclass(frozen=True, slots=True)
class IgnoreRules:
    """The rules of a comparison.

    Attributes:
        pointers: The steps of each pointer.
        patterns: The regular expressions.
    """

    pointers: tuple[tuple[str, ...], ...] = ()
    patterns: tuple[re.Pattern[str], ...] = ()

    @classmethod
    def parse(cls, rules: Iterable[str]) -> IgnoreRules:
        """Reads rules.

        Args:
            rules: One rule each; empty ones are skipped.

        Returns:
            The rules.

        Raises:
            SettingInvalid: A regular expression is invalid.
        """
        pointers: list[tuple[str, ...]] = []
        patterns: list[re.Pattern[str]] = []
        for rule in filter(None, (text.strip() for text in rules)):
            if rule.startswith("/"):
                steps = tuple(step.replace("~1", "/").replace("~0", "~") for step in rule[1:].split("/"))
                whole = steps[0] in MEMBERS
                pointers += [steps] if whole else [("result", *steps), ("structured_result", *steps)]
                continue
            try:
                patterns.append(re.compile(rule.removeprefix(_REGEX)))
            except re.error as error:
                raise SettingInvalid(
                    f"The rule '{rule}' is neither a JSON pointer nor a regular expression: {error}",
                    setting="ignore",
                    fix="Write a pointer such as /structured_result/time, or correct the expression",
                ) from None
        return cls(tuple(pointers), tuple(patterns))

    def __bool__(self) -> bool:
        """Returns whether there is any rule."""
        return bool(self.pointers or self.patterns)

    def applied(self, document: dict[str, Any]) -> dict[str, Any]:
        """Removes the parts that the rules ignore.

        Args:
            document: A JSON object; it is not changed.

        Returns:
            A copy. Members that a pointer names are removed; items that it names become `IGNORED`, so that
            the other items keep their places.
        """
        copy: Any = document
        for steps in self.pointers:
            copy = _without(copy, steps)
        if self.patterns:
            copy = self._masked(copy)
        return copy

    def _masked(self, value: Any) -> Any:
        match value:
            case str():
                for pattern in self.patterns:
                    value = pattern.sub(IGNORED, value)
                return value
            case dict():
                members = cast("dict[str, Any]", value)
                return {name: self._masked(inner) for name, inner in members.items()}
            case list():
                return [self._masked(inner) for inner in cast("list[Any]", value)]
            case _:
                return value


def _without(value: Any, steps: tuple[str, ...]) -> Any:
    step, rest = steps[0], steps[1:]
    match value:
        case dict():
            members = cast("dict[str, Any]", value)
            if not rest:
                return {name: inner for name, inner in members.items() if step not in (_ANY, name)}
            return {
                name: _without(inner, rest) if step in (_ANY, name) else inner
                for name, inner in members.items()
            }
        case list():
            items = cast("list[Any]", value)
            return [
                (_without(inner, rest) if rest else IGNORED) if step in (_ANY, str(place)) else inner
                for place, inner in enumerate(items)
            ]
        case _:
            return value
