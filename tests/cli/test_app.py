import errno
import io
import signal
import subprocess
import sys

import pytest

from knime_mcp.cli.app import main
from knime_mcp.version import VERSION

from .conftest import RECORDED


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


def test_without_a_command_the_first_steps_are_shown(cli):
    done = cli()
    assert (done.code, done.err) == (0, "")
    assert done.out.count("\n  knime-mcp ") == 5
    assert "knime-mcp demo" in done.out


@pytest.mark.parametrize(
    ("command", "options"),
    [
        ("list", ("--credential", "--bearer-env", "--stdio", "--help-all")),
        ("batch", ("--out", "--resume", "--help-all")),
        ("replay", ("--ignore", "--with-credential", "--help-all")),
    ],
)
def test_help_has_what_is_used_daily_and_help_all_the_rest(cli, command, options):
    daily, everything = cli(command, "--help").out, cli(command, "--help-all").out
    for option in options:
        assert option in daily
        assert option in everything
    for option in ("--idle-timeout", "--protocol", "--ca-file"):
        assert option not in daily
        assert option in everything


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


class Stream:
    """A stream with nothing but what `print` needs."""

    def __init__(self):
        self.text = ""

    def write(self, text):
        self.text += text
        return len(text)

    def flush(self):
        pass


class ClosedPipe(Stream):
    """A stream whose reader has gone."""

    def write(self, text):
        raise BrokenPipeError(errno.EPIPE, "Broken pipe")


@pytest.fixture
def main_in_process(monkeypatch):
    """Runs the command line in this process with other streams; gives the exit code."""

    def run(*arguments, out, err, stdin=None):
        monkeypatch.setattr(sys, "argv", ["knime-mcp", *map(str, arguments)])
        monkeypatch.setattr(sys, "stdout", out)
        monkeypatch.setattr(sys, "stderr", err)
        monkeypatch.setattr(sys, "stdin", stdin or io.StringIO())
        with pytest.raises(SystemExit) as ended:
            main()
        return ended.value.code

    return run


@pytest.mark.parametrize("make", [io.StringIO, Stream])
def test_streams_may_be_replaced_by_the_program_around_it(main_in_process, server, make):
    for text in ("one", "zwölf"):
        out, err = make(), make()
        stdin = io.StringIO(f'\ufeff{{"text": "{text}"}}')
        words = ("call", server.url, "echo", "times=1", "--json", "--json-arguments", "@-")
        assert main_in_process(*words, out=out, err=err, stdin=stdin) == 0
        assert text in (out.text if make is Stream else out.getvalue())


@pytest.mark.parametrize("make", [io.StringIO, Stream])
def test_tables_notes_and_errors_go_to_the_streams_of_this_time(main_in_process, server, make):
    for name in ("nothing", "nowhere"):
        out, err = make(), make()
        assert main_in_process("list", server.url, out=out, err=err) == 0
        assert "echo" in (out.text if make is Stream else out.getvalue())
        assert main_in_process("call", server.url, name, out=make(), err=err) == 1
        assert name in (err.text if make is Stream else err.getvalue())


def test_a_replaced_stream_whose_reader_has_gone(main_in_process):
    assert main_in_process("audit", "show", RECORDED, "--json", out=ClosedPipe(), err=io.StringIO()) == 1


def test_a_program_with_other_streams_keeps_its_signals(main_in_process):
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    main_in_process("audit", "verify", RECORDED, out=io.StringIO(), err=io.StringIO())
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == before
