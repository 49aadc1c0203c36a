"""A command that is forked does what it does in a process of its own."""

import os
import re
import signal
import subprocess
import sys

import pytest

from tests.graph.graphs import transform
from tests.graph.live import graph_file
from tests.support import commands

from .conftest import DEADLINE, RECORDED, SECRET

ARGUMENTS = f'{{"text": "{SECRET} ⟶"}}'
#: Command lines; of those with ``< ``, standard input has the arguments.
LINES = """
--version
--help

nonsense
list
list URL
list URL --json
list URL --nope
list http://127.0.0.1:9/mcp
inspect URL
inspect URL --json
call --help
call --help-all
call URL echo text=a times=2
call URL echo text=a --json
call URL ecko text=a
call URL fail why=tired
call URL echo times=many
call URL echo --json-arguments @- <
call GUARDED echo text=a
call GUARDED echo --json-arguments @- --bearer-env TOKEN <
batch URL echo p.csv
batch URL echo p.csv --out r.parquet
batch URL echo nowhere.csv
audit show RECORDED
audit show RECORDED --json
audit verify RECORDED
mcpgraph check GRAPH
mcpgraph run GRAPH t v=5
mcpgraph check nowhere.yaml
knime-nodes search VLOOKUP
config list
""".splitlines()[1:]
#: What differs from run to run.
VARYING = re.compile(
    r"call \d of \d\n|─{2,}|-{4,}|\d+(\.\d+)? (ms|s)\b|"
    r"\d{8}T\d{6}\.\d+Z-\w+|\d{4}-\d\d-\d\d.\d\d:\d\d:\d\d\S*|[0-9a-f]{12,}|\d+\.\d{2,}"
)


@pytest.fixture
def ended(tmp_path, server):
    """Runs a command line in either way; gives its exit code and what it printed."""
    (tmp_path / "p.csv").write_text("text\na\nb\n", "utf-8")
    values = {
        "URL": server.url, "GUARDED": f"{server.base}/guarded/mcp", "RECORDED": str(RECORDED),
        "GRAPH": str(graph_file(tmp_path, transform("{'r': entry.v}"))),
    }  # fmt: skip
    environment = {
        "TOKEN": SECRET, "KNIME_MCP_SERVERS": str(tmp_path / "servers.json"), "XDG_CACHE_HOME": str(tmp_path),
        "PYTHONWARNINGS": "error", "PYTHON_KEYRING_BACKEND": "keyring.backends.null.Keyring",
    }  # fmt: skip

    def run(start, line):
        words = [values.get(word, word) for word in line.split() if word != "<"]
        done = start(
            commands.words_of(*words),
            input=ARGUMENTS if line.endswith("<") else "",
            cwd=tmp_path, env=os.environ | environment, capture_output=True, text=True,
            encoding="utf-8", timeout=DEADLINE,
        )  # fmt: skip
        return done.returncode, VARYING.sub("", done.stdout).split(), VARYING.sub("", done.stderr).split()

    return run


@pytest.mark.long
@pytest.mark.timeout(1800)  # thirty starts of Python
def test_command_lines_give_the_same_in_both_ways(ended):
    differing = []
    for line in LINES:
        cold, warm = ended(subprocess.run, line), ended(commands.run, line)
        if cold != warm:
            differing.append((line, cold, warm))
    assert not differing


#: What a program is told of, and how it ends.
PROGRAMS = {
    "ends": "",
    "fails": "1 / 0",
    "says why": "raise SystemExit('why')",
    "exits": "import sys; sys.exit(7)",
    "is killed": "import os, signal; os.kill(os.getpid(), signal.SIGKILL)",
    "is interrupted": "raise KeyboardInterrupt",
    "ends its threads": "import threading, time; threading.Timer(0.2, print, ['late']).start()",
    "says goodbye": "import atexit; atexit.register(print, 'bye')",
    "warns": "import warnings; warnings.warn('w', DeprecationWarning)",
    "leaves a file open": "open(__import__('os').devnull)",
    "leaves text unwritten": "import sys; sys.stdout.write('a'); sys.stderr.write('b')",
    "reads": "import sys; print(sys.stdin.read(), sys.stdin.encoding, sys.stdin.errors)",
    "has streams": (
        "import sys\n"
        "for s in (sys.stdin, sys.stdout, sys.stderr, sys.__stdout__):\n"
        "    print(s.name, s.mode, s.encoding, s.errors, s.newlines, s.line_buffering, s.write_through)"
    ),
    "has surroundings": (
        "import os, sys\n"
        "print(os.getcwd(), os.environ.get('MINE'), sys.argv, sys.path, sys.warnoptions, __name__)\n"
        "print(os.getsid(0) == os.getpid() == os.getpgid(0), sorted(os.environ))"
    ),
    "has signals": (
        "import signal\n"
        "print([signal.getsignal(number) for number in sorted(signal.valid_signals())])\n"
        "print(signal.pthread_sigmask(signal.SIG_BLOCK, []))"
    ),
}
WAYS = {
    "as it is": [[], {}],
    "strict": [[], {"PYTHONWARNINGS": "error"}],
    "told of warnings": [["-W", "ignore", "-u"], {"PYTHONWARNINGS": "error", "MINE": "ä"}],
    "in latin-1": [[], {"PYTHONIOENCODING": "latin-1:replace", "PYTHONPATH": "/one:/two"}],
}


def run_relayed(words, **options):
    return subprocess.run(commands.relayed(words), check=False, **options)


def test_programs_give_the_same_in_all_ways(tmp_path):
    differing = []
    for what, program in PROGRAMS.items():
        for way, (options, variables) in WAYS.items():
            setting = {"cwd": tmp_path, "env": os.environ | variables, "start_new_session": True}
            streams = {
                "input": "é⟶",
                "capture_output": True,
                "encoding": "utf-8",
                "errors": "surrogateescape",
            }
            words = [sys.executable, *options, "-c", program, "an argument"]
            results = [
                run(words, timeout=DEADLINE, **setting, **streams)
                for run in (subprocess.run, commands.run, run_relayed)
            ]
            cold, *warm = ((done.returncode, done.stdout, done.stderr) for done in results)
            if warm != [cold, cold]:
                differing.append((what, way, cold, *warm))
    assert not differing


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_a_relayed_program_ends_with_what_relays_it(number):
    interrupted = "signal.signal(signal.SIGINT, signal.SIG_DFL)"
    program = f"import signal, time; {interrupted}; print(flush=True); time.sleep(600)"
    command = commands.relayed([sys.executable, "-c", program])
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout.readline() == b"\n"
        process.send_signal(number)
        assert process.wait(DEADLINE) == -number
        assert process.stdout.read() == b""


@pytest.mark.parametrize("warm", [False, True])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_signals_to_the_group_end_a_call(cli, cold_cli, server, until, number, warm):
    label = f"{number.name}-{warm}"
    process = (cli if warm else cold_cli).start("call", server.url, "slow", "seconds=60", f"label={label}")
    until(lambda: f"started {label}" in server.said(), "the call reached the server")
    os.killpg(process.pid, number)
    code = cli.finish(process).code
    assert code == (-signal.SIGKILL if number == signal.SIGKILL else 3)
