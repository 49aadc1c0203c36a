"""``knime-mcp knime``, with made-up installations and each kind of mistake."""

import json
import sys

import pytest

from knime_mcp.cli import knime_setup
from knime_mcp.cli.knime_setup import installations, registered
from knime_mcp.version import EXTENSION_ID
from tests.cli.test_knime_installations import ARGUMENT, JVM, make


@pytest.fixture
def here(tmp_path, monkeypatch):
    """The user's settings are in a folder of the test."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "settings"))
    monkeypatch.setenv("APPDATA", str(tmp_path / "settings"))
    return tmp_path


def findings(cli, *words):
    done = cli("knime", "doctor", "--json", *words)
    return done, {(own["level"], own["what"]): own["fix"] for own in json.loads(done.out)}


def test_installed_and_uninstalled(cli, here):
    place = make(here / "knime_5.9.0")
    before = place.ini.read_text()
    shown = cli("knime", "install", "--knime", place.folder, "--dry-run")
    assert f"+{ARGUMENT}" in shown.out
    assert f"+{EXTENSION_ID}:" in shown.out
    assert place.ini.read_text() == before
    unasked = cli("knime", "install", "--knime", place.folder)
    assert unasked.code == 1
    assert "write it with --yes" in unasked.err
    assert place.ini.read_text() == before
    (here / "python").symlink_to(sys.executable)
    done = cli("knime", "install", "--knime", place.folder, "--python", "python", "--yes")
    assert "Restart KNIME" in done.out
    assert registered(place, EXTENSION_ID)["python_executable"] == str(here / "python")
    cli("knime", "install", "--knime", place.folder, "--yes")
    assert place.config.is_file()
    again = cli("knime", "install", "--knime", place.folder, "--yes")
    assert "loads the nodes already" in again.out
    gone = cli("knime", "install", "--remove", "--knime", place.folder, "--yes")
    assert gone.code == 0
    assert place.ini.read_text() == before
    assert "nothing to take away" in cli("knime", "install", "--remove", "--knime", place.folder).out


def test_what_is_no_installation(cli, here):
    done = cli("knime", "install", "--knime", here)
    assert done.code != 0
    assert f"There is no knime.ini in {here}" in done.err


#: What is there, what the file of extensions has (None: `knime.ini` names none), and what is said of it.
MISTAKES = [
    ({"version": "4.7.2"}, None, "wrong", "KNIME 4.7.2 is too old for the nodes"),
    ({"version": "5.5.0"}, None, "note", "KNIME 5.5.0: the nodes' dialogs show less than in"),
    ({"version": ""}, None, "note", "The version is not known: {plugins} has no org.knime.core"),
    ({"python": False}, None, "wrong", "KNIME Python Integration is not installed"),
    ({}, None, "wrong", "knime.ini names no file of Python extensions behind -vmargs"),
    ({"ini": f"{ARGUMENT}/x.yml\n{JVM}"}, None, "wrong", "knime.ini names no file of Python extensions"),
    ({"ini": f"{JVM}{ARGUMENT}x.yml\n"}, None, "wrong", "knime.ini names x.yml"),
    ({}, "", "wrong", "knime.ini names {config}, which is not there"),
    ({}, "a.b: {{src: /x}}", "wrong", "{config} has no entry " + EXTENSION_ID),
    ({}, "{id}: {{src: /nowhere}}", "wrong", "{config}: there is no knime.yml in its src, "),
    ({}, "{id}: {{src: {src}}}", "wrong", "{config} names no Python: neither"),
    ({}, "{id}: {{src: {src}, python_executable: bin/python}}", "wrong", "{config} names the Python "),
    ({}, "{id}: {{src: {src}, conda_env_path: {src}}}", "wrong", "This Python cannot be run: "),
    ({}, "{id}: {{src: {src}, python_executable: {src}/knime.yml}}", "wrong", "This Python cannot be run: "),
]  # fmt: skip
#: Where installations of each system usually are.
PLACES = {
    "linux": "opt/knime_5.9.0",
    "darwin": "Applications/KNIME 5.9.app/Contents/Eclipse",
    "win32": "Program Files/KNIME",
}


@pytest.mark.parametrize("system", PLACES)
@pytest.mark.parametrize(("parts", "config", "level", "what"), MISTAKES)
def test_each_mistake_is_told_on_each_system(here, system, parts, config, level, what):
    file = here / "extensions.yml"
    ini = f"{JVM}{ARGUMENT}{file}\n" if config is not None else JVM
    place = make(here / PLACES[system], **{"ini": ini, **parts})
    source = here / "src"
    source.mkdir()
    (source / "knime.yml").touch()
    if config:
        file.write_text(config.format(id=EXTENSION_ID, src=source))
    environment = {"ProgramFiles": str(here / "Program Files")}
    assert installations(system, here / "home", environment, here) == [place]
    said = list(knime_setup._look_at(place))
    start = what.format(plugins=place.plugins, config=file)
    fits = [own for own in said if own.level == level and own.what.startswith(start)]
    assert fits, said
    assert bool(fits[0].fix) == (level == "wrong")


def test_a_mistake_is_told_and_fails(cli, here):
    done, found = findings(cli, "--knime", make(here / "knime").folder)
    assert ("wrong", "knime.ini names no file of Python extensions behind -vmargs") in found
    assert done.code == 1


def test_a_package_that_hides_knimes_own_is_named(cli, here):
    """The current folder is on the path of `python -c`."""
    place = make(here / "knime")
    cli("knime", "install", "--knime", place.folder, "--yes", "--python", sys.executable)
    (here / "knime" / "__init__.py").touch()
    _, found = findings(cli, "--knime", place.folder)
    assert any("has a package 'knime', which hides KNIME's own" in said for _, said in found)
