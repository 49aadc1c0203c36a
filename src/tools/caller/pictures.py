"""Saved PNG files as KNIME's image cells."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any


def image_type() -> Any:
    """The logical type of PNG cells, None where this KNIME cannot write them from Python."""
    import knime.extension as knext

    try:
        return knext.logical(_pillow().Image)
    except (ImportError, TypeError):
        return None


def image_cells(paths: list[str | None]) -> Any:
    """Reads saved PNG files into cells. What is no image, whatever the server called it, is missing."""
    import pyarrow as pa

    image = image_type()
    assert image is not None, "the layout has images only where there is a type for them"
    arrow_type: Any = image.to_pyarrow()
    storage: list[Any] = []
    for path in paths:
        picture = None if path is None else _picture(Path(path))
        storage.append(None if picture is None else arrow_type.encode(picture))
    return pa.ExtensionArray.from_storage(arrow_type, pa.array(storage, arrow_type.storage_type))


def size_of_picture(path: str | None) -> int:
    """Says how many bytes a saved PNG file has; 0 where there is none."""
    try:
        return 0 if path is None else Path(path).stat().st_size
    except OSError:
        return 0


def _picture(path: Path) -> Any | None:
    pillow = _pillow()
    try:
        picture = pillow.open(path, formats=["PNG"])
        picture.load()
    except (OSError, ValueError, SyntaxError, pillow.DecompressionBombError):
        return None
    return picture


def _pillow() -> Any:
    """Pillow, in which KNIME's Python takes images; it comes with KNIME but is not required outside."""
    return importlib.import_module("PIL.Image")
