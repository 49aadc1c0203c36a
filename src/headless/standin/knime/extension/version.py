"""Versions of an extension, as parameters carry them: three whole numbers that can be compared."""

from typing import NamedTuple


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
        """The version that a text names; ``None`` stands for 0.0.0, a version is returned as it is.

        Raises:
            ValueError: the text is not three non-negative whole numbers joined by dots.
        """
        if version_string is None:
            return cls(0, 0, 0)
        if isinstance(version_string, cls):
            return version_string
        parts = str(version_string).split(".")
        if len(parts) != 3 or not all(part.strip().isdecimal() for part in parts):
            raise ValueError(f"{version_string!r} is no version: write three whole numbers, as in '1.0.0'")
        return cls(*(int(part) for part in parts))
