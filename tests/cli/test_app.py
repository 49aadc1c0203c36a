import subprocess
import sys

import pytest

from knime_mcp.version import VERSION

from .conftest import ROOT


def test_the_version_is_printed(cli):
    assert cli("--version").out == f"knime-mcp {VERSION}\n"


def test_help_names_the_commands(cli):
    done = cli("--help")
    assert done.code == 0
    for command in ("demo", "inspect", "list", "call", "batch"):
        assert command in done.out


@pytest.mark.parametrize("command", ["demo", "inspect", "list", "call", "batch"])
def test_help_of_a_command(cli, command):
    done = cli(command, "--help")
    assert done.code == 0
    assert len(done.out) > 300


@pytest.mark.parametrize(
    "arguments", [["nonsense"], ["list"], ["call", "http://h/mcp"], ["list", "http://h/mcp", "--nope"]]
)
def test_usage_errors(cli, arguments):
    done = cli(*arguments)
    assert done.code == 2
    assert done.err


def test_help_loads_nothing_heavy():
    code = (
        "import sys\n"
        "sys.argv = ['knime-mcp', '--help']\n"
        "from knime_mcp.cli.app import main\n"
        "try: main()\n"
        "except SystemExit: pass\n"
        "heavy = {'pyarrow', 'httpx', 'mcp', 'keyring', 'langchain_core', 'jsonschema_rs', 'uvicorn'}\n"
        "assert not heavy & set(sys.modules), heavy & set(sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60, stdout=subprocess.DEVNULL)


def test_a_missing_extra_says_what_to_install():
    code = "import sys\nsys.modules['typer'] = None\nfrom knime_mcp.cli.app import main\nmain()\n"
    done = subprocess.run(
        [sys.executable, "-c", code], check=False, timeout=60, capture_output=True, text=True
    )
    assert done.returncode == 1
    assert f"pip install -e '{ROOT}[cli]'" in done.stderr
    assert "Traceback" not in done.stderr
