"""Where catalogues lie, and the one that is there without anybody building it.

`nodes build` writes to `user_catalogue`, which every command takes first. Without it there is the default
catalogue: the packs and the extension that come with this program, built on first use into the user's cache.
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
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ..version import VERSION
from .packs.included_files import own_packs
from .schema import SCHEMA_VERSION

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from .model import NodeSpec

_FOLDER: Final = "knime-mcp"
_OLD: Final = 30 * 24 * 3600.0


def user_catalogue() -> Path:
    """Where `nodes build` puts what it builds, unless it is told otherwise."""
    return _base("XDG_DATA_HOME", (".local", "share"), ("Library", "Application Support")) / "nodes.sqlite"


def cache_folder() -> Path:
    """Where the default catalogue lies."""
    return _base("XDG_CACHE_HOME", (".cache",), ("Library", "Caches"))


def default_catalogue(extension: Callable[[], Sequence[NodeSpec]], *, made_of: Sequence[Path] = ()) -> Path:
    """The default catalogue; built if it is not there yet, or was built of something else.

    Several processes may ask at once: each builds the same, and the last one's file stays.

    Args:
        extension: Gives the nodes of this program's own extension; only asked if there is something to build.
        made_of: The files that these nodes are made of: when they change, the catalogue is built anew.

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
        with suppress(OSError):  # what may be read need not be ours
            os.utime(path, ns=(time.time_ns(), path.stat().st_mtime_ns))
        return path
    from .building.build import build_catalogue  # every start but the first does without

    nodes = extension()
    try:
        build_catalogue(path, extensions=nodes)
        _remove_old(folder, path)
    except OSError:
        folder = Path(tempfile.mkdtemp(prefix=f"{_FOLDER}-"))
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
        path = folder / name
        build_catalogue(path, extensions=nodes)
    return path


def _key(made_of: Sequence[Path]) -> str:
    """Changes with whatever the default catalogue is made of."""
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


def _remove_old(folder: Path, path: Path) -> None:
    """Removes default catalogues of earlier versions, unless they were in use lately."""
    for other in folder.glob("default-*.sqlite"):
        try:
            found = other.stat()
            if other != path and time.time() - max(found.st_atime, found.st_mtime) > _OLD:
                other.unlink()
        except OSError:
            # Another process was faster, or has it open (Windows). Next time, then.
            continue


def _base(variable: str, unix: tuple[str, ...], mac: tuple[str, ...]) -> Path:
    """A folder of this program: https://specifications.freedesktop.org/basedir-spec/ and what systems do."""
    named = os.environ.get(variable, "")
    if named and Path(named).is_absolute():
        return Path(named) / _FOLDER
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local") / _FOLDER
    return Path.home().joinpath(*(mac if sys.platform == "darwin" else unix)) / _FOLDER
