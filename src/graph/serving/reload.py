"""Applies changes of a document while it is served."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

import anyio

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from ..api import McpGraphApi
    from .service import GraphService

_log = logging.getLogger(__name__)
_LOOK_SECONDS: Final = 0.25


class Reload:
    """Applies changes of a document's file. Invalid versions are not applied; the log lists their errors.

    The files are checked regularly, which works on every file system and can be canceled at once.

    Args:
        files: The document, and the other files that it is made from, in their current state.
        load: Loads the document again.
    """

    def __init__(self, files: list[Path], load: Callable[[], McpGraphApi]) -> None:
        self._files = files
        self._load = load
        self._loaded = self._state()

    async def run(self, service: GraphService) -> None:
        """Checks the files until it is canceled.

        Args:
            service: Serves each new version.
        """
        before = self._loaded
        while True:
            await anyio.sleep(_LOOK_SECONDS)
            now = await anyio.to_thread.run_sync(self._state, abandon_on_cancel=True)
            # A file may be incomplete while it is written, so it must be unchanged since the last check.
            if now == before != self._loaded:
                self._loaded = now
                await self._take_over(service)
            before = now

    async def _take_over(self, service: GraphService) -> None:
        try:
            api = await anyio.to_thread.run_sync(self._load)
        except Exception as error:
            _log.error("The changed document has errors, so the old one is still served: %s", error)
            return
        await service.replace(api)
        _log.info("The changed document is served now")

    def _state(self) -> list[tuple[int, ...] | None]:
        """The values that change with a file: its time, its size, and its inode if it is replaced."""
        return [_stamp(file) for file in self._files]


def _stamp(file: Path) -> tuple[int, ...] | None:
    try:
        stat = file.stat()
    except OSError:
        return None
    return stat.st_mtime_ns, stat.st_size, stat.st_ino
