"""Finds KNIME's plug-ins (Eclipse bundles) in folders: jars, folders, folders with jars inside.

At first only the names are read. Files are read one by one, and files in jars without unpacking the jar. What
a plug-in says about itself is read here, too: ``plugin.xml`` or ``fragment.xml``, manifest and properties.
"""

from __future__ import annotations

import io
import os
import re
import zipfile
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import IO, TYPE_CHECKING, Final
from urllib.request import url2pathname

from .node_descriptions import LARGEST, local_name, parse_xml

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Mapping


_NEVER: Final = frozenset({".git", ".svn", "node_modules", "__pycache__", ".settings"})
_BUNDLES_INFO: Final = PurePosixPath("configuration/org.eclipse.equinox.simpleconfigurator/bundles.info")
_INSIDE_MACOS: Final = ("Contents", "Eclipse")
"""The folder of the installation inside KNIME.app."""
_LARGEST_INNER_JAR: Final = 256 * 1024 * 1024
_MANIFEST: Final = "META-INF/MANIFEST.MF"
_WANTED: Final = (".xml", ".properties", ".jar")

_NODES: Final = "org.knime.workbench.repository.nodes"
_SETS: Final = "org.knime.workbench.repository.nodesets"
_CATEGORIES: Final = "org.knime.workbench.repository.categories"
_CONTINUED: Final = re.compile(rb"\r?\n ")
_ESCAPE: Final = re.compile(r"\\u([0-9a-fA-F]{4})")


class UnreadableError(Exception):
    """A file that cannot be read. The message says why."""


@dataclass(slots=True, kw_only=True)
class Bundle:
    location: Path
    name: str = ""  # the symbolic name; the name of the file if there is no manifest
    version: str | None = None
    # for a folder of loose files, its path below the given root: the first part of package names
    package: str = ""
    # Functions that read the files, by path inside with slashes. Paths of files in an inner jar begin with
    # the path of that jar and ``!/``.
    files: dict[str, Callable[[], bytes]] = field(default_factory=dict[str, "Callable[[], bytes]"])
    # Inner files that could not be opened, with the reason.
    unreadable: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])

    def read(self, name: str) -> bytes:
        try:
            return self.files[name]()
        except Exception as error:
            # Decompressors raise errors without a common base class (zlib.error, lzma.LZMAError).
            raise UnreadableError(f"cannot be read: {error}") from None

    def place(self, name: str) -> str:
        """The location of a file of the plug-in, for people."""
        if self.location.is_dir():
            return shown(self.location / name)
        return f"{shown(self.location)}!/{name}"


def shown(path: Path | str) -> str:
    """A path as text, even if its bytes are not valid Unicode."""
    return str(path).encode("utf-8", "replace").decode()


def find_bundles(root: Path) -> list[Path]:
    """The jars and folders below `root` that are plug-ins, sorted; of an installed KNIME the active ones."""
    if root.is_file():
        return [root]
    active = _active_bundles(root)
    # An installation keeps older versions of plug-ins in the same folder, which it does not use.
    if active is not None:
        return active
    found: list[Path] = []
    # (folder, whether its descriptions belong to a folder further up, which was found already); folders
    # behind links are not entered, as they may lead around.
    pending = [(root, False)]
    while pending:
        folder, covered = pending.pop()
        if _is_bundle(folder):
            found.append(folder)
            continue
        with os.scandir(folder) as entries:
            inside = list(entries)
        if not covered and any(entry.name.endswith(".xml") for entry in inside):
            found.append(folder)
            covered = True
        for entry in inside:
            if entry.is_dir(follow_symlinks=False):
                if entry.name not in _NEVER:
                    pending.append((Path(entry.path), covered))
            elif entry.name.endswith(".jar"):
                found.append(Path(entry.path))
    return sorted(found)


@contextmanager
def opened(location: Path, *, root: Path | None = None) -> Generator[Bundle]:
    """Opens a plug-in, and closes its jars on exit."""
    bundle = Bundle(location=location)
    archives: list[zipfile.ZipFile] = []
    try:
        try:
            if location.is_dir():
                _list_folder(bundle)
                if root is not None and not _is_bundle(location):
                    bundle.package = location.relative_to(root).as_posix()
            else:
                archives.append(_archive(location))
                _list_archive(bundle, archives[0], "")
        except OSError as error:
            raise UnreadableError(f"cannot be read: {error}") from None
        headers = _headers(bundle)
        _open_inner_jars(bundle, archives, headers)
        # Behind the semicolon are directives of OSGi, such as `singleton:=true`.
        named = headers.get("Bundle-SymbolicName", "").partition(";")[0].strip()
        bundle.name = named or shown(bundle.location.name.removesuffix(".jar"))
        # In source checkouts `.qualifier` stands for a part that the build fills in.
        bundle.version = headers.get("Bundle-Version", "").removesuffix(".qualifier") or None
        yield bundle
    finally:
        for archive in archives:
            archive.close()


def _active_bundles(root: Path) -> list[Path] | None:
    """The bundles in an installation's list; None if there is no such list."""
    homes = (root, root.joinpath(*_INSIDE_MACOS))
    home = next((home for home in homes if (home / _BUNDLES_INFO).is_file()), None)
    if home is None:
        plugins = root / "plugins"
        return find_bundles(plugins) if plugins.is_dir() else None
    found: list[Path] = []
    for line in (home / _BUNDLES_INFO).read_text(encoding="utf-8").splitlines():
        parts = line.split(",")
        # name,version,location,start level,started: the location is a URI, relative to the installation.
        if line.startswith("#") or len(parts) < 3:
            continue
        path = (home / _local(parts[2])).resolve()
        if path.exists():
            found.append(path)
    return sorted(dict.fromkeys(found))


def _local(location: str) -> str:
    return url2pathname(location.removeprefix("file:"))


def _list_folder(bundle: Bundle) -> None:
    # In a folder that is not a plug-in, each jar is a separate plug-in.
    wanted = _WANTED if _is_bundle(bundle.location) else (".xml",)
    for folder, folders, names in os.walk(bundle.location):
        folders[:] = sorted(
            name for name in folders if name not in _NEVER and not _is_bundle(Path(folder, name))
        )
        for name in sorted(names):
            path = Path(folder, name)
            if (name.endswith(wanted) or name == "MANIFEST.MF") and path.is_file():  # a pipe would block
                bundle.files[path.relative_to(bundle.location).as_posix()] = _file_reader(path)


def _is_bundle(folder: Path) -> bool:
    return any((folder / name).is_file() for name in ("plugin.xml", "fragment.xml", _MANIFEST))


def _file_reader(path: Path) -> Callable[[], bytes]:
    def read() -> bytes:
        if path.stat().st_size > LARGEST and path.suffix != ".jar":
            raise ValueError(f"it has more than {LARGEST:,} bytes")
        return path.read_bytes()

    return read


def _archive(jar: Path | IO[bytes]) -> zipfile.ZipFile:
    try:
        return zipfile.ZipFile(jar)
    except (OSError, zipfile.BadZipFile, ValueError, NotImplementedError) as error:
        raise UnreadableError(f"cannot be read: {error}") from None


def _list_archive(bundle: Bundle, archive: zipfile.ZipFile, prefix: str) -> None:
    for info in archive.infolist():
        if info.filename.endswith(_WANTED) or info.filename == _MANIFEST:
            bundle.files.setdefault(prefix + info.filename, _entry_reader(archive, info))


def _entry_reader(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> Callable[[], bytes]:
    def read() -> bytes:
        most = _LARGEST_INNER_JAR if info.filename.endswith(".jar") else LARGEST
        with archive.open(info) as file:
            # The size in the archive's directory may be wrong, so it is not used.
            data = file.read(most + 1)
        if len(data) > most:
            raise ValueError(f"it has more than {most:,} bytes")
        return data

    return read


def _open_inner_jars(bundle: Bundle, archives: list[zipfile.ZipFile], headers: Mapping[str, str]) -> None:
    """Opens the plug-in's inner jars with code: those of its class path, or all jars without a class path."""
    named = headers.get("Bundle-ClassPath")
    listed = None if named is None else {part.partition(";")[0].strip() for part in named.split(",")}
    for name in [name for name in bundle.files if name.endswith(".jar")]:
        if listed is not None and name not in listed:
            continue
        try:
            archives.append(_archive(io.BytesIO(bundle.read(name))))
        except UnreadableError as error:
            bundle.unreadable.append((name, str(error)))
            continue
        _list_archive(bundle, archives[-1], f"{name}!/")


def _headers(bundle: Bundle) -> dict[str, str]:
    if _MANIFEST not in bundle.files:
        return {}
    try:
        return read_manifest(bundle.read(_MANIFEST))
    except UnreadableError as error:
        bundle.unreadable.append((_MANIFEST, str(error)))
        return {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Registration:
    """A node in ``plugin.xml``. Its category is ``/`` by default, as in KNIME."""

    factory: str
    category_path: str = "/"
    deprecated: bool = False
    hidden: bool = False


@dataclass(slots=True, kw_only=True)
class PluginXml:
    nodes: list[Registration] = field(default_factory=list[Registration])
    node_sets: list[str] = field(default_factory=list[str])
    categories: dict[str, str] = field(default_factory=dict[str, str])  # names by full path (``/io/read``)


def read_plugin_xml(data: bytes, texts: Mapping[str, str], into: PluginXml) -> None:
    """Reads a ``plugin.xml`` or ``fragment.xml``; a plug-in may have both.

    `texts` are those of ``plugin.properties``, for names such as ``%category``.
    """
    for extension in parse_xml(data):
        point = extension.get("point", "")
        for element in extension:
            kind = local_name(element)
            if point == _NODES and kind == "node":
                into.nodes.append(
                    Registration(
                        factory=element.get("factory-class", "").strip(),
                        category_path=joined_path(element.get("category-path", "/")),
                        deprecated=element.get("deprecated", "").strip().lower() == "true",
                        hidden=element.get("hidden", "").strip().lower() == "true",
                    )
                )
            elif point in (_NODES, _SETS) and kind == "nodeset":
                into.node_sets.append(element.get("factory-class", "").strip())
            elif point == _CATEGORIES and kind == "category":
                path = joined_path(element.get("path", "/"), element.get("level-id", ""))
                name = " ".join(element.get("name", "").split())
                into.categories[path] = texts.get(name[1:], name) if name.startswith("%") else name


def joined_path(path: str, level: str = "") -> str:
    """A category's path in normal form, such as ``/io/read``; ``/`` for the root."""
    return "/" + "/".join(part for part in f"{path}/{level}".strip().split("/") if part.strip())


def category_names(path: str, categories: Mapping[str, str]) -> tuple[str, ...]:
    """The names of the categories on a path; the identifier of a category without a registered name."""
    parts = [part for part in path.split("/") if part]
    return tuple(
        categories.get("/" + "/".join(parts[: depth + 1])) or part for depth, part in enumerate(parts)
    )


def read_manifest(data: bytes) -> dict[str, str]:
    """The main section of a ``MANIFEST.MF``."""
    headers: dict[str, str] = {}
    # Before it is decoded: a line of 72 bytes may end within a character.
    for line in _CONTINUED.sub(b"", data).decode("utf-8", "replace").splitlines():
        if not line.strip():
            break
        name, _, value = line.partition(":")
        headers[name.strip()] = value.strip()
    return headers


def read_properties(data: bytes) -> dict[str, str]:
    found: dict[str, str] = {}
    # Java's format for properties is Latin-1, with escapes for what that lacks.
    for line in data.decode("latin-1").replace("\\\r\n", "").replace("\\\n", "").splitlines():
        key, separator, value = line.strip().partition("=")
        if separator and not key.startswith(("#", "!")):
            text = _ESCAPE.sub(lambda found: chr(int(found[1], 16)), value.strip())
            # Characters above U+FFFF are written as two escapes, one per surrogate.
            found[key.strip()] = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return found
