"""``knime-mcp knime``: makes an installed KNIME load the nodes from here, and says why it does not.

``knime.ini`` names a YAML file, ``-Dknime.python.extension.config=FILE``, and that has an entry for each
extension: its folder, and the Python that runs it (`PythonExtensionPreferences` in
https://github.com/knime/knime-python).
"""

from __future__ import annotations

import difflib
import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
from dataclasses import dataclass
from functools import partial
from hashlib import sha256
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, NamedTuple, cast
from urllib.parse import urlsplit
from urllib.request import url2pathname

import typer
import yaml

from ..system import NAME, pythons_in, user_folder
from ..types.texts import counted
from ..version import EXTENSION_ID, VERSION
from .command_errors import CommandError, ExitCode, reports_errors, why_not
from .terminal import asked, can_ask, note, print_json, say

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping


_MODULE: Final = "mcp_extension"  # in the folder src beside knime.yml
_PROBE_SECONDS: Final = 120
_OLDEST: Final = (5, 5, 0)
_ALL_DIALOGS: Final = (5, 8, 0)
#: The packages that KNIME's own Python code and the nodes need, and the first version that breaks the former.
_PACKAGES: Final[Mapping[str, tuple[int, int] | None]] = {
    **dict.fromkeys(("h11", "httpx", "httpx-sse", "jsonpatch", "jsonschema-rs", "langchain-core")),
    "pydantic": None,
    "truststore": None,
    "py4j": None,
    "pyarrow": None,
    "numpy": None,
    "pandas": (3, 0),
    "python-dateutil": None,
    "pytz": None,
    "pyyaml": None,
    "markdown": (3, 11),
    "pillow": None,
}
#: Where KNIME's plug-ins have their Python code, in the order in which KNIME puts it on the path.
_KNIMES_CODE: Final = ("nodes", "", "arrow", "views", "arrow.types")
_PROBE: Final = """
import importlib, importlib.metadata as m, json, pathlib, sys
names, module, extension, version = json.loads(sys.argv[1])
found = {}
for name in names:
    try: found[name] = m.version(name)
    except m.PackageNotFoundError: found[name] = None
hiding = [p for p in sys.path if pathlib.Path(p or ".", "knime", "__init__.py").is_file()]
said = None
if module:
    try:
        launcher = importlib.import_module("_node_backend_launcher")
        launcher._KnimeNodeBackend().loadExtension(extension, module, version)
        said = len(importlib.import_module("knime.extension.nodes")._nodes)
    except BaseException as error: said = f"{type(error).__name__}: {error}"
print("\\n" + json.dumps([list(sys.version_info[:3]), found, hiding, said]))
"""


class SetupFinding(NamedTuple):
    """What was looked at, and what it means."""

    where: str
    level: str  # "ok", "note" or "wrong"
    what: str
    fix: str = ""


KnimeOption = Annotated[
    Path | None,
    typer.Option(
        "--knime", metavar="FOLDER", help="The installation of KNIME; those in usual places if left out."
    ),
]
YesOption = Annotated[bool, typer.Option("--yes", "-y", help="Write without asking.")]
DryRunOption = Annotated[
    bool, typer.Option("--dry-run", help="Show what would be written, and write nothing.")
]


@reports_errors
def install(
    knime: KnimeOption = None,
    python: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="The Python that runs the nodes; one made for them if left out."),
    ] = None,
    remove: Annotated[bool, typer.Option("--remove", help="Take away what was written and made.")] = False,
    yes: YesOption = False,
    dry_run: DryRunOption = False,
) -> ExitCode:
    """Make KNIME load the nodes.

    Makes an environment with the Python that runs them, in a folder of yours, and writes a line into the
    installation's knime.ini and an entry into the file that it names. All is shown before it is done. Restart
    KNIME afterwards.

    Example: uvx --from knime_mcp.whl knime-mcp knime install --knime /opt/knime_5.9.0
    """
    place, own = _one(knime), nodes_environment()
    if remove:
        return _remove(place, own, yes=yes, dry_run=dry_run)
    if python is not None or own is None:
        own = None
        runs = Path(python or sys.executable).absolute()  # not resolved: a link leads out of its environment
        source = extension_folder()
    else:
        runs, source = own.python, own.extension
    entry = {"src": str(source), "python_executable": str(runs)}
    changes = with_extension(place, _own_config(), EXTENSION_ID, entry)
    new = own if own is not None and not own.is_made else None
    if changes or new is not None:
        commands = [] if new is None else [" ".join(map(_shell, command)) for command in new.commands]
        if not _is_wanted(changes, commands, yes=yes, dry_run=dry_run):
            return ExitCode.OK
        if new is not None:
            note("The environment is made, which takes a minute or two")
            new.make()
        for change in changes:
            apply(change)
        say("Restart KNIME. The nodes are under Community Nodes > Model Context Protocol.")
    else:
        say(f"{place.folder} loads the nodes already. If they are not there, ask: knime-mcp knime doctor")
    bad = [finding for finding in _look_at_python(runs, place) if finding.level == "wrong"]
    _print(bad)
    return ExitCode.FAILED if bad else ExitCode.OK


def _remove(place: Installation, own: NodesEnvironment | None, *, yes: bool, dry_run: bool) -> ExitCode:
    changes = without_extension(place, _own_config(), EXTENSION_ID)
    others = (registered(other, EXTENSION_ID) for other in _found() if other.config != place.config)
    is_used = own is None or any(entry and _python_of(entry) == own.python for entry in others)
    gone = [] if own is None or is_used or not own.is_ours else [f"remove {own.folder}"]
    if not changes and not gone:
        say(f"{place.folder} does not load the nodes from a folder: there is nothing to take away.")
    elif _is_wanted(changes, gone, yes=yes, dry_run=dry_run):
        for change in changes:
            apply(change)
        if own is not None and gone:
            own.remove()
        say("Restart KNIME.")
    return ExitCode.OK


@reports_errors
def doctor(
    knime: KnimeOption = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the findings as JSON.")] = False,
) -> ExitCode:
    """Say why KNIME does or does not show the nodes.

    Looks at each installation of KNIME, its knime.ini, the file that it names, the Python in that, and its
    packages; and loads the nodes with KNIME's own Python code, as KNIME does. The exit code is 1 if something
    is wrong.
    """
    places = [_one(knime)] if knime is not None else _found()
    findings: list[SetupFinding] = []
    if not places:
        what = "No KNIME was found in the usual places"
        findings.append(SetupFinding("this computer", "wrong", what, "Name its folder: --knime FOLDER"))
        findings += _look_at_python(Path(sys.executable), None)
    for place in places:
        findings += _look_at(place)
    if as_json:
        print_json([own._asdict() for own in findings])
    else:
        _print(findings)
    wrong = sum(own.level == "wrong" for own in findings)
    note(f"{counted(wrong, 'thing')} to do" if wrong else "Nothing is wrong")
    return ExitCode.FAILED if wrong else ExitCode.OK


def _look_at(place: Installation) -> Iterator[SetupFinding]:
    where, version = str(place.folder), place.version
    wrong = partial(SetupFinding, where, "wrong")
    if version is None:
        yield SetupFinding(where, "note", f"The version is not known: {place.plugins} has no org.knime.core")
    else:
        shown = ".".join(map(str, version))
        if version < _OLDEST:
            yield wrong(f"KNIME {shown} is too old for the nodes", "Install KNIME 5.8 or newer")
        elif version < _ALL_DIALOGS:
            what = f"KNIME {shown}: the nodes' dialogs show less than in 5.8 and newer"
            yield SetupFinding(where, "note", what)
        else:
            yield SetupFinding(where, "ok", f"KNIME {shown}")
        if place.newest("org.knime.python3.nodes") is None:
            yield wrong(
                "KNIME Python Integration is not installed, which runs nodes written in Python",
                "In KNIME: File > Install KNIME Extensions, KNIME Python Integration",
            )
    config = place.config
    install_it = f"Write it with: knime-mcp knime install --knime {_shell(place.folder)}"
    if config is None:
        yield wrong(f"{INI} names no file of Python extensions behind -vmargs", install_it)
        return
    if not config.is_absolute():
        yield wrong(f"{INI} names {config}", "Write the whole path, from the root on")
        return
    if not config.is_file():
        yield wrong(f"{INI} names {config}, which is not there", install_it)
        return
    entry = registered(place, EXTENSION_ID)
    if entry is None:
        yield wrong(f"{config} has no entry {EXTENSION_ID}", install_it)
        return
    yield SetupFinding(where, "ok", f"{INI} names {config}, which has {EXTENSION_ID}")
    source = Path(str(entry.get("src")))
    if not (source / "knime.yml").is_file():
        yield wrong(f"{config}: there is no knime.yml in its src, {source}", install_it)
        return
    python = _python_of(entry)
    if python is None:
        yield wrong(f"{config} names no Python: neither python_executable nor conda_env_path", install_it)
    elif not python.is_absolute():
        yield wrong(f"{config} names the Python {python}, and KNIME does not know from where on", install_it)
    else:
        yield from _look_at_python(python, place)


def _python_of(entry: Mapping[str, Any]) -> Path | None:
    if folder := entry.get("conda_env_path"):  # it counts more than the other, for KNIME
        likely = pythons_in(Path(str(folder)))
        return next((own for own in likely if own.is_file()), likely[0])
    return Path(str(named)) if (named := entry.get("python_executable")) else None


def _look_at_python(python: Path, place: Installation | None) -> Iterator[SetupFinding]:
    where = str(python)
    wrong = partial(SetupFinding, where, "wrong")
    another = "Name another: knime-mcp knime install --python FILE"
    code = [] if place is None else _knimes_code(place)
    # Without KNIME's code there is nothing that could load the extension.
    module = _MODULE if code else ""
    asked = json.dumps([list(_PACKAGES), module, EXTENSION_ID, VERSION])
    try:
        # As KNIME starts it: with this path and no other.
        done = subprocess.run(  # noqa: S603 - the Python that the user named
            [where, "-c", _PROBE, asked],
            capture_output=True, timeout=_PROBE_SECONDS, check=True, text=True,
            env=_environment(os.pathsep.join(map(str, [*code, extension_folder() / "src"] if code else []))),
        )  # fmt: skip
        # What is loaded may print, so that only the last line is the probe's.
        version, packages, hiding, said = cast("list[Any]", json.loads(done.stdout.splitlines()[-1]))
    except (OSError, subprocess.SubprocessError, ValueError, IndexError) as error:
        why = (getattr(error, "stderr", None) or str(error)).strip().splitlines()[-1:]
        yield wrong(f"This Python cannot be run: {''.join(why)}", another)
        return
    shown = ".".join(map(str, version))
    if tuple(version) < (3, 11):
        yield wrong(f"Python {shown} is too old: the nodes need 3.11 or newer", another)
        return
    yield from _look_at_packages(where, shown, packages)
    for folder in hiding:
        yield wrong(f"{folder} has a package 'knime', which hides KNIME's own", "Remove it")
    if isinstance(said, int):
        yield SetupFinding(
            where, "ok", f"KNIME's Python code loads the extension with {counted(said, 'node')}"
        )
    elif said is not None:
        yield wrong(f"KNIME's Python code cannot load the extension: {said}")


def _look_at_packages(where: str, python: str, packages: Mapping[str, str | None]) -> Iterator[SetupFinding]:
    missing = [name for name, version in packages.items() if version is None]
    if missing:
        fix = f"{_shell(where)} -m pip install 'knime-mcp[knime]', with the path of the wheel or clone"
        yield SetupFinding(where, "wrong", f"Python {python} lacks {', '.join(missing)}", fix)
    for name, below in _PACKAGES.items():
        version = packages.get(name)
        if below is None or version is None:
            continue
        if tuple(int(part) for part in version.split(".")[:2] if part.isdigit()) >= below:
            limit = ".".join(map(str, below))
            fix = f"{_shell(where)} -m pip install '{name}<{limit}'"
            yield SetupFinding(
                where, "wrong", f"{name} {version} does not work with KNIME's Python code", fix
            )
    if not missing:
        yield SetupFinding(where, "ok", f"Python {python} with all packages")


def _knimes_code(place: Installation) -> list[Path]:
    """The folders of KNIME's Python code, if all are there."""
    found: list[Path] = []
    for part in _KNIMES_CODE:
        folder = place.newest(f"org.knime.python3.{part}" if part else "org.knime.python3")
        if folder is None or not (folder / "src" / "main" / "python").is_dir():
            return []
        found.append(folder / "src" / "main" / "python")
    return found


def _environment(path: str) -> dict[str, str]:
    kept = {name: text for name, text in os.environ.items() if not name.startswith("PYTHON")}
    return kept | ({"PYTHONPATH": path} if path else {})


def extension_folder() -> Path:
    """The folder with the extension that KNIME loads, in a checkout and in a wheel."""
    package = Path(__file__).resolve().parents[1]
    for folder in (package.parent, package):
        if (folder / "knime.yml").is_file():
            return folder
    raise CommandError("This installation came without the extension's knime.yml. Install it from its wheel.")


def _own_config() -> Path:
    return user_folder("settings") / "knime-mcp" / "knime-extensions.yml"


def _found() -> list[Installation]:
    home = Path.home()
    return installations(NAME, home, os.environ, Path(home.anchor))


def _one(named: Path | None) -> Installation:
    if named is not None:
        found = installation_at(named)
        if found is None:
            raise CommandError(f"There is no {INI} in {named}: it is no folder of KNIME Analytics Platform.")
        return found
    places = _found()
    if not places:
        raise CommandError("No KNIME was found in the usual places. Name its folder: --knime FOLDER.")
    if len(places) > 1:
        listed = ", ".join(str(own.folder) for own in places)
        raise CommandError(f"There are several installations of KNIME: {listed}. Choose one: --knime FOLDER.")
    return places[0]


def _is_wanted(changes: list[Change], steps: list[str], *, yes: bool, dry_run: bool) -> bool:
    """Shows what is going to be done, and asks; False if it is not to be done."""
    for step in steps:
        say(step)
    for change in changes:
        before, after = ((text or "").splitlines() for text in (change.before, change.after))
        name = str(change.file)
        for line in difflib.unified_diff(before, after, name, name, n=1, lineterm=""):
            say(line)
    if not dry_run:
        if yes:
            return True
        if not can_ask():
            raise CommandError(
                "Nobody can be asked here: look at this with --dry-run, then write it with --yes."
            )
        answer = asked("Write this? --yes writes it without a question", "yes", "no")
        if answer is not None and answer.word == "yes":
            return True
    note("Nothing was written")
    return False


def _print(findings: Iterable[SetupFinding]) -> None:
    last = ""
    for own in findings:
        if own.where != last:
            say(last := own.where)
        say(f"  {own.level:5}  {own.what}.")
        if own.fix:
            say(f"         {own.fix}")


def _shell(path: Path | str) -> str:
    return f'"{path}"' if " " in str(path) else str(path)


_PROJECT: Final = "knime-mcp"
_STAMP: Final = "knime-mcp.json"
_LAST_LINES: Final = 12


@dataclass(frozen=True, slots=True)
class NodesEnvironment:
    """An environment, which may not be there yet.

    Attributes:
        folder: Where it is.
        requirement: What is installed into it, as pip and uv read it.
        content: A digest of the wheel that it is from; "" if it is from no file.
        may_differ: Whether it is from a folder, whose content may have changed since it was made.
    """

    folder: Path
    requirement: str
    content: str = ""
    may_differ: bool = False

    @property
    def python(self) -> Path:
        return self._path("scripts") / f"python{sysconfig.get_config_var('EXE') or ''}"

    @property
    def extension(self) -> Path:
        """The folder with the extension that KNIME loads."""
        return self._path("purelib") / "knime_mcp"

    @property
    def is_made(self) -> bool:
        try:
            stamp = json.loads((self.folder / _STAMP).read_text("utf-8"))
        except (OSError, ValueError):
            return False
        return stamp == self._stamp and self.python.is_file() and not self.may_differ

    @property
    def is_ours(self) -> bool:
        """Whether `make` has made it, so that it may be removed."""
        return (self.folder / _STAMP).is_file()

    @property
    def commands(self) -> list[list[str]]:
        """What makes it: of uv, if it is there."""
        if uv := shutil.which("uv"):
            make = [uv, "venv", "--quiet", "--clear", "--python", sys.executable, str(self.folder)]
            return [make, [uv, "pip", "install", "--python", str(self.python), self.requirement]]
        make = [sys.executable, "-m", "venv", "--clear", str(self.folder)]
        return [make, [str(self.python), "-m", "pip", "install", self.requirement]]

    def make(self) -> None:
        """Makes it anew; CommandError with the last that was said if a command fails, and nothing is left."""
        for command in self.commands:
            done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 - as shown
            if done.returncode:
                shutil.rmtree(self.folder, ignore_errors=True)
                said = "\n".join(f"{done.stdout}\n{done.stderr}".strip().splitlines()[-_LAST_LINES:])
                raise CommandError(f"The environment was not made. {' '.join(command)} said:\n{said}")
        (self.folder / _STAMP).write_text(json.dumps(self._stamp), "utf-8")

    def remove(self) -> None:
        """Takes it away, if it is ours."""
        if not self.is_ours:
            return
        try:
            shutil.rmtree(self.folder)
        except OSError as error:
            raise CommandError(
                f"{self.folder} cannot be removed: {why_not(error)}. Close KNIME first."
            ) from None

    @property
    def _stamp(self) -> dict[str, str]:
        return {"requirement": self.requirement, "content": self.content}

    def _path(self, kind: str) -> Path:
        base = str(self.folder)
        return Path(sysconfig.get_path(kind, "venv", {"base": base, "platbase": base}))


def nodes_environment(distribution: metadata.Distribution | None = None) -> NodesEnvironment | None:
    """The environment for what this is; None for an editable installation, which runs the nodes itself."""
    own = distribution or metadata.distribution(_PROJECT)
    folder = user_folder("data") / "knime-mcp" / "python"
    # https://packaging.python.org/en/latest/specifications/direct-url/
    text = own.read_text("direct_url.json")
    if text is None:
        return NodesEnvironment(folder, f"{_PROJECT}[knime]=={own.version}")
    source = json.loads(text)
    if source.get("dir_info", {}).get("editable"):
        return None
    url = str(source["url"])
    parts = urlsplit(url)
    file = Path(url2pathname(parts.path))
    is_wheel = parts.scheme == "file" and file.is_file()
    content = sha256(file.read_bytes()).hexdigest() if is_wheel else ""
    if version := source.get("vcs_info"):
        url = f"{version['vcs']}+{url}@{version['commit_id']}"
    if inside := source.get("subdirectory"):
        url = f"{url}#subdirectory={inside}"
    return NodesEnvironment(folder, f"{_PROJECT}[knime] @ {url}", content, may_differ="dir_info" in source)


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
