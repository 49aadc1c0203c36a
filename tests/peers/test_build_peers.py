"""What `make peers` promises: pinned, nothing to do when fresh, no registry named, clear when missing."""

import json
import shutil
import subprocess
import sys

import pytest

from tests.peers import build_peers
from tests.support import peers


@pytest.mark.parametrize(
    "start", [peers.mcp2, peers.mcp1, peers.fastmcp4, peers.fastmcp3, lambda: peers.everything("sse")]
)
def test_without_peers_the_failure_says_what_to_run(start, monkeypatch, tmp_path) -> None:
    monkeypatch.setattr(build_peers, "ROOT", tmp_path)
    with pytest.raises(pytest.fail.Exception, match="run `make peers`"):
        start()


def test_a_step_that_fails_says_why_each_time(monkeypatch, capfd) -> None:
    monkeypatch.setattr(build_peers, "PAUSES", (0,))
    said = f"npm error reason: no such host\nnpm error {build_peers.NPMS_LOG}: /home/x.log"
    with pytest.raises(build_peers.BuildError, match=r"failed 2 times.*\n.*no such host$"):
        build_peers.network("npm ci", [sys.executable, "-c", f"raise SystemExit({said!r})"])
    assert capfd.readouterr().out == "npm ci failed, again in 0 s: npm error reason: no such host\n"


@pytest.mark.peer
def test_a_second_build_does_nothing(capfd) -> None:
    if not all(build_peers.is_fresh(name) for name in build_peers.NAMES):
        pytest.fail("run `make peers`")
    assert build_peers.main() == 0
    assert sorted(capfd.readouterr().out.splitlines()) == sorted(
        f"{name}: fresh" for name in build_peers.NAMES
    )


@pytest.mark.peer
@pytest.mark.parametrize("name", build_peers.NAMES)
def test_changed_pins_make_an_environment_stale(name, monkeypatch, tmp_path) -> None:
    assert build_peers.is_fresh(name), "run `make peers`"
    changed = tmp_path / "constraints.txt"
    changed.write_text("uvicorn==0.1")
    project = tmp_path / "node"
    shutil.copytree(build_peers.NODE_PROJECT, project)
    (project / "package.json").write_text("{}")
    monkeypatch.setattr(build_peers, "CONSTRAINTS", changed)
    monkeypatch.setattr(build_peers, "NODE_PROJECT", project)
    monkeypatch.setattr(build_peers, "ADDED_PYTHON", {"agents": ("langchain==0.1",)})
    assert not build_peers.is_fresh(name)


@pytest.mark.peer
def test_what_was_installed_is_what_is_pinned() -> None:
    shared = build_peers.CONSTRAINTS.read_text().splitlines()[1:]
    servers = {name: (pins, [*pins, *shared]) for name, pins in build_peers.PYTHON_PEERS.items()}
    added = {name: (pins, pins) for name, pins in build_peers.ADDED_PYTHON.items()}
    for name, (pins, all_pins) in (servers | added).items():
        assert build_peers.is_fresh(name), "run `make peers`"
        code = (
            "import importlib.metadata as m, json;"
            "print(json.dumps({d.name.lower(): d.version for d in m.distributions()}))"
        )
        found = subprocess.run(
            [build_peers.python(name), "-c", code], capture_output=True, text=True, check=True, timeout=60
        )
        installed: dict[str, str] = json.loads(found.stdout)
        pinned = dict(pin.lower().split("==") for pin in all_pins)
        pinned = {package.split("[")[0]: version for package, version in pinned.items()}
        assert installed.items() <= pinned.items()
        assert {pin.split("==")[0].split("[")[0] for pin in pins} <= installed.keys()
    for package, version in json.loads((build_peers.NODE_PROJECT / "package.json").read_text())[
        "dependencies"
    ].items():
        assert (
            json.loads((build_peers.node_package(package) / "package.json").read_text())["version"] == version
        )


def test_no_registry_is_named_in_what_is_committed() -> None:
    lock = (build_peers.NODE_PROJECT / "package-lock.json").read_text()
    assert '"resolved"' not in lock
    assert "registry" not in lock


def test_a_step_that_fails_is_tried_again(monkeypatch, tmp_path, capfd) -> None:
    monkeypatch.setattr(build_peers, "PAUSES", (0, 0))
    count = tmp_path / "count"
    flaky = (
        f"import pathlib, sys; count = pathlib.Path({str(count)!r});"
        "count.write_text(count.read_text() + 'x' if count.exists() else 'x');"
        "sys.exit(len(count.read_text()) < 3)"
    )
    build_peers.network("flaking", [sys.executable, "-c", flaky])
    assert count.read_text() == "xxx"
    with pytest.raises(build_peers.BuildError, match=r"broken failed 3 times(?s:.*)out of order"):
        build_peers.network("broken", [sys.executable, "-c", "print('out of order'); raise SystemExit(1)"])
