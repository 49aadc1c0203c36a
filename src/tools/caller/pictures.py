"""Reads saved PNG files into KNIME's image cells."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any


def image_type() -> Any:
    """The logical type of PNG cells, None if this KNIME cannot write such cells from Python."""
    import knime.extension as knext

    try:
        return knext.logical(_pillow().Image)
    except (ImportError, TypeError):
        return None


def image_cells(paths: list[str | None]) -> Any:
    """Reads saved PNG files into cells; the cell of a file that is no PNG image is missing."""
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
    """The size of a saved PNG file in bytes; 0 if the file is missing."""
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
    """Pillow, whose images KNIME's Python takes. It comes with KNIME and is optional elsewhere."""
    return importlib.import_module("PIL.Image")
