"""Installations of KNIME on this computer, and the two files by which one loads an extension from a folder.

``knime.ini`` names a YAML file, ``-Dknime.python.extension.config=FILE``, and that has an entry for each
extension: its folder, and the Python that runs it (`PythonExtensionPreferences` in
https://github.com/knime/knime-python). All that differs between systems stands here, as a function of the
system's name, so that each can be tried everywhere.
"""

from __future__ import annotations

import re
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

import yaml

from .command_errors import CommandError, why_not

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

INI: Final = "knime.ini"
_ARGUMENT: Final = "-Dknime.python.extension.config="
_JVM: Final = "-vmargs"
_NUMBER: Final = re.compile(r"\d+")
_CORE: Final = re.compile(r"org\.knime\.core_(\d+\.\d+\.\d+)\.")
#: The variables that say where Windows keeps programs.
_WINDOWS: Final = ("ProgramFiles", "ProgramW6432", "ProgramFiles(x86)", "LOCALAPPDATA")


@dataclass(frozen=True, slots=True)
class Installation:
    """An installation of KNIME Analytics Platform."""

    folder: Path  # the folder of its ``knime.ini``

    @property
    def ini(self) -> Path:
        return self.folder / INI

    @property
    def plugins(self) -> Path:
        return self.folder / "plugins"

    @property
    def version(self) -> tuple[int, ...] | None:
        """The version, such as (5, 9, 0); None if its plug-ins are kept elsewhere."""
        found = [match for own in self.plugins.glob("org.knime.core_*") if (match := _CORE.match(own.name))]
        return max((tuple(map(int, match[1].split("."))) for match in found), default=None)

    def newest(self, plugin: str) -> Path | None:
        """The newest version of a plug-in; updates leave older ones beside it."""
        # By its numbers, as 5.10 comes after 5.9.
        found = self.plugins.glob(f"{plugin}_*")
        return max(found, key=lambda own: list(map(int, _NUMBER.findall(own.name))), default=None)

    @property
    def config(self) -> Path | None:
        """The YAML file that ``knime.ini`` names for Java, for which the last one counts."""
        _, _, for_java = f"\n{read(self.ini)}".partition(f"\n{_JVM}")
        lines = [line for line in for_java.splitlines() if line.startswith(_ARGUMENT)]
        return Path(lines[-1].removeprefix(_ARGUMENT).strip()) if lines else None


@dataclass(frozen=True, slots=True)
class Change:
    """A file as it is and as it will be; None if it is not there."""

    file: Path
    before: str | None
    after: str | None


def installations(system: str, home: Path, environment: Mapping[str, str], root: Path) -> list[Installation]:
    """The installations in the places where they usually are.

    Args:
        system: As `sys.platform` has it.
        home: The user's folder.
        environment: The variables of the environment.
        root: The root of the file system, or of the drive with the system.
    """
    match system:
        case "win32":
            named = {name: Path(text) for name, text in environment.items() if name in _WINDOWS}
            own = [named["LOCALAPPDATA"] / "Programs"] if "LOCALAPPDATA" in named else []
            parents = [*named.values(), *own, root, home, home / "Desktop"]
        case "darwin":
            parents = [root / "Applications", home / "Applications"]
        case _:
            parents = [
                root / "opt",
                root / "usr" / "local",
                root / "usr" / "share",
                home,
                home / "Applications",
            ]
    found = [own for parent in parents for own in sorted(_named_knime(parent))]
    if program := shutil.which("knime", path=environment.get("PATH", "")):
        found.append(Path(program).resolve().parent)
    return list(dict.fromkeys(own for folder in found if (own := installation_at(folder)) is not None))


def _named_knime(parent: Path) -> Iterable[Path]:
    try:
        return [own for own in parent.iterdir() if own.name.lower().startswith("knime")]
    except OSError:
        return []


def installation_at(path: Path) -> Installation | None:
    """The installation in a folder or an app of macOS, or beside a program; None without one."""
    path = path.expanduser()
    for folder in (path, path / "Contents" / "Eclipse", path.parent):
        if (folder / INI).is_file():
            return Installation(folder.resolve())
    return None


def registered(installation: Installation, extension_id: str) -> dict[str, Any] | None:
    """The entry of an extension; None without one."""
    config = installation.config
    if config is None or not config.is_file():
        return None
    entry = _entries(read(config), config).get(extension_id)
    return cast("dict[str, Any]", entry) if isinstance(entry, dict) else None


def with_extension(
    installation: Installation, own_config: Path, extension_id: str, entry: Mapping[str, str]
) -> list[Change]:
    """What has to change so that KNIME loads an extension; nothing if it does.

    A YAML file that ``knime.ini`` names already gets the entry, with all others kept as they are; without
    one, ``own_config`` is named.
    """
    config = installation.config or own_config
    before = read(config) if config.is_file() else None
    _entries(before or "", config)  # what cannot be read is not written to
    block = f"{extension_id}:\n" + "".join(f"  {key}: {_quoted(text)}\n" for key, text in entry.items())
    kept = _without(before or "", extension_id)
    changes = [
        Change(config, before, f"{kept}{'' if not kept or kept.endswith(chr(10)) else chr(10)}{block}")
    ]
    if installation.config is None:
        ini = read(installation.ini)
        end = "\r\n" if "\r\n" in ini else "\n"
        # What stands behind -vmargs is for Java; before it, it would be for Eclipse.
        start = ini if ini.endswith(end) or not ini else f"{ini}{end}"
        jvm = "" if _JVM in ini.splitlines() else f"{_JVM}{end}"
        changes.append(Change(installation.ini, ini, f"{start}{jvm}{_ARGUMENT}{config}{end}"))
    return [own for own in changes if own.before != own.after]


def without_extension(installation: Installation, own_config: Path, extension_id: str) -> list[Change]:
    """What has to change so that KNIME no longer loads an extension from a folder; nothing if it does not."""
    config = installation.config
    if config is None:
        return []
    before = read(config) if config.is_file() else ""
    after = _without(before, extension_id)
    changes: list[Change] = []
    if before != after:
        changes.append(Change(config, before, after if after.strip() else None))
    if config == own_config and not after.strip():
        ini = read(installation.ini)
        lines = [line for line in ini.splitlines(keepends=True) if not line.startswith(_ARGUMENT)]
        changes.append(Change(installation.ini, ini, "".join(lines)))
    return changes


def apply(change: Change) -> None:
    """Writes a change; CommandError if the file cannot be written."""
    try:
        if change.after is None:
            change.file.unlink()
            return
        change.file.parent.mkdir(parents=True, exist_ok=True)
        with change.file.open("w", encoding="utf-8", newline="") as file:
            file.write(change.after)
    except OSError as error:
        raise CommandError(
            f"{change.file} cannot be written: {why_not(error)}. Start the terminal as administrator, or"
            " write by hand what was shown."
        ) from None


def read(file: Path) -> str:
    """The text of a file, its line ends as they are; CommandError if it cannot be read."""
    try:
        with file.open(encoding="utf-8", newline="") as opened:
            return opened.read()
    except (OSError, UnicodeDecodeError) as error:
        why = why_not(error) if isinstance(error, OSError) else "it is not UTF-8"
        raise CommandError(f"{file} cannot be read: {why}.") from None


def _entries(text: str, file: Path) -> dict[str, Any]:
    try:
        found = yaml.safe_load(text)
    except yaml.YAMLError as error:
        place = str(error).replace("\n", " ")
        raise CommandError(f"{file}, which {INI} names, is not YAML: {place}. Correct it first.") from None
    if found is not None and not isinstance(found, dict):
        raise CommandError(f"{file}, which {INI} names, has no entries of extensions. Correct it first.")
    return cast("dict[str, Any]", found or {})


def _without(text: str, extension_id: str) -> str:
    """The YAML without the block of an extension: its line, and those below that are indented or empty."""
    kept: list[str] = []
    inside = False
    for line in text.splitlines(keepends=True):
        if not inside or (line.strip() and not line[0].isspace()):
            inside = line.partition(":")[0].strip("\"' ") == extension_id and not line[0].isspace()
        if not inside:
            kept.append(line)
    return "".join(kept)


def _quoted(text: str) -> str:
    # In single quotes YAML reads a backslash, as in Windows' paths, as itself.
    return "'" + text.replace("'", "''") + "'"
