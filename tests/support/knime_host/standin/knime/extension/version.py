"""Versions of an extension, for `since_version` of parameters: three numbers that can be compared."""

from typing import NamedTuple, cast


class Version(NamedTuple):
    """A version ``major.minor.patch`` of an extension."""

    major: int
    minor: int
    patch: int

    def __repr__(self) -> str:
        """The text that ``parse_version`` reads."""
        return f"{self.major}.{self.minor}.{self.patch}"

    __str__ = __repr__

    @classmethod
    def parse_version(cls, version_string: "str | Version | None") -> "Version":
        """The version in a text. ``None`` stands for 0.0.0, and a version is returned unchanged."""
        if version_string is None:
            return cls(0, 0, 0)
        if isinstance(version_string, cls):
            return version_string
        parts = cast("str", version_string).split(".")
        try:
            found = [int(part) for part in parts]
        except ValueError:
            found = [-1]
        if len(found) != 3 or min(found) < 0:
            raise ValueError(f"{version_string!r} is not a version: write three whole numbers, as in '1.0.0'")
        return cls(*found)
