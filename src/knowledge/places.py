"""Where catalogues are stored.

`nodes build` writes to `user_catalogue`, which every command reads first. If there is none, commands read the
default catalogue: the packs and the extension that come with this program, built on first use in the cache.
"""

from __future__ import annotations

import atexit
import hashlib
import os
import shutil
import sys
import tempfile
import time
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ..version import VERSION
from .packs.included_files import own_packs
from .schema import SCHEMA_VERSION

if sys.platform != "win32":
    import fcntl
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from .model import NodeSpec

_FOLDER: Final = "knime-mcp"
_KEPT: Final = 2
"""So many default catalogues of other versions stay: several versions may be in use by turns."""


def user_catalogue() -> Path:
    """The default target of `nodes build`."""
    return _base("XDG_DATA_HOME", (".local", "share"), ("Library", "Application Support")) / "nodes.sqlite"


def cache_folder() -> Path:
    """The path of the default catalogue."""
    return _base("XDG_CACHE_HOME", (".cache",), ("Library", "Caches"))


def default_catalogue(extension: Callable[[], Sequence[NodeSpec]], *, made_of: Sequence[Path] = ()) -> Path:
    """The default catalogue; built if it is not there yet, or was built of something else.

    Several processes may ask at once: each builds the same, and the last one's file stays.

    Args:
        extension: Gives the nodes of this program's own extension; only asked if there is something to build.
        made_of: The files that define these nodes: when they change, the catalogue is built again.

    Returns:
        The file. Where the cache cannot be written to, one in a temporary folder that goes with this process.

    Raises:
        CatalogueError: It cannot be built.
        OSError: There is no place to write to at all.
    """
    name = f"default-{_key(made_of)}.sqlite"
    folder = cache_folder()
    path = folder / name
    if path.is_file():
        with suppress(OSError):  # a file that may be read may belong to somebody else
            os.utime(path, ns=(time.time_ns(), path.stat().st_mtime_ns))
        _hold(path)
        return path
    from .building.build import build_catalogue  # every start but the first does without

    nodes = extension()
    try:
        build_catalogue(path, extensions=nodes)
        _hold(path)
        _remove_old(folder, path)
    except OSError:
        folder = Path(tempfile.mkdtemp(prefix=f"{_FOLDER}-"))
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
        path = folder / name
        build_catalogue(path, extensions=nodes)
    return path


def _key(made_of: Sequence[Path]) -> str:
    """A hash of everything that the default catalogue is built from."""
    key = hashlib.sha256(f"{VERSION} {SCHEMA_VERSION}".encode())
    for pack in own_packs():
        key.update(pack.read_bytes())
    for file in sorted(made_of):
        try:
            found = file.stat()
        except FileNotFoundError:  # a program that is just being updated
            continue
        key.update(f"{file} {found.st_size} {found.st_mtime_ns}\n".encode())
    return key.hexdigest()[:16]


def _remove_old(folder: Path, new: Path) -> None:
    """Removes default catalogues of other versions, but for the last used and those that processes hold."""
    with suppress(FileNotFoundError):  # another process removes them as well
        others = [(_last_use(file), file) for file in folder.glob("default-*.sqlite") if file != new]
        for _, old in sorted(others, reverse=True)[_KEPT:]:
            _remove_unless_held(old)


def _last_use(file: Path) -> float:
    found = file.stat()
    return max(found.st_atime, found.st_mtime)


@cache
def _hold(file: Path) -> None:
    """Keeps other processes from removing a file until this one ends."""
    if sys.platform != "win32":
        with suppress(OSError):  # not every file system has locks
            fcntl.flock(os.open(file, os.O_RDONLY), fcntl.LOCK_SH)


def _remove_unless_held(file: Path) -> None:
    with suppress(PermissionError, BlockingIOError):
        if sys.platform == "win32":
            file.unlink()  # fails as long as a process has it open
            return
        handle = os.open(file, os.O_RDONLY)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            file.unlink()
        finally:
            os.close(handle)


def _base(variable: str, unix: tuple[str, ...], mac: tuple[str, ...]) -> Path:
    """A folder of this program: https://specifications.freedesktop.org/basedir-spec/ and what systems do."""
    named = os.environ.get(variable, "")
    if named and Path(named).is_absolute():
        return Path(named) / _FOLDER
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local") / _FOLDER
    return Path.home().joinpath(*(mac if sys.platform == "darwin" else unix)) / _FOLDER
