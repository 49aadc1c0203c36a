"""The zip file around a workflow: read within bounds, written atomically and always the same way.

The only module here that touches the file system. Nothing is ever unpacked to disk; names that would lead out
of a folder are refused all the same, because whoever unpacks the archive next may be less careful.
"""

from __future__ import annotations

import contextlib
import lzma
import os
import stat
import tempfile
import zipfile
import zlib
from dataclasses import dataclass
from pathlib import Path, PureWindowsPath
from typing import TYPE_CHECKING, Final

from .settings import KnwfError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

#: Every file gets the earliest time that zip knows: the same workflow gives the same bytes.
_NO_TIME = (1980, 1, 1, 0, 0, 0)
#: How the decompressors say that what they read is broken; bz2 does so by an OSError.
_BROKEN_STREAM: Final = (zlib.error, lzma.LZMAError, OSError)


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchiveLimits:
    """What an archive may hold at most; sizes in bytes after decompression.

    A settings file is small whatever its node does, so a large one is an attack or broken. ``total`` counts
    what is read, not what is in the archive: the data of executed nodes stays where it is.
    """

    entries: int = 100_000
    settings_file: int = 32 << 20
    other_file: int = 256 << 20
    total: int = 512 << 20


DEFAULT_LIMITS: Final = ArchiveLimits()


class Archive:
    """The files of a workflow archive, by their path below its one folder.

    An iterable of these paths; `read` gives the content. Use as a context manager.

    Args:
        path: The ``.knwf`` file.
        limits: See `ArchiveLimits`.

    Attributes:
        name: Name of the folder, which is the workflow's name.

    Raises:
        KnwfError: no zip file, not the one folder, an unsafe or doubled name, or too many files.
    """

    def __init__(self, path: str | os.PathLike[str], limits: ArchiveLimits) -> None:
        self._label = Path(path).name
        self._limits = limits
        self._left = limits.total
        if Path(path).is_dir():
            raise KnwfError(f"{self._label} is a folder; export the workflow from KNIME")
        try:
            self._zip = zipfile.ZipFile(path)
        except (zipfile.BadZipFile, NotImplementedError, ValueError) as error:
            raise KnwfError(f"{self._label} is no workflow archive: {error}") from None
        try:
            self.name, self._files = self._listed()
        except BaseException:
            self._zip.close()
            raise

    def __enter__(self) -> Archive:
        return self

    def __exit__(self, *_: object) -> None:
        self._zip.close()

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(self._files))

    def _listed(self) -> tuple[str, set[str]]:
        entries = self._zip.infolist()
        if len(entries) > self._limits.entries:
            raise KnwfError(f"{self._label} holds {len(entries)} files; {self._limits.entries} are allowed")
        seen: set[str] = set()
        for entry in entries:
            _check_name(self._label, entry)
            if entry.filename in seen:
                raise KnwfError(f"{self._label} holds {entry.filename[:200]!r} twice")
            seen.add(entry.filename)
        tops = sorted({name.partition("/")[0] for name in seen})
        if len(tops) != 1:
            shown = ", ".join(repr(top) for top in tops[:5]) or "nothing"
            raise KnwfError(f"{self._label} must hold one folder, the workflow; it holds {shown}")
        start = f"{tops[0]}/"
        files = {name.removeprefix(start) for name in seen if not name.endswith("/")}
        if "workflow.knime" not in files:
            inner = sorted(name for name in files if name.endswith("/workflow.knime"))
            what = f"its first workflow is in {inner[0][:-15]!r}" if inner else "it holds no workflow"
            raise KnwfError(f"{self._label} has no workflow.knime in its folder {tops[0]!r}: {what}")
        return tops[0], files

    def read(self, path: str, *, settings: bool = False) -> bytes:
        """The content of a file.

        Raises:
            KnwfError: there is none, it is too large, encrypted or broken.
        """
        if path not in self._files:
            raise KnwfError(f"{path!r} is not in the archive")
        allowed = self._limits.settings_file if settings else self._limits.other_file
        allowed = min(allowed, self._left)
        try:
            with self._zip.open(f"{self.name}/{path}") as file:
                data = file.read(allowed + 1)  # what it unpacks to counts, not what the archive claims
        except (zipfile.BadZipFile, EOFError, RuntimeError, ValueError, *_BROKEN_STREAM) as error:
            raise KnwfError(f"{path!r} in the archive cannot be read: {error}") from None
        if len(data) > allowed:
            raise KnwfError(f"{path!r} unpacks to more than {allowed} bytes, which is not allowed")
        self._left -= len(data)
        return data


def is_unsafe(path: str) -> bool:
    """Returns whether a path could lead out of the folder that it belongs in, on any system."""
    # KNIME writes "/" everywhere, so what only Windows takes for a path is not its own.
    windows = "\\" in path or bool(PureWindowsPath(path).drive)
    return windows or "\0" in path or any(part in ("", ".", "..") for part in path.split("/"))


def _check_name(label: str, entry: zipfile.ZipInfo) -> None:
    name = entry.filename
    if is_unsafe(name.removesuffix("/")) or "\0" in entry.orig_filename:
        raise KnwfError(f"{label} holds a file called {name[:200]!r}, which could land outside its folder")
    if stat.S_ISLNK(entry.external_attr >> 16):
        raise KnwfError(f"{label} holds {name[:200]!r}, a symbolic link, which workflows do not have")


def write_archive(path: str | os.PathLike[str], folder: str, files: Mapping[str, bytes]) -> None:
    """Writes a workflow archive: whole, or not at all, in place of what was there.

    Args:
        path: The file. Its folder must exist.
        folder: Name of the one folder in it.
        files: Contents by path below that folder.

    Raises:
        OSError: the file cannot be written.
    """
    target = Path(path)
    handle, temporary = tempfile.mkstemp(prefix=f".{target.name[:40]}-", suffix=".tmp", dir=target.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            with zipfile.ZipFile(file, "w") as archive:
                for name in sorted(files):
                    info = zipfile.ZipInfo(f"{folder}/{name}", date_time=_NO_TIME)
                    info.compress_type = zipfile.ZIP_DEFLATED
                    info.create_system, info.external_attr = 3, 0o100644 << 16
                    archive.writestr(info, files[name])
            file.flush()
            os.fsync(file.fileno())
        Path(temporary).chmod(_mode_of(target))  # mkstemp's files are for their owner only
        Path(temporary).replace(target)
    except BaseException:
        with contextlib.suppress(OSError):
            Path(temporary).unlink()
        raise


def _mode_of(target: Path) -> int:
    """The mode of the file that is replaced, else the one that a new file gets."""
    try:
        return stat.S_IMODE(target.stat().st_mode)
    except OSError:
        mask = os.umask(0)
        os.umask(mask)
        return 0o666 & ~mask
