"""The four ways to the package: a wheel, an editable install, `uv run`, and src/ on PYTHONPATH.

Run by CI (`make ways-in`) rather than by pytest, because it builds and installs.
"""

import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

from tests.peers import build_peers

ROOT = Path(__file__).parents[2]

#: Imports every layer, and proves that the standard library's `types` is still itself.
PROBE = """
import enum, types
assert "lib/python" in types.__file__.replace(chr(92), "/"), types.__file__
from knime_mcp.tools import MCPClient
from knime_mcp.types.tool import MCPTool, ToolType
from knime_mcp.version import VERSION
tool = MCPTool("a", "b", {}, "http://127.0.0.1/mcp", "a")
assert tool.tool_type is ToolType.MCP
import sys
assert not [m for m in sys.modules if m.split(".")[0] in ("tools", "agents", "audit")], sorted(sys.modules)
print(VERSION, MCPClient.__module__)
"""
#: Starts every command where there is no `knime`, as outside KNIME.
COMMANDS = """
import importlib.util
from typer.main import get_command
from typer.testing import CliRunner
from knime_mcp.cli.commands import build_app
from knime_mcp.tools import audit_workflow, tool_component
assert importlib.util.find_spec("knime") is None
app, words, count = build_app(), [([], get_command(build_app()))], 0
for names, command in words:
    words += [([*names, name], inner) for name, inner in getattr(command, "commands", {}).items()]
    done = CliRunner().invoke(app, [*names, "--help"])
    assert done.exit_code == 0, (names, done.output)
    count += 1
print(count, "start")
"""
CLEAN = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "VIRTUAL_ENV")}


def run(*command: str | Path, **env: str) -> str:
    """Runs a command outside the checkout, with nothing of ours on the path but what `env` adds."""
    with tempfile.TemporaryDirectory() as elsewhere:
        done = subprocess.run(
            [str(part) for part in command],
            cwd=elsewhere,
            env=CLEAN | env,
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
        )
    if done.returncode:
        sys.exit(f"{command}\n{done.stdout}\n{done.stderr}")
    return done.stdout.strip()


def installed(folder: Path, *what: str | Path) -> Path:
    """A virtual environment with nothing but this and what it needs; returns its Python."""
    run(sys.executable, "-m", "venv", "--without-pip", folder)
    python = folder / "bin" / "python"
    command = [sys.executable, "-m", "pip", "--python", python, "install", "--quiet", *what]
    build_peers.network(f"pip install for {folder.name}", command, cwd=folder, env=CLEAN)
    return python


def _closing_line(said: str) -> str:
    return next(line for line in said.splitlines() if line.startswith("Done in"))


def wheel(work: Path) -> None:
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", work, ROOT]
    build_peers.network("the build of the wheel", command, cwd=work, env=CLEAN)
    (built,) = work.glob("knime_mcp-*.whl")
    names = zipfile.ZipFile(built).namelist()
    assert not [
        n for n in names if n.startswith(("src/", "types/", "knime/", "knime_mcp.py", "mcp_extension.py"))
    ]
    assert "knime_mcp/types/tool.py" in names
    python = installed(work / "wheel", built)
    print("wheel          ", run(python, "-c", PROBE))
    print("wheel, commands", run(python, "-c", COMMANDS))
    print("wheel, in KNIME", _in_knime(python, work))
    print("wheel, demo    ", _closing_line(run(python.with_name("knime-mcp"), "demo")))


def _in_knime(python: Path, work: Path) -> str:
    """`knime install` with the environment that it makes itself, twice, and back again."""
    knime = work / "knime_5.9.0"
    (knime / "plugins" / "org.knime.python3.nodes_5.9.0").mkdir(parents=True)
    (knime / "plugins" / "org.knime.core_5.9.0.v1.jar").touch()
    (knime / "knime.ini").write_text("-vmargs\n")
    own = {"XDG_DATA_HOME": str(work / "data"), "XDG_CONFIG_HOME": str(work / "settings")}
    command = [python.with_name("knime-mcp"), "knime", "install", "--knime", knime, "--yes"]
    run(*command, **own)
    (entry,) = (work / "settings" / "knime-mcp").glob("*.yml")
    assert "site-packages/knime_mcp" in entry.read_text()
    again = run(*command, **own)
    run(python.with_name("knime-mcp"), "knime", "doctor", "--knime", knime, **own)
    run(*command, "--remove", **own)
    assert (knime / "knime.ini").read_text() == "-vmargs\n"
    assert not (work / "data" / "knime-mcp" / "python").exists()
    return again.partition(" ")[2]


def editable_and_bare_path(work: Path) -> None:
    """The second as KNIME does it: src/ on PYTHONPATH before Python starts, and what it needs installed."""
    python = installed(work / "editable", "--editable", ROOT)
    print("editable       ", run(python, "-c", PROBE))
    run(sys.executable, "-m", "pip", "--python", python, "uninstall", "--quiet", "--yes", "knime-mcp")
    print("PYTHONPATH=src ", run(python, "-c", PROBE, PYTHONPATH=str(ROOT / "src")))


def uv_run(work: Path) -> None:
    uv = shutil.which("uv", path=os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]))
    assert uv, "uv is in the dev group; make ways-in installs it"
    lock_was_there = (ROOT / "uv.lock").exists()
    command = [uv, "run", "--quiet", "--no-dev", "--project", ROOT]
    environment = {"UV_PROJECT_ENVIRONMENT": str(work / "uv")}
    build_peers.network("uv run", [*command, "true"], cwd=work, env=CLEAN | environment)
    out = run(*command, "python", "-c", PROBE, **environment)
    if not lock_was_there:
        (ROOT / "uv.lock").unlink(missing_ok=True)
    print("uv run         ", out)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        for way in (wheel, editable_and_bare_path, uv_run):
            way(Path(folder))
