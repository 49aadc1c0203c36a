"""Reads and writes the zip file of a workflow: reads within limits, writes atomically and reproducibly.

Only this module of the package accesses the file system. No file is unpacked to disk; names that would lead
out of a folder are refused anyway, as another program may unpack the archive less carefully.
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
from typing import IO, TYPE_CHECKING, Final

from ..system import replace_file
from .settings_xml import KnwfError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

#: The time of every file, the earliest that zip can store, so that the same workflow gives the same bytes.
_NO_TIME = (1980, 1, 1, 0, 0, 0)
#: The decompressors' errors for broken data; bz2 raises OSError.
_BROKEN_STREAM: Final = (zlib.error, lzma.LZMAError, OSError)


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchiveLimits:
    """The limits of an archive's content; sizes in bytes after decompression.

    Settings files of all nodes are small, so a large one is an attack or broken. ``total`` limits the bytes
    that are read, not those in the archive, as the data of executed nodes are not read.
    """

    entries: int = 100_000
    settings_file: int = 32 << 20
    other_file: int = 256 << 20
    total: int = 512 << 20


DEFAULT_LIMITS: Final = ArchiveLimits()


class Archive:
    """The files of a workflow archive, by their path below its one folder; `name` is that of the folder.

    An iterable of these paths; `read` gives the content. KnwfError for a file that is no zip file, or holds
    no or several folders, an unsafe or repeated name, or too many files.
    """

    def __init__(self, path: str | os.PathLike[str] | IO[bytes], limits: ArchiveLimits) -> None:
        self._limits = limits
        self._bytes_left = limits.total
        named = isinstance(path, (str, os.PathLike))
        self._label = (Path(path).name or str(path)) if named else "the file"
        if named and Path(path).is_dir():
            raise KnwfError(f"{self._label} is a folder; export the workflow from KNIME")
        try:
            self._zip = zipfile.ZipFile(path)
        except (zipfile.BadZipFile, NotImplementedError, ValueError) as error:
            raise KnwfError(f"{self._label} is no workflow archive: {error}") from None
        try:
            self.name, self._files = self._list_files()
        # Nobody else has the file yet to close it.
        except BaseException:
            self._zip.close()
            raise

    def __enter__(self) -> Archive:
        return self

    def __exit__(self, *_: object) -> None:
        self._zip.close()

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(self._files))

    def _list_files(self) -> tuple[str, set[str]]:
        entries = self._zip.infolist()
        if len(entries) > self._limits.entries:
            raise KnwfError(f"{self._label} holds {len(entries)} files; {self._limits.entries} are allowed")
        names: set[str] = set()
        for entry in entries:
            _check_name(self._label, entry)
            if entry.filename in names:
                raise KnwfError(f"{self._label} holds {entry.filename[:200]!r} twice")
            names.add(entry.filename)
        tops = sorted({name.partition("/")[0] for name in names})
        if len(tops) != 1:
            shown = ", ".join(repr(top) for top in tops[:5]) or "nothing"
            raise KnwfError(f"{self._label} must hold one folder, the workflow; it holds {shown}")
        start = f"{tops[0]}/"
        files = {name.removeprefix(start) for name in names if not name.endswith("/")}
        if "workflow.knime" not in files:
            inner = sorted(name for name in files if name.endswith("/workflow.knime"))
            what = f"its first workflow is in {inner[0][:-15]!r}" if inner else "it holds no workflow"
            raise KnwfError(f"{self._label} has no workflow.knime in its folder {tops[0]!r}: {what}")
        return tops[0], files

    def read(self, path: str, *, settings: bool = False) -> bytes:
        """The content of a file; KnwfError if there is none, or it is too large, encrypted or broken."""
        if path not in self._files:
            raise KnwfError(f"{path!r} is not in the archive")
        allowed = self._limits.settings_file if settings else self._limits.other_file
        allowed = min(allowed, self._bytes_left)
        try:
            with self._zip.open(f"{self.name}/{path}") as file:
                data = file.read(allowed + 1)  # the real size counts, not the size that the archive claims
        except (zipfile.BadZipFile, EOFError, RuntimeError, ValueError, *_BROKEN_STREAM) as error:
            raise KnwfError(f"{path!r} in the archive cannot be read: {error}") from None
        if len(data) > allowed:
            raise KnwfError(f"{path!r} unpacks to more than {allowed} bytes, which is not allowed")
        self._bytes_left -= len(data)
        return data


def is_unsafe(path: str) -> bool:
    """Returns whether a path could lead out of the archive's folder, on any operating system."""
    # KNIME always writes "/", so paths in Windows' form are not KNIME's.
    windows = "\\" in path or bool(PureWindowsPath(path).drive)
    return windows or "\0" in path or any(part in ("", ".", "..") for part in path.split("/"))


def _check_name(label: str, entry: zipfile.ZipInfo) -> None:
    name = entry.filename
    if is_unsafe(name.removesuffix("/")) or "\0" in entry.orig_filename:
        raise KnwfError(f"{label} holds a file called {name[:200]!r}, which could land outside its folder")
    if stat.S_ISLNK(entry.external_attr >> 16):
        raise KnwfError(f"{label} holds {name[:200]!r}, a symbolic link, which workflows do not have")


def write_archive(path: str | os.PathLike[str], folder: str, files: Mapping[str, bytes]) -> None:
    """Writes a workflow archive atomically; replaces an existing file.

    ``files`` are by their path below ``folder``, the only one in the archive.
    """
    target = Path(path)
    handle, temporary = tempfile.mkstemp(prefix=f".{target.name[:40]}-", suffix=".tmp", dir=target.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            zip_into(file, {f"{folder}/{name}": files[name] for name in sorted(files)})
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


def zip_into(file: IO[bytes], entries: Mapping[str, bytes], *, stored: Collection[str] = frozenset()) -> None:
    """Writes a zip file of entries in their order, without times; ``stored`` are not compressed."""
    with zipfile.ZipFile(file, "w") as archive:
        for name, data in entries.items():
            info = zipfile.ZipInfo(name, date_time=_NO_TIME)
            info.compress_type = zipfile.ZIP_STORED if name in stored else zipfile.ZIP_DEFLATED
            # Otherwise both depend on the system on which it is written.
            info.create_system, info.external_attr = 3, 0o100644 << 16
            archive.writestr(info, data)


def _mode_of(target: Path) -> int:
    """The mode of the file that is replaced; without one, the mode of a new file."""
    try:
        return stat.S_IMODE(target.stat().st_mode)
    except OSError:
        # It can only be read by setting it.
        mask = os.umask(0)
        os.umask(mask)
        return 0o666 & ~mask
