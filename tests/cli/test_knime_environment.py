"""The environment of the Python that runs the nodes: from what it is made, how, and when anew."""

import json
import shutil
import sys
import sysconfig
from pathlib import Path

import pytest

from knime_mcp.cli.command_errors import CommandError
from knime_mcp.cli.knime_setup import NodesEnvironment, nodes_environment
from knime_mcp.version import VERSION


class Installed:
    """A distribution as its metadata say it, by its ``direct_url.json``."""

    version = VERSION

    def __init__(self, source=None):
        self.source = source

    def read_text(self, name):
        assert name == "direct_url.json"
        return None if self.source is None else json.dumps(self.source)


@pytest.fixture(autouse=True)
def own(tmp_path, monkeypatch):
    for variable in ("XDG_DATA_HOME", "LOCALAPPDATA"):
        monkeypatch.setenv(variable, str(tmp_path))
    return tmp_path / "knime-mcp" / "python"


def test_it_has_what_this_command_was_installed_from(own, tmp_path):
    wheel = tmp_path / "a b.whl"
    wheel.write_bytes(b"1")
    found = nodes_environment(Installed({"url": wheel.as_uri(), "archive_info": {}}))
    assert found.folder == own
    assert found.requirement == f"knime-mcp[knime] @ {wheel.as_uri()}"
    wheel.write_bytes(b"2")
    assert nodes_environment(Installed({"url": wheel.as_uri(), "archive_info": {}})) != found
    folder = nodes_environment(Installed({"url": tmp_path.as_uri(), "dir_info": {}}))
    assert folder.requirement == f"knime-mcp[knime] @ {tmp_path.as_uri()}"
    assert folder.may_differ
    assert not found.may_differ
    commit = {"vcs_info": {"vcs": "git", "commit_id": "1f"}, "subdirectory": "x"}
    clone = nodes_environment(Installed({"url": "https://host.example/a.git", **commit}))
    assert clone.requirement == "knime-mcp[knime] @ git+https://host.example/a.git@1f#subdirectory=x"
    assert nodes_environment(Installed()).requirement == f"knime-mcp[knime]=={VERSION}"
    assert nodes_environment(Installed({"url": tmp_path.as_uri(), "dir_info": {"editable": True}})) is None


def test_where_python_puts_things():
    here = NodesEnvironment(Path(sys.prefix), "x")
    assert here.python.is_file()
    assert here.extension.parent == Path(sysconfig.get_path("purelib"))


@pytest.mark.parametrize("has_uv", [True, pytest.param(False, marks=pytest.mark.long)])
def test_a_failure_says_what_was_said_and_leaves_nothing(own, has_uv, monkeypatch):
    if not has_uv:
        monkeypatch.setattr(shutil, "which", lambda _: None)
    made = NodesEnvironment(own, "knime-mcp[knime] @ file:///nowhere/x.whl")
    with pytest.raises(CommandError, match=r"was not made.*nowhere"):
        made.make()
    assert not own.exists()


def test_it_is_made_once_and_taken_away(own, monkeypatch):
    made = NodesEnvironment(own, "x", "1")
    monkeypatch.setattr(
        NodesEnvironment, "commands", [[sys.executable, "-m", "venv", "--without-pip", str(own)]]
    )
    made.make()
    assert made.is_made
    assert not NodesEnvironment(own, "x", "2").is_made
    assert not NodesEnvironment(own, "x", "1", may_differ=True).is_made
    made.remove()
    assert not own.exists()
