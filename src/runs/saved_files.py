"""Saves the pictures, sounds and other blobs of answers as files."""

from __future__ import annotations

import hashlib
import itertools
import re
import threading
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Final, cast

from ..client.protocol.media_types import PICTURES, file_ending
from ..types.errors import FileFailed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

    from .call_values import PlannedCall

FILES: Final = "mcp-files"
_UNFIT_FOR_FILES: Final = re.compile(r"[^\w.-]+")
_LONGEST_NAME: Final = 40  # file systems take 255 bytes
_SAVING: Final = threading.Lock()


def save_blobs(
    call: PlannedCall,
    blobs: Iterable[tuple[bytes, str]],
    save: Callable[[PlannedCall, int, bytes, str], str],
) -> tuple[tuple[str, ...], str | None]:
    """Saves the blobs of an answer; gives their paths and the path of the first picture."""
    files: list[str] = []
    image: str | None = None
    for data, kind in blobs:
        files.append(save(call, len(files), data, kind))
        image = files[-1] if image is None and kind in PICTURES else image
    return tuple(files), image


@dataclass(frozen=True, slots=True)
class BlobStore:
    """Saves the blobs of one run, in a folder of its own in the workflow's data area."""

    folder: Path
    run: str
    _numbers: Iterator[int] = field(
        init=False, default_factory=cast("Callable[[], Iterator[int]]", partial(itertools.count, 1))
    )

    def save(self, call: PlannedCall, index: int, data: bytes, mime_type: str) -> str:
        """Saves one blob of the call's result and gives its path. Safe to use from several threads."""
        row = _UNFIT_FOR_FILES.sub("_", call.input_row or "call")[:_LONGEST_NAME]
        name, folder = f"{next(self._numbers):06d}-{row}-{index + 1}", self.folder / FILES / self.run
        return save_blob(folder, name, data, mime_type, fix="Make room, or save the workflow elsewhere")


def save_blob(folder: Path, name: str, data: bytes, mime_type: str, *, fix: str) -> str:
    """Saves one blob, and gives the file's path; its ending follows from the media type.

    `name` has no ending, and is not a server's. A file with other content stays, as a record may name it: the
    new one's name gets its digest. `MCPError` says, with `fix`, that it cannot be written.
    """
    ending = file_ending(mime_type)
    file = folder / f"{name}{ending}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with _SAVING:
            if file.is_file() and (file.stat().st_size != len(data) or file.read_bytes() != data):
                file = folder / f"{name}-{hashlib.sha256(data).hexdigest()[:32]}{ending}"
            file.write_bytes(data)
    except OSError as error:
        why = (error.strerror or str(error)).lower()
        raise FileFailed(f"The tool has answered, but {file} could not be written: {why}", fix=fix) from None
    return str(file)
