"""Cuts results that are too long for a model, and keeps the whole text for reading on."""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import TYPE_CHECKING, Any, Final

from ...types.errors import ArgumentsInvalid

if TYPE_CHECKING:
    from collections.abc import Mapping

_MOST_KEPT: Final = 256 * 1024 * 1024  # characters
_SMALLEST_LIMIT: Final = 200

PROPERTIES: Final[Mapping[str, Any]] = {
    "id": {"type": "string", "description": "Id of the result, such as r1"},
    "offset": {
        "type": "integer",
        "minimum": 0,
        "default": 0,
        "description": "Position of the first character",
    },
    "limit": {
        "type": "integer",
        "minimum": 0,
        "default": 0,
        "description": "How many characters at most; 0 for as many as can be shown",
    },
}
DESCRIPTION: Final = "Reads on in a result of a tool that was too long to be shown as a whole."


class LargeResults:
    """The long results of one run. Safe to use from several threads.

    Args:
        limit: The most characters of one result in a message to the model.
        reader: Name of the built-in tool that reads on.
    """

    def __init__(self, limit: int, reader: str = "read_result") -> None:
        self.reader = reader
        self._limit = max(limit, _SMALLEST_LIMIT)
        self._lock = threading.Lock()
        self._kept: OrderedDict[str, tuple[str, str]] = OrderedDict()  # origin and text by id
        self._count = 0
        self._size = 0

    @property
    def any(self) -> bool:
        """True once a result was cut and kept."""
        return self._count > 0

    def cut(self, text: str, *, origin: str = "", reads_on: bool = True) -> str:
        """Shortens a long result to its beginning and its end.

        Args:
            text: The whole result.
            origin: The server that wrote the result; see `origin_of`.
            reads_on: Whether the model has the tool that reads on; then the whole text is kept, and the
                shortened text says how to read on.
        """
        if len(text) <= self._limit:
            return text
        head = self._limit * 3 // 4
        tail = self._limit - head
        remark = f"{len(text) - head - tail:,} of {len(text):,} characters are left out here."
        if reads_on:
            name = self._keep(origin, text)
            remark += (
                f" This is result {name}: to read on, call {self.reader} with"
                f' {{"id": "{name}", "offset": {head}}}.'
            )
        return f"{text[:head]}\n\n[{remark} The end follows.]\n\n{text[-tail:]}"

    def read(self, id: str, offset: int = 0, limit: int = 0) -> str:  # noqa: A002
        """Reads a part of a long result.

        Args:
            id: Its id.
            offset: Position of the first character, from 0.
            limit: The most characters to read; 0 for the limit of all results.

        Returns:
            The part, after a line with its position in the whole.

        Raises:
            ArgumentsInvalid: There is no result with this id, or the result is shorter.
        """
        with self._lock:
            result = self._kept.get(id)
            known = list(self._kept)
        if result is None:
            raise ArgumentsInvalid(
                f"There is no result {id!r}, or it is no longer held",
                pointer="/id",
                fix=f"Use one of {', '.join(known)}" if known else "Call the tool again",
            )
        _, text = result
        if offset >= len(text):
            raise ArgumentsInvalid(
                f"The result has only {len(text):,} characters", pointer="/offset", fix="Use a smaller offset"
            )
        end = min(offset + (min(limit, self._limit) or self._limit), len(text))
        rest = f"{len(text) - end:,} characters follow" if end < len(text) else "this is its end"
        where = f"Characters {offset:,} to {end:,} of the {len(text):,} of result {id}"
        return f"[{where}; {rest}]\n{text[offset:end]}"

    def origin_of(self, id: str) -> str:  # noqa: A002
        """The server that wrote a long result; empty if there is no result with this id."""
        with self._lock:
            return self._kept.get(id, ("", ""))[0]

    def _keep(self, origin: str, text: str) -> str:
        with self._lock:
            self._count += 1
            name = f"r{self._count}"
            self._kept[name] = (origin, text)
            self._size += len(text)
            while self._size > _MOST_KEPT and len(self._kept) > 1:
                self._size -= len(self._kept.popitem(last=False)[1][1])
            return name
