"""Installations of KNIME, made up for each system, and what is written into their files."""

import sysconfig
from pathlib import Path

import pytest
import yaml

from knime_mcp.cli.command_errors import CommandError
from knime_mcp.cli.knime_setup import (
    INI,
    apply,
    installation_at,
    installations,
    registered,
    with_extension,
    without_extension,
)

ENTRY = {"src": r"C:\Users\O'Hara\knime_mcp", "python_executable": "/v/bin/python"}
ARGUMENT = "-Dknime.python.extension.config="
PYTHON = "org.knime.python3.nodes"
JVM = "-startup\nx\n-vmargs\n-Xmx2g\n"


def make(folder, ini=JVM, version="5.9.0", python=True):
    (folder / "plugins").mkdir(parents=True)
    (folder / INI).write_bytes(ini.encode())
    if version:
        (folder / "plugins" / f"org.knime.core_{version}.v202511.jar").touch()
    if python:
        (folder / "plugins" / f"org.knime.python3.nodes_{version}.v202511").mkdir()
    return installation_at(folder)


@pytest.mark.parametrize(
    ("system", "folder", "environment"),
    [
        ("win32", "Program Files/KNIME", {"ProgramFiles": "Program Files"}),
        ("win32", "Local/Programs/KNIME", {"LOCALAPPDATA": "Local"}),
        ("win32", "knime_5.9.0", {}),
        ("darwin", "Applications/KNIME 5.9.app/Contents/Eclipse", {}),
        ("darwin", "home/Applications/KNIME.app/Contents/Eclipse", {}),
        ("linux", "opt/knime_5.9.0", {}),
        ("linux", "home/knime_5.9.0", {}),
    ],
)
def test_where_they_are_found(tmp_path, system, folder, environment):
    place = make(tmp_path / folder)
    (tmp_path / "opt" / "knime-notes").mkdir(parents=True)
    environment = {name: str(tmp_path / value) for name, value in environment.items()}
    found = installations(system, tmp_path / "home", environment, tmp_path)
    assert found == [place]
    assert found[0].version == (5, 9, 0)
    assert found[0].newest(PYTHON)


def test_the_program_on_the_path_is_one(tmp_path):
    place = make(tmp_path / "somewhere")
    program = place.folder / f"knime{sysconfig.get_config_var('EXE')}"
    program.touch(mode=0o755)
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / program.name).symlink_to(program)
    assert installations("linux", tmp_path, {"PATH": str(tmp_path / "bin")}, tmp_path / "none") == [place]


def test_what_is_named_by_hand(tmp_path):
    place = make(tmp_path / "k")
    assert installation_at(place.ini) == installation_at(place.folder / "knime.exe") == place
    assert installation_at(tmp_path) is None


def test_without_its_plugins_the_version_is_unknown(tmp_path):
    place = make(tmp_path / "k", version="", python=False)
    assert (place.version, place.newest(PYTHON), place.config) == (None, None, None)


def test_an_update_leaves_the_version_before(tmp_path):
    place = make(tmp_path / "k")
    newer = place.plugins / f"{PYTHON}_5.10.0.v202607"
    newer.mkdir()
    assert place.newest(PYTHON) == newer


@pytest.mark.parametrize(
    ("ini", "expected"),
    [
        (JVM, JVM + "{}\n"),
        ("-vmargs\r\n-Xmx2g\r\n", "-vmargs\r\n-Xmx2g\r\n{}\r\n"),
        ("-vmargs\n-Xmx2g", "-vmargs\n-Xmx2g\n{}\n"),
        ("-startup\nx\n", "-startup\nx\n-vmargs\n{}\n"),
        ("", "-vmargs\n{}\n"),
    ],
)
def test_both_files_are_written_and_taken_away(tmp_path, ini, expected):
    place, own = make(tmp_path / "k", ini), tmp_path / "settings" / "own.yml"
    for change in with_extension(place, own, "org.x.y", ENTRY):
        apply(change)
    assert place.ini.read_bytes().decode() == expected.format(f"{ARGUMENT}{own}")
    assert yaml.safe_load(own.read_text()) == {"org.x.y": ENTRY}
    assert registered(place, "org.x.y") == ENTRY
    assert with_extension(place, own, "org.x.y", ENTRY) == []
    for change in without_extension(place, own, "org.x.y"):
        apply(change)
    left = place.ini.read_bytes().decode()
    assert ARGUMENT not in left
    assert left.replace("-vmargs\n", "").rstrip() == ini.replace("-vmargs\n", "").rstrip()
    assert not own.exists()
    assert without_extension(place, own, "org.x.y") == []


OTHERS = """# mine
org.other.one:
  src: /a  # a comment

org.x.y:
  src: /old

  debug_mode: true
org.other.two: {src: /b}
"""


def test_entries_of_others_are_kept_as_they_are(tmp_path):
    config = tmp_path / "theirs.yml"
    config.write_text(OTHERS)
    place = make(tmp_path / "k", f"{JVM}{ARGUMENT}{config}\n")
    (change,) = with_extension(place, tmp_path / "own.yml", "org.x.y", ENTRY)
    assert change.file == config
    apply(change)
    text = config.read_text()
    assert text.startswith("# mine\norg.other.one:\n  src: /a  # a comment\n\norg.other.two: {src: /b}\n")
    assert registered(place, "org.x.y") == ENTRY
    (back,) = without_extension(place, tmp_path / "own.yml", "org.x.y")  # knime.ini stays: others need it
    apply(back)
    assert set(yaml.safe_load(config.read_text())) == {"org.other.one", "org.other.two"}


@pytest.mark.parametrize("text", ["a: [", "- a\n", "just text"])
def test_a_file_that_is_not_understood_is_not_written_to(tmp_path, text):
    config = tmp_path / "theirs.yml"
    config.write_text(text)
    place = make(tmp_path / "k", f"{JVM}{ARGUMENT}{config}\n")
    with pytest.raises(CommandError, match="Correct it first"):
        with_extension(place, tmp_path / "own.yml", "org.x.y", ENTRY)
    assert config.read_text() == text


def test_a_file_that_cannot_be_written(tmp_path):
    blocked = tmp_path / "file"
    blocked.touch()
    (change, _) = with_extension(make(tmp_path / "k"), blocked / "own.yml", "org.x.y", ENTRY)
    with pytest.raises(CommandError, match=r"cannot be written: .*write by hand what was shown"):
        apply(change)


def test_an_ini_in_another_encoding_is_said(tmp_path):
    place = make(tmp_path / "k")
    place.ini.write_bytes(b"-vmargs\n-Dx=\xff\n")
    with pytest.raises(CommandError, match=r"knime\.ini cannot be read: it is not UTF-8"):
        with_extension(place, Path("own.yml"), "org.x.y", ENTRY)
