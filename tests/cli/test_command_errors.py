"""Ctrl-C at any moment: also in the middle of an import or of a line that is being printed."""

import os
import subprocess
import sys

import pytest

_IN_AN_IMPORT = """
import signal, sys
from knime_mcp.cli.command_errors import Interrupt

class Hook:
    # Called where Python looks for a module, as a signal that arrives then would be.
    def find_spec(self, name, path=None, target=None):
        if name == "rich._extension":
            signal.raise_signal(signal.SIGINT)

sys.meta_path.insert(0, Hook())
with Interrupt() as interrupt:
    import rich
    assert interrupt(), "remembered"
print(sorted(name for name in sys.modules if name.startswith("rich")))
"""

_IN_A_LINE = """
import io, signal, sys
from knime_mcp.cli.command_errors import Interrupt

class Interrupted(io.RawIOBase):
    def writable(self):
        return True
    def fileno(self):
        return 2
    def write(self, data):
        signal.raise_signal(signal.SIGINT)
        return len(data)

with Interrupt() as interrupt:
    sys.stderr = io.TextIOWrapper(io.BufferedWriter(Interrupted()), write_through=True, line_buffering=True)
    print("a remark", file=sys.stderr)
    assert interrupt(), "remembered"
print("printed")
"""


def _run(script: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True, text=True, timeout=60, check=False, env={**os.environ, "NO_COLOR": "1"},
    )  # fmt: skip


def test_ctrl_c_within_an_import_imports_nothing_itself():
    done = _run(_IN_AN_IMPORT)
    assert done.returncode == 0, done.stderr
    assert done.stderr == "Stopping. Ctrl-C once more stops at once.\n"
    assert "rich.console" not in done.stdout


def test_ctrl_c_within_a_line_that_is_printed():
    done = _run(_IN_A_LINE)
    assert done.returncode == 0, done.stderr
    assert done.stderr == "Stopping. Ctrl-C once more stops at once.\n"
    assert done.stdout == "printed\n"


def test_ctrl_c_with_standard_error_closed():
    done = _run(
        "import signal, sys\n"
        "from knime_mcp.cli.command_errors import Interrupt\n"
        "with Interrupt() as interrupt:\n"
        "    sys.stderr.close()\n"
        "    signal.raise_signal(signal.SIGINT)\n"
        "    print(interrupt())\n"
    )
    assert (done.returncode, done.stdout) == (0, "True\n")


_AROUND_A_COMMAND = """
import signal, sys
import typer
from knime_mcp.cli import app, commands

def interrupted():
    signal.raise_signal(signal.{signal})

signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's jobs in the background ignore it

def build(first):
    {before}
    line = typer.Typer()
    line.callback(invoke_without_command=True)(interrupted)
    return line

commands.build_app = build
sys.argv = ["knime-mcp"]
app.main()
"""


@pytest.mark.parametrize("before", ["interrupted()", "pass"])
@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM"])
def test_a_signal_around_a_command_cancels_it_too(name, before):
    done = _run(_AROUND_A_COMMAND.format(signal=name, before=before))
    assert (done.returncode, done.stderr) == (3, "")


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM"])
def test_a_signal_when_all_is_done_shows_no_traceback(name):
    done = _run(
        "import signal, sys, threading\n"
        "from knime_mcp.cli import app, commands\n"
        f"threading._register_atexit(signal.raise_signal, signal.{name})\n"
        "commands.build_app = lambda first: lambda **_: sys.exit(0)\n"
        "app.main()\n"
    )
    assert (done.returncode, done.stderr) == (3, "")
