"""Writes the zip file of a workflow, as a whole or not at all, and the same bytes for the same workflow."""

from __future__ import annotations

import contextlib
import os
import stat
import tempfile
import zipfile
from io import BytesIO
from pathlib import Path, PureWindowsPath
from typing import TYPE_CHECKING

from ..system import replace_file

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

#: The time of every file, the earliest that zip can store, so that the same workflow gives the same bytes.
_NO_TIME = (1980, 1, 1, 0, 0, 0)


def is_unsafe(path: str) -> bool:
    """Returns whether a path could lead out of the archive's folder, on any operating system."""
    # KNIME always writes "/", so paths in Windows' form are not KNIME's.
    windows = "\\" in path or bool(PureWindowsPath(path).drive)
    return windows or "\0" in path or any(part in ("", ".", "..") for part in path.split("/"))


def write_archive(path: str | os.PathLike[str], folder: str, files: Mapping[str, bytes]) -> None:
    """Writes a workflow archive atomically; replaces an existing file.

    ``files`` are by their path below ``folder``, the only one in the archive.
    """
    target = Path(path)
    handle, temporary = tempfile.mkstemp(prefix=f".{target.name[:40]}-", suffix=".tmp", dir=target.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(zipped_folder(folder, files))
            # Before the file takes its name: after a crash there is the old file or the new one, not an
            # empty one.
            file.flush()
            os.fsync(file.fileno())
        Path(temporary).chmod(_mode_of(target))  # mkstemp's files are for their owner only
        replace_file(Path(temporary), target)
    except BaseException:
        with contextlib.suppress(OSError):
            Path(temporary).unlink()
        raise


def zipped_folder(folder: str, files: Mapping[str, bytes]) -> bytes:
    """A zip file of files by their path below ``folder``."""
    return zipped({f"{folder}/{name}": files[name] for name in sorted(files)})


def zipped(entries: Mapping[str, bytes], *, stored: Collection[str] = frozenset()) -> bytes:
    """A zip file of entries in their order, without times; ``stored`` are not compressed."""
    file = BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for name, data in entries.items():
            info = zipfile.ZipInfo(name, date_time=_NO_TIME)
            info.compress_type = zipfile.ZIP_STORED if name in stored else zipfile.ZIP_DEFLATED
            # Otherwise both depend on the system on which it is written.
            info.create_system, info.external_attr = 3, 0o100644 << 16
            archive.writestr(info, data)
    return file.getvalue()


def _mode_of(target: Path) -> int:
    """The mode of the file that is replaced; without one, the mode of a new file."""
    try:
        return stat.S_IMODE(target.stat().st_mode)
    except OSError:
        # It can only be read by setting it.
        mask = os.umask(0)
        os.umask(mask)
        return 0o666 & ~mask
