"""The files of results: pictures, sounds and other content that is not text."""

from __future__ import annotations

import itertools
import mimetypes
import re
from typing import TYPE_CHECKING, Final

from ...types.errors import MCPError

if TYPE_CHECKING:
    from pathlib import Path

    from ...runs.one_call import Call

FILES: Final = "mcp-files"
_UNFIT_FOR_FILES: Final = re.compile(r"[^\w.-]+")
_LONGEST_NAME: Final = 40  # file systems take 255 bytes
_ENDINGS: Final = {"audio/wav": ".wav", "audio/wave": ".wav", "audio/mp3": ".mp3", "audio/webm": ".weba"}
"""File endings for media types that Python's `mimetypes` does not know."""


class BlobStore:
    """Saves the blobs of results as files.

    Args:
        folder: The workflow's data area.
        run: Id of the run, whose files get a separate folder.
    """

    def __init__(self, folder: Path, run: str) -> None:
        self._folder = folder / FILES / run
        self._numbers = itertools.count(1)

    def save(self, call: Call, index: int, data: bytes, mime_type: str) -> str:
        """Saves one blob of the call's result and returns its path. Safe to use from several threads.

        Raises:
            MCPError: The file cannot be written.
        """
        row = _UNFIT_FOR_FILES.sub("_", call.input_row or "call")[:_LONGEST_NAME]
        name = f"{next(self._numbers):06d}-{row}-{index + 1}"
        return save_blob(self._folder, name, data, mime_type, fix="Make room, or save the workflow elsewhere")


def save_blob(folder: Path, name: str, data: bytes, mime_type: str, *, fix: str) -> str:
    """Saves one blob.

    Args:
        folder: The folder; created if it is missing.
        name: The file's name without its ending. Names given by a server are not used as paths.
        data: The bytes.
        mime_type: The media type that the server declares.
        fix: The advice in the error if the file cannot be written.

    Returns:
        The path of the file.

    Raises:
        MCPError: The file cannot be written.
    """
    kind = mime_type.partition(";")[0].strip().lower()
    file = folder / f"{name}{_ENDINGS.get(kind) or mimetypes.guess_extension(kind, strict=False) or '.bin'}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        file.write_bytes(data)
    except OSError as error:
        why = (error.strerror or str(error)).lower()
        raise MCPError(f"The tool has answered, but {file} could not be written: {why}", fix=fix) from None
    return str(file)
