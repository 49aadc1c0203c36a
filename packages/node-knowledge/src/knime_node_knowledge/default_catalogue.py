"""Paths of catalogues, and the default catalogue.

`knime-nodes build` writes to `user_catalogue`, which every command prefers. If that does not exist, commands
read the default catalogue of what is included, which is built in the cache on first use.
"""

from __future__ import annotations

import atexit
import hashlib
import os
import shutil
import tempfile
import time
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

from knime_mcp.system import keep, remove_unless_kept, user_folder
from knime_mcp.version import VERSION

from .catalogue_file import SCHEMA_VERSION
from .packs import own_packs

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from .node_model import NodeSpec

_FOLDER: Final = "knime-mcp"
_KEPT: Final = 2
"""The number of default catalogues of other versions that are kept, as several versions may be in use."""


def user_catalogue() -> Path:
    """The default target of `knime-nodes build`."""
    return user_folder("data") / _FOLDER / "nodes.sqlite"


def cache_folder() -> Path:
    return user_folder("cache") / _FOLDER


def default_catalogue(nodes: Callable[[], Sequence[NodeSpec]], *, made_of: Sequence[Path] = ()) -> Path:
    """Returns the default catalogue's file, and builds it if it is missing or out of date.

    `nodes` returns what is in it beside the included packs, and is called only for a build; a change of the
    files `made_of` leads to one. If several processes build at once, they write the same content, and the
    last file stays. If the cache is not writable, the file is in a temporary folder, deleted at exit.
    """
    name = f"default-{_key(made_of)}.sqlite"
    folder = cache_folder()
    path = folder / name
    if path.is_file():
        with suppress(OSError):  # the file may belong to another user
            # By hand, as many file systems note no reading; the time of change stays, by which readers know
            # the file.
            os.utime(path, ns=(time.time_ns(), path.stat().st_mtime_ns))
        _hold(path)
        return path
    from .sources.catalogue_build import build_catalogue  # imported here, as only the first start builds

    further = nodes()
    try:
        build_catalogue(path, further=further)
        _hold(path)
        _remove_old(folder, path)
    except OSError:
        # There is no cache here that could be written to: the catalogue lives as long as this process.
        folder = Path(tempfile.mkdtemp(prefix=f"{_FOLDER}-"))
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
        path = folder / name
        build_catalogue(path, further=further)
    return path


def _key(made_of: Sequence[Path]) -> str:
    """A hash of everything that the default catalogue is built from."""
    key = hashlib.sha256(f"{VERSION} {SCHEMA_VERSION}".encode())
    for pack in own_packs():
        key.update(pack.read_bytes())
    for file in sorted((*made_of, *made_by())):
        try:
            found = file.stat()
        except FileNotFoundError:  # deleted by an update that is running
            continue
        key.update(f"{file} {found.st_size} {found.st_mtime_ns}\n".encode())
    return key.hexdigest()[:16]


def made_by() -> list[Path]:
    """The modules and tables of words that write a catalogue: a change of one may change every catalogue."""
    package = Path(__file__).parent
    return [file for pattern in ("*.py", "*.toml", "sources/*.py") for file in package.glob(pattern)]


def _remove_old(folder: Path, new: Path) -> None:
    """Removes default catalogues of other versions, except the last used ones and those in use."""
    with suppress(FileNotFoundError):  # another process removes files, too
        others = [(_last_use(file), file) for file in folder.glob("default-*.sqlite") if file != new]
        for _, old in sorted(others, reverse=True)[_KEPT:]:
            remove_unless_kept(old)


def _last_use(file: Path) -> float:
    found = file.stat()
    return max(found.st_atime, found.st_mtime)


@cache
def _hold(file: Path) -> None:
    """Keeps other processes from removing a file until this one ends."""
    keep(file)
