"""Reads the mappings of a spec pack.

`yaml_text.Fields` reads documents whose keys are fixed by where they stand. In packs the keys that are
allowed depend on the format of each node, null stands for a missing value, and texts are stripped.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from knime_mcp.yaml_text import kind_of

if TYPE_CHECKING:
    from knime_mcp.yaml_text import Findings, Path


class PackMapping:
    """A mapping in a pack. Its methods add a problem and return a default instead of raising errors."""

    def __init__(self, data: Any, path: Path, findings: Findings) -> None:
        self.path = path
        self._findings = findings
        self._data: Mapping[str, Any] = {}
        self._is_mapping = isinstance(data, Mapping)
        if isinstance(data, Mapping):
            self._data = cast("Mapping[str, Any]", data)
        else:
            findings.error(f"must be a mapping of keys, not {kind_of(data)}", path)

    def __contains__(self, key: str) -> bool:
        return key in self._data

    def names(self) -> list[str]:
        return list(self._data)

    def wrong(self, key: str, what: str) -> None:
        """Adds a problem at a key of this mapping; at the mapping itself if `key` is empty."""
        self._findings.error(what, (*self.path, key) if key else self.path)

    def allow(self, *keys: str) -> None:
        """Reports unknown keys, each with the key that was probably meant."""
        for key, value in self._data.items():
            if key in keys:
                continue
            if value is None and " " in key:
                self.wrong(key, "is not a key here; a text with a comma inside { } has to be in quotes")
            else:
                near = difflib.get_close_matches(key, keys, n=1)
                meant = f"; did you mean '{near[0]}'?" if near else f"; allowed: {', '.join(keys)}"
                self.wrong(key, f"is not a key here{meant}")

    def any(self, key: str, default: Any = None) -> Any:
        return self._data.get(key, default)

    def text(self, key: str, default: str = "", *, required: bool = False) -> str:
        value = self._data.get(key)
        if value is None:
            # What is no mapping was reported already, and lacks every key.
            if required and self._is_mapping:
                self.wrong(key if key in self._data else "", f"'{key}' is missing")
            return default
        if not isinstance(value, str):
            self.wrong(key, f"must be a text, not {kind_of(value)}; put it in quotes")
            return default
        if required and not value.strip():
            self.wrong(key, "must not be empty")
        return value.strip()

    def flag(self, key: str, default: bool = False) -> bool:
        return self._of_kind(key, default, isinstance(self._data.get(key, default), bool), "true or false")

    def whole(self, key: str, default: int) -> int:
        # Not isinstance: `true` and `yes` would be whole numbers.
        return self._of_kind(key, default, type(self._data.get(key, default)) is int, "a whole number")

    def number(self, key: str) -> float | int | None:
        return self._of_kind(key, None, type(self._data.get(key)) in (int, float, type(None)), "a number")

    def texts(self, key: str) -> tuple[str, ...]:
        found: list[str] = []
        for index, value in enumerate(self.entries(key)):
            if isinstance(value, str) and value.strip():
                found.append(value.strip())
            else:
                what = f"must be a text that is not empty, not {kind_of(value)}"
                self._findings.error(what, (*self.path, key, index))
        return tuple(found)

    def entries(self, key: str) -> Sequence[Any]:
        return self._of_kind(key, (), isinstance(self._data.get(key), (list, type(None))), "a list") or ()

    def each(self, key: str) -> list[PackMapping]:
        return [
            PackMapping(value, (*self.path, key, index), self._findings)
            for index, value in enumerate(self.entries(key))
        ]

    def named(self, key: str) -> list[tuple[str, PackMapping]]:
        value = self._data.get(key)
        if value is None:
            return []
        inner = PackMapping(value, (*self.path, key), self._findings)
        return [(name, inner.inside(name)) for name in inner.names()]

    def inside(self, key: str) -> PackMapping:
        return PackMapping(self._data.get(key), (*self.path, key), self._findings)

    def mapping(self, key: str) -> Mapping[str, Any] | None:
        is_one = isinstance(self._data.get(key), (dict, type(None)))
        return self._of_kind(key, None, is_one, "a mapping of keys")

    def _of_kind(self, key: str, default: Any, is_one: bool, wanted: str) -> Any:
        value = self._data.get(key, default)
        if is_one:
            return value
        self.wrong(key, f"must be {wanted}, not {kind_of(value)}")
        return default
