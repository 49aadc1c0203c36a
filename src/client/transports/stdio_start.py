"""Starts a server's process, and a watchdog process that ends it if the client is killed."""

import errno
import os
import shutil
import subprocess
from typing import Final

from ...types.errors import ConnectError
from .stdio_server import StdioServer

IS_WINDOWS: Final = os.name == "nt"
# The watchdog sees the end of its input when the client is killed, and then ends the server's group.
_WATCH: Final = 'read -r _; sleep 2; kill -TERM "-$1" || exit; sleep 2; kill -KILL "-$1"'


def start(server: StdioServer) -> subprocess.Popen[bytes]:
    """Starts a server in its own process group, with its three streams as pipes.

    Raises:
        ConnectError: The process cannot be started; phase ``process``.
    """
    environment = server.environment()
    program = server.program
    if IS_WINDOWS:  # CreateProcess does not find npx.cmd
        program = shutil.which(program, path=environment.get("PATH")) or program
    try:
        return subprocess.Popen(  # noqa: S603 - to run it is what the caller asked for
            [program, *server.command[1:]],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
            env=environment,
            cwd=server.cwd,
            start_new_session=True,
            creationflags=getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0),
        )
    except OSError as error:
        raise _not_started(server, error) from None


def _not_started(server: StdioServer, error: OSError) -> ConnectError:
    if server.cwd is not None and error.filename == server.cwd:
        what, fix = f"There is no folder {server.cwd} to start the server in", "Create it first"
    elif isinstance(error, FileNotFoundError):
        what = f"There is no program '{server.program}'"
        fix = "Install it, or write its full path; it is looked for in the folders of PATH"
        if shutil.which(server.program, path=server.environment().get("PATH")):
            what = f"The first line of the script '{server.program}' names a program that does not exist"
            fix = "Install the script again, or start it with its interpreter; it may have Windows line ends"
    elif isinstance(error, PermissionError) or error.errno == errno.ENOEXEC:
        what = f"The program '{server.program}' may not be executed, or is a script without its interpreter"
        fix = "Make the file executable, or start it with its interpreter, such as python server.py"
    else:
        what = f"The program '{server.program}' cannot be started: {error.strerror or type(error).__name__}"
        fix = "Run the command in a terminal and see what it says"
    return ConnectError(what, phase="process", fix=fix)


def watch(pid: int) -> subprocess.Popen[bytes] | None:
    """Starts the watchdog process, which ends the group if this process is killed; None without sh."""
    if IS_WINDOWS:
        return None
    try:
        return subprocess.Popen(  # noqa: S603 - all of it is ours
            ["/bin/sh", "-c", _WATCH, "sh", str(pid)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            bufsize=0,
            env={"PATH": os.defpath},
            cwd="/",
            start_new_session=True,
        )
    except OSError:
        return None
