"""The pictures, sounds and other blobs of results, saved as files."""

from __future__ import annotations

import itertools
import mimetypes
import re
from typing import TYPE_CHECKING, Final

from ..client.protocol.tools import AudioContent, EmbeddedResource, ImageContent
from ..types.errors import MCPError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from ..client.protocol.tools import ContentBlock
    from .call_values import PlannedCall

FILES: Final = "mcp-files"
_UNFIT_FOR_FILES: Final = re.compile(r"[^\w.-]+")
_LONGEST_NAME: Final = 40  # file systems take 255 bytes
_ENDINGS: Final = {"audio/wav": ".wav", "audio/wave": ".wav", "audio/mp3": ".mp3", "audio/webm": ".weba"}
"""File endings for media types that Python's `mimetypes` does not know."""


def save_blobs(
    call: PlannedCall,
    blocks: tuple[ContentBlock, ...],
    save: Callable[[PlannedCall, int, bytes, str], str],
) -> tuple[tuple[str, ...], str | None]:
    """Saves the blobs of an answer; gives their paths and the path of the first picture."""
    files: list[str] = []
    image: str | None = None
    for block in blocks:
        match block:
            case ImageContent(data=data, mime_type=mime_type) | AudioContent(data=data, mime_type=mime_type):
                pass
            case EmbeddedResource(blob=bytes(data), mime_type=mime_type):
                pass
            case _:
                continue
        files.append(save(call, len(files), data, mime_type or "application/octet-stream"))
        if image is None and mime_type == "image/png":
            image = files[-1]
    return tuple(files), image


class BlobStore:
    """Saves the blobs of one run, in a folder of its own in the workflow's data area."""

    def __init__(self, folder: Path, run: str) -> None:
        self._folder = folder / FILES / run
        self._numbers = itertools.count(1)

    def save(self, call: PlannedCall, index: int, data: bytes, mime_type: str) -> str:
        """Saves one blob of the call's result and gives its path. Safe to use from several threads."""
        row = _UNFIT_FOR_FILES.sub("_", call.input_row or "call")[:_LONGEST_NAME]
        name = f"{next(self._numbers):06d}-{row}-{index + 1}"
        return save_blob(self._folder, name, data, mime_type, fix="Make room, or save the workflow elsewhere")


def save_blob(folder: Path, name: str, data: bytes, mime_type: str, *, fix: str) -> str:
    """Saves one blob, and gives the file's path; its ending follows from the media type.

    `name` has no ending, and must not come from a server. `MCPError`, with
    `fix` as its advice, says that the file cannot be written.
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
