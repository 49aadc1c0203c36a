"""What differs between Windows, macOS and Linux. No other module asks which system it is on.

| what | Linux and macOS | Windows |
|---|---|---|
| a user's folders | XDG's; `~/Library` on macOS | `%APPDATA%`, `%LOCALAPPDATA%` |
| a locked file | `flock` | a byte behind its end, as what is locked cannot be read |
| replacing a file | at once, whoever has it open | once nobody has it open |
| a child and its children | a session; a shell watches over it | a job, which ends with its last handle |
| Ctrl-C and SIGTERM | come to the event loop, too | are a `KeyboardInterrupt`; nobody sends SIGTERM |
| waiting for a socket or pipe | `poll` | `select` for sockets; a pipe can only be read |
| a port that was just used | `SO_REUSEADDR` | free at once; that option would share it |
| a command line as one text | a backslash escapes | a backslash stands in paths |
| who checks certificates | OpenSSL; on macOS the system | the system |
| lines that are typed | `readline`; waiting as above | the console edits; it is asked for keys |
| what was typed too early | `tcflush` | the console's keys are taken one by one |
| line ends | as they are | the same: `newline` is named |

What can be decided without the system takes its name, as `sys.platform` has it, so that tests on one system
see the branches of all. Passwords are the `keyring` package's business on every system.
"""

from __future__ import annotations

import ctypes
import errno
import os
import select
import shlex
import shutil
import signal
import socket
import struct
import subprocess
import sys
import time
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path
from typing import IO, TYPE_CHECKING, Final, Literal, TypedDict

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Generator, Mapping

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl
    import resource
    import termios

NAME: Final = sys.platform

# --- folders -----------------------------------------------------------------------------------------

_FOLDERS: Final = {
    # (the variable and the default of https://specifications.freedesktop.org/basedir-spec/, macOS, Windows)
    "settings": ("XDG_CONFIG_HOME", ".config", "Library/Application Support", "APPDATA"),
    "data": ("XDG_DATA_HOME", ".local/share", "Library/Application Support", "LOCALAPPDATA"),
    "cache": ("XDG_CACHE_HOME", ".cache", "Library/Caches", "LOCALAPPDATA"),
}
_WINDOWS_DEFAULTS: Final = {"APPDATA": "AppData/Roaming", "LOCALAPPDATA": "AppData/Local"}


def user_folder(
    kind: Literal["settings", "data", "cache"],
    *,
    system: str = NAME,
    environment: Mapping[str, str] = os.environ,
    home: Path | None = None,
) -> Path:
    """The folder in which this user's programs keep something; each has a folder of its own in it."""
    variable, unix, mac, windows = _FOLDERS[kind]
    match system:
        case "win32":
            variable, default = windows, _WINDOWS_DEFAULTS[windows]
        case "darwin":
            return (home or Path.home()) / mac
        case _:
            default = unix
    named = Path(environment.get(variable, ""))
    return named if named.is_absolute() else (home or Path.home()) / default


def pythons_in(environment: Path, *, system: str = NAME) -> tuple[Path, Path]:
    """Where the Python of a conda environment stands, likely place first."""
    unix, windows = environment / "bin" / "python", environment / "python.exe"
    return (windows, unix) if system == "win32" else (unix, windows)


# --- files -------------------------------------------------------------------------------------------

_REPLACING_SECONDS: Final = 10.0
# https://learn.microsoft.com/windows/win32/api/fileapi/nf-fileapi-lockfileex
_AT_ONCE, _FOR_ONE, _LOCK_VIOLATION = 1, 2, 33


def try_to_lock(file: IO[bytes]) -> bool:
    """Locks a file until it is closed, or its process ends. True also where its file system has no locks."""
    if sys.platform == "win32":
        # Not `msvcrt.locking`, which fails beyond 2 GiB.
        kernel = ctypes.WinDLL("kernel32", use_last_error=True)
        handle = ctypes.c_void_p(msvcrt.get_osfhandle(file.fileno()))
        where = struct.pack("<16xQ8x", 1 << 62)  # OVERLAPPED; a byte that is never there
        locked = kernel.LockFileEx(handle, _AT_ONCE | _FOR_ONE, 0, 1, 0, where)
        return bool(locked) or ctypes.get_last_error() != _LOCK_VIOLATION
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        return error.errno not in {errno.EAGAIN, errno.EACCES, errno.EDEADLK}
    return True


def keep(file: Path) -> None:
    """Keeps others from removing a file (`remove_unless_kept`) until this process ends."""
    if sys.platform != "win32":  # there it is enough that the file is open
        with suppress(OSError):  # not every file system has locks
            fcntl.flock(os.open(file, os.O_RDONLY), fcntl.LOCK_SH)


def remove_unless_kept(file: Path) -> None:
    with suppress(PermissionError, BlockingIOError):
        if sys.platform == "win32":
            file.unlink()
            return
        handle = os.open(file, os.O_RDONLY)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            file.unlink()
        finally:
            os.close(handle)


def replace_file(new: Path, file: Path, *, system: str = NAME) -> None:
    """Puts a new file in the place of another, in one step. Windows may need others to close the old one."""
    end = time.monotonic() + (_REPLACING_SECONDS if system == "win32" else 0.0)
    while True:
        try:
            new.replace(file)
            return
        except PermissionError:
            if time.monotonic() >= end:
                raise
            time.sleep(0.1)


@contextmanager
def whole_file(file: Path, *, private: bool = False) -> Generator[Path]:
    """A file beside another one to write into, which takes its place once it is whole, and goes otherwise.

    Of a link, what it leads to is written, and a device is written itself. A ``private`` file can be read by
    nobody else, not even for a moment.
    """
    target = Path(os.path.realpath(file))
    if target.exists() and not target.is_file():
        yield file
        return
    # With the same ending, by which some writers know the format.
    part = target.with_name(f".{target.stem}.part{target.suffix}")
    try:
        part.unlink(missing_ok=True)
        mode = 0o600 if private else 0o666
        os.close(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode))
        if not private and target.exists():
            shutil.copymode(target, part)
        yield part
        replace_file(part, target)
    finally:
        with suppress(OSError):
            part.unlink(missing_ok=True)


def others_may_read(file: Path, *, system: str = NAME) -> bool:
    """Whether the mode of a file lets others read it; Windows has none."""
    return system != "win32" and bool(file.stat().st_mode & 0o077)


def sync_folder(folder: Path) -> None:
    """Makes the names in a folder last. https://man7.org/linux/man-pages/man2/fsync.2.html."""
    if sys.platform != "win32":
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


# --- programs ----------------------------------------------------------------------------------------

_INHERITED: Final = ("HOME", "LOGNAME", "PATH", "SHELL", "TERM", "USER")
_INHERITED_ON_WINDOWS: Final = (
    *("APPDATA", "HOMEDRIVE", "HOMEPATH", "LOCALAPPDATA", "PATH", "PATHEXT", "PROCESSOR_ARCHITECTURE"),
    *("SYSTEMDRIVE", "SYSTEMROOT", "TEMP", "USERNAME", "USERPROFILE"),
)


def needed_variables(*, system: str = NAME) -> tuple[str, ...]:
    """The variables that every program needs, and no key is in: those that the official SDKs pass on."""
    return _INHERITED_ON_WINDOWS if system == "win32" else _INHERITED


def words_of(command: str, *, system: str = NAME) -> list[str]:
    """The words of a command line. Raises `ValueError` if a quotation mark is not closed."""
    lexer = shlex.shlex(command, posix=True, punctuation_chars=False)
    lexer.whitespace_split, lexer.commenters = True, ""
    if system == "win32":
        lexer.escape = ""
    return list(lexer)


def program(name: str, path: str | None) -> str:
    """What to start for the name of a program: Windows itself would not find `npx.cmd`."""
    return (shutil.which(name, path=path) or name) if sys.platform == "win32" else name


class GroupOptions(TypedDict, total=False):
    start_new_session: bool
    creationflags: int


def in_own_group(*, waiting: bool = False, system: str = NAME) -> GroupOptions:
    """Options of `Popen`, so that Ctrl-C in this terminal does not reach the child.

    A `waiting` child does nothing on Windows before a `ProcessGroup` has it: what it had started until then
    would not belong to the group.
    """
    if system == "win32":  # CREATE_NEW_PROCESS_GROUP, and CREATE_SUSPENDED, which `subprocess` does not name
        return {"creationflags": 0x204 if waiting else 0x200}
    return {"start_new_session": True}


# The watchdog sees the end of its input when this process is killed, and then ends the group.
_WATCH: Final = 'read -r _; sleep 2; kill -TERM "-$1" || exit; sleep 2; kill -KILL "-$1"'
# The rights to put a process into a job, and to let it run.
_JOB_LIMITS, _KILL_ON_CLOSE, _MAY_BE_IN_A_JOB = 9, 0x2000, 0x0901


class ProcessGroup:
    """A child that was started waiting `in_own_group`, with all that it starts; they end if we are killed.

    What a child on Linux started in another session is found by `mark`, "NAME=VALUE" of its environment.
    """

    def __init__(self, process: subprocess.Popen[bytes], mark: str) -> None:
        self._process = process
        self._mark = mark.encode()
        self._watchdog: subprocess.Popen[bytes] | None = None
        self._job: int | None = None
        if sys.platform == "win32":
            self._job = _job_with(process.pid)
        else:
            self._watchdog = _watchdog_of(process.pid)

    def ask_to_end(self) -> bool:
        """Lets the processes tidy up and end, where the system can say so; False if none is left."""
        return self._signal(signal.SIGTERM)

    def is_alive(self) -> bool:
        return self._signal(0)

    def kill(self) -> None:
        if sys.platform == "win32":
            if self._job is not None:
                ctypes.windll.kernel32.TerminateJobObject(ctypes.c_void_p(self._job), 1)
            self._process.kill()
        else:
            self._signal(signal.SIGKILL)

    def watch_no_more(self) -> None:
        """To be called once all are gone."""
        if self._watchdog is not None:
            self._watchdog.kill()
            self._watchdog.communicate()
            self._watchdog = None
        if sys.platform == "win32" and self._job is not None:
            ctypes.windll.kernel32.CloseHandle(ctypes.c_void_p(self._job))
            self._job = None

    def _signal(self, number: int) -> bool:
        if sys.platform == "win32":  # it has no signals for others
            return self._process.poll() is None
        try:
            os.killpg(self._process.pid, number)
            found = True
        except (ProcessLookupError, PermissionError):
            # PermissionError: only zombies are left (macOS), or a process has changed its user.
            found = False
        return _signal_marked(self._mark, number) or found


def _job_with(pid: int) -> int | None:
    """The handle of a job with a process in it, which runs from now on; what it starts is in it, too.

    https://learn.microsoft.com/windows/win32/procthread/job-objects
    """
    assert sys.platform == "win32"
    kernel = ctypes.windll.kernel32
    for function in (kernel.CreateJobObjectW, kernel.OpenProcess):
        function.restype = ctypes.c_void_p
    job = kernel.CreateJobObjectW(None, None)
    process = kernel.OpenProcess(_MAY_BE_IN_A_JOB, False, pid)
    limits = struct.pack("<16xI124x", _KILL_ON_CLOSE)  # JOBOBJECT_EXTENDED_LIMIT_INFORMATION with 64 bits
    kernel.SetInformationJobObject(ctypes.c_void_p(job), _JOB_LIMITS, limits, len(limits))
    kernel.AssignProcessToJobObject(ctypes.c_void_p(job), ctypes.c_void_p(process))
    # Popen has closed its handle of the thread, which the documented ResumeThread would need.
    ctypes.windll.ntdll.NtResumeProcess(ctypes.c_void_p(process))
    kernel.CloseHandle(ctypes.c_void_p(process))
    return job


def _watchdog_of(pid: int) -> subprocess.Popen[bytes] | None:
    """The process that ends a group if this process is killed; None without sh."""
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


def _signal_marked(mark: bytes, number: int) -> bool:
    """Signals the processes with the mark in their environment; False if none is found, as off Linux."""
    found = False
    if sys.platform == "linux":
        for folder in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):  # it has ended, or belongs to another user
                process = os.pidfd_open(int(folder.name))  # so that no later process of this number is meant
                try:
                    if mark in (folder / "environ").read_bytes().split(b"\0"):
                        signal.pidfd_send_signal(process, number)
                        found = True
                finally:
                    os.close(process)
    return found


def in_forked_children(renew: Callable[[], None]) -> None:
    """Has a function called in each child that is a copy of this process, without its threads."""
    if sys.platform != "win32":
        os.register_at_fork(after_in_child=renew)


# --- signals -----------------------------------------------------------------------------------------

ENDING: Final = (signal.SIGINT, signal.SIGTERM)


def on_ending(loop: asyncio.AbstractEventLoop, end: Callable[[], object]) -> Callable[[], None]:
    """Calls `end` in the loop when a signal should end the process; returns what takes that back.

    Where signals do not come to the loop (Windows, threads), Ctrl-C is a `KeyboardInterrupt`.
    """
    for number in ENDING:
        with suppress(NotImplementedError, RuntimeError, ValueError):
            loop.add_signal_handler(number, end)

    def take_back() -> None:
        for number in ENDING:
            with suppress(NotImplementedError, RuntimeError, ValueError):
                loop.remove_signal_handler(number)

    return take_back


# --- sockets and pipes -------------------------------------------------------------------------------

#: Whether certificates are checked by the system, and not by OpenSSL with the system's files.
SYSTEM_CHECKS_CERTIFICATES: Final = NAME in {"win32", "darwin"}
_KEEP_ALIVE: Final = ("TCP_KEEPIDLE", "TCP_KEEPALIVE", "TCP_KEEPINTVL")  # names differ between systems
_LONGEST_LINE: Final = 1 << 16
_QUIET: Final = 0.05  # seconds in which nothing more of a paste comes


def is_ready(watched: socket.socket | IO[bytes] | int, seconds: float, *, writing: bool = False) -> bool:
    """Waits until a socket or a pipe can be read, or written; a failed one is ready, too.

    On Windows a pipe always is: reading it waits as long as it takes.
    """
    if sys.platform == "win32":
        if not isinstance(watched, socket.socket):
            return True
        return any(
            select.select([] if writing else [watched], [watched] if writing else [], [watched], seconds)
        )
    # poll, as select cannot watch descriptors beyond 1023.
    poll = select.poll()
    poll.register(watched, select.POLLOUT if writing else select.POLLIN)
    return bool(poll.poll(1000 * seconds))


def typed_line(seconds: float) -> str | None:
    """A line of standard input, such as a terminal's; None if none came for so long, "" at its end.

    On Windows a line that was begun is waited for.
    """
    if sys.platform == "win32" and sys.stdin.isatty():
        if msvcrt.kbhit():
            return sys.stdin.readline()
        time.sleep(seconds)
        return None
    return os.read(0, _LONGEST_LINE).decode(errors="replace") if is_ready(0, seconds) else None


def forget_typed() -> bool:
    """Throws away what was typed at the terminal and not read; returns whether there were whole lines.

    `typed_line` reads the terminal itself, so nothing that is buffered elsewhere comes back. While lines go
    on coming, this goes on, too.
    """
    found = False
    if sys.platform == "win32":
        while msvcrt.kbhit():
            found = msvcrt.getwch() in "\r\n" or found
        return found
    with suppress(termios.error):  # no terminal
        # A long paste comes in parts: the terminal takes the next one when there is room.
        while is_ready(0, _QUIET):
            termios.tcflush(0, termios.TCIFLUSH)
            found = True
        termios.tcflush(0, termios.TCIFLUSH)  # the beginning of a line
    return found


def edit_typed_lines() -> None:
    """Lets `input` know the lines before, and keys to edit them, as a console of Windows does by itself.

    A paste is then one line, where `readline` is GNU's and the terminal marks it: while a line is read, and
    only then, it is told to (https://invisible-island.net/xterm/xterm-paste64.html).
    """
    with suppress(ImportError):
        import_module("readline").parse_and_bind("set enable-bracketed-paste on")


def without_waiting(pipe: int) -> None:
    """Lets reading and writing a descriptor return at once, where `is_ready` can wait for the rest."""
    if sys.platform != "win32":
        os.set_blocking(pipe, False)


def take_port_again(bound_soon: socket.socket) -> None:
    """Lets a socket have the port of a server that has just ended, and on Windows nobody beside it."""
    if sys.platform == "win32":
        bound_soon.setsockopt(socket.SOL_SOCKET, socket.SO_EXCLUSIVEADDRUSE, 1)
    else:
        bound_soon.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)


def keep_connection_alive(sock: socket.socket, seconds: int) -> None:
    """Sends packets while nothing else is sent, as routers drop connections without traffic."""
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option in _KEEP_ALIVE:
        if hasattr(socket, option):
            with suppress(OSError):  # Windows before version 1709 knows the names, and not the options
                sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), seconds)


# --- memory ------------------------------------------------------------------------------------------

_STATM: Final = Path("/proc/self/statm")


def memory_in_use() -> int:
    """Bytes of memory that this process uses; 0 where the system does not say."""
    return _pages(1)


def addresses_left() -> float:
    """Bytes of addresses that this process may still take; without end where nobody has set a limit."""
    if sys.platform == "win32":
        return float("inf")
    most, _ = resource.getrlimit(resource.RLIMIT_AS)
    return float("inf") if most == resource.RLIM_INFINITY else most - _pages(0)


def _pages(column: int) -> int:
    if sys.platform != "linux":
        return 0
    try:
        with _STATM.open("rb") as file:
            return int(file.read().split()[column]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return 0
