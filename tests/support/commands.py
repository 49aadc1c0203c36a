"""Programs of this project's environment, started as forks of a process that has imported what they need.

`Popen` and `run` are those of `subprocess`: real streams, signals, folders, variables, exit codes. Each
program has a session of its own. Starting Python and importing take most of a short command's time, so tests
use `subprocess` itself only for what this cannot show: how Python starts (its options and variables other
than ``-u``, ``-W``, PYTHONWARNINGS, PYTHONUNBUFFERED, PYTHONIOENCODING, PYTHONPATH), which modules are
loaded, signals during the start, streams that the shell has closed. Programs that are not our Python start
as ever. Who starts programs itself, such as a client of MCP, gets a forked one by `relayed`.
"""

import atexit
import functools
import os
import pickle
import select
import socket
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

#: The modules of our commands; without a name it is `knime-mcp`.
_PROGRAMS = {
    "mcpgraph": "knime_mcp_graph.commands.program",
    "knime-nodes": "knime_node_knowledge.commands.program",
}
_SERVER = Path(__file__).with_name("command_server.py")
_RELAY = Path(__file__).with_name("command_relay.py")
_starting = threading.Lock()


def words_of(*arguments):
    """How one of our commands is started, in this Python."""
    words = [*map(str, arguments)]
    program = _PROGRAMS.get(words[0]) if words else None
    return [sys.executable, "-m", program or "knime_mcp.cli.app", *words[1 if program else 0 :]]


def relayed(words):
    """A command that starts the same program, forked, for whoever starts programs itself: a client of MCP."""
    if sys.platform == "win32":
        return [*words]
    _, door = _server()
    python, *words = map(str, words)
    return [python, "-I", "-S", str(_RELAY), door, *words]


@functools.cache
def _server() -> tuple[socket.socket, str]:
    """The process that forks, and where others ask it; it ends when this one closes the socket, or ends."""
    ours, its = socket.socketpair()
    folder = tempfile.TemporaryDirectory()
    address = str(Path(folder.name, "door"))
    with its, socket.socket(socket.AF_UNIX) as door:
        door.bind(address)
        door.listen()
        # The variables of this process that begin with its names would be read by modules that are imported.
        kept = {name: value for name, value in os.environ.items() if not name.startswith("KNIME_MCP_")}
        process = subprocess.Popen(
            [sys.executable, "-W", "error", str(_SERVER), str(its.fileno()), str(door.fileno())],
            env=kept | {"OPENBLAS_NUM_THREADS": "1"},
            stdin=subprocess.DEVNULL,
            pass_fds=[its.fileno(), door.fileno()],
            start_new_session=True,
        )
    atexit.register(lambda: (ours.close(), process.wait(), folder.cleanup()))
    return ours, address


def _line(told):
    """What comes up to the next end of a line: a short program's end may come at once with its id."""
    line = b""
    while (byte := told.recv(1)) not in (b"", b"\n"):
        line += byte
    return line


class _Forked(subprocess.Popen):
    """A program that another process has forked, and waits for."""

    _status: socket.socket | None = None

    def _execute_child(self, args, executable, preexec_fn, close_fds, pass_fds, cwd, env, *rest):
        words = [os.fsdecode(word) for word in ([args] if isinstance(args, str | os.PathLike) else args)]
        if words[0] != sys.executable or executable is not None or rest[2] or pass_fds:
            super()._execute_child(args, executable, preexec_fn, close_fds, pass_fds, cwd, env, *rest)
            return
        pipes = rest[3:9]
        task = pickle.dumps(
            {
                "words": words[1:],
                "env": {
                    os.fsdecode(k): os.fsdecode(v) for k, v in (os.environ if env is None else env).items()
                },
                "folder": os.fsdecode(os.getcwd() if cwd is None else cwd),  # noqa: PTH109 - as bytes too
                "prepare": preexec_fn,
            }
        )
        status, its = socket.socketpair()
        with its:
            streams = [own if end == -1 else end for own, end in enumerate((pipes[0], pipes[3], pipes[5]))]
            with _starting:
                socket.send_fds(_server()[0], [b"."], [its.fileno(), *streams])
            status.sendall(task)
            # Until the other process has them, the descriptors stay open here.
            said = _line(status)
        if not said:
            status.close()
            raise ChildProcessError("the process that forks programs has ended")
        self.pid = int(said)
        self._status = status
        self._child_created = True
        self._close_pipe_fds(*pipes)

    def _internal_poll(self, _deadstate=None, **others):
        if self._status is None:
            return super()._internal_poll(_deadstate, **others)
        if self.returncode is None:
            self._hear(0)
        return self.returncode

    def _wait(self, timeout):
        if self._status is None:
            return super()._wait(timeout)
        if self.returncode is None and not self._hear(timeout):
            raise subprocess.TimeoutExpired(self.args, timeout)
        return self.returncode

    def _hear(self, timeout):
        """Whether the program has ended, within this time."""
        with self._waitpid_lock:
            if self.returncode is not None:
                return True
            if not select.select([self._status], [], [], timeout)[0]:
                return False
            said = _line(self._status)
            self._status.shutdown(socket.SHUT_WR)
            self._status.recv(1)  # its pid is no longer taken
            self._status.close()
            self.returncode = int(said) if said else -9
            return True


def _run(args, *, input=None, capture_output=False, timeout=None, check=False, **options):  # noqa: A002 - as there
    """`subprocess.run`."""
    if input is not None:
        options["stdin"] = subprocess.PIPE
    if capture_output:
        options |= {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with Popen(args, **options) as process:
        try:
            out, err = process.communicate(input, timeout)
        except BaseException:
            process.kill()
            raise
    done = subprocess.CompletedProcess(args, process.returncode, out, err)
    if check:
        done.check_returncode()
    return done


# Windows has no forks.
Popen, run = (subprocess.Popen, subprocess.run) if sys.platform == "win32" else (_Forked, _run)
