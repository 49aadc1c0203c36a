"""``knime-mcp knime``: makes an installed KNIME load the nodes from here, and says why it does not."""

from __future__ import annotations

import difflib
import json
import os
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, NamedTuple, cast

import typer

from ..system import NAME, pythons_in, user_folder
from ..types.texts import counted
from ..version import EXTENSION_ID, VERSION
from .command_errors import CommandError, ExitCode, reports_errors
from .knime_environment import nodes_environment
from .knime_installations import (
    INI,
    Change,
    Installation,
    apply,
    installation_at,
    installations,
    registered,
    with_extension,
    without_extension,
)
from .person import asked
from .terminal import can_ask, note, print_json, say

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from .knime_environment import NodesEnvironment

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
