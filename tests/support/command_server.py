"""Forks a process for each program that `commands` or a relay asks for; its modules are already imported.

When a program ends, it tells which modules it had to import, and the next one finds them.
"""

import atexit
import codecs
import gc
import importlib
import io
import locale
import os
import pickle
import runpy
import select
import signal
import socket
import sys
import sysconfig
import tempfile
import threading
import time
import types
import warnings
from contextlib import suppress
from pathlib import Path

#: Modules of these folders are kept for the next program: of Python, of its packages, ours.
ROOT = Path(__file__).parents[2]
FOLDERS = (
    *map(sysconfig.get_path, ("stdlib", "purelib", "platlib")),
    *(str(ROOT / folder / "src") for folder in (".", "packages/mcp-graph", "packages/node-knowledge")),
)
# What asks for the environment, or starts a thread, when it is imported: each program imports it itself.
NOT_SHARED = {"typer.rich_utils", "quickjs"}
USUAL_ERRORS = sys.stdin.errors
STRICT, *USUAL = warnings.filters  # this process runs with `-W error`, and what it forks as it is told


class Forks:
    """The programs that run, each with whom to tell of its end, and the file that names its modules.

    All are bare descriptors: a fork closes them, and no object of it may do so again.
    """

    def __init__(self, asked, door):
        self._asked = asked
        self._door = door
        self._running = {}
        self._ended = {}
        self._tried = set()

    def next_one(self):
        """Forks for each request. Returns the request in a fork, None when nobody asks any more."""
        hears, wakes = os.pipe()
        for end in (hears, wakes):
            os.set_blocking(end, False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(wakes)
        while True:
            running = {told: pid for pid, (told, _) in self._running.items()}
            ready = select.select([hears, self._asked, self._door, *running, *self._ended], [], [])[0]
            if hears in ready:
                os.read(hears, 1000)
                self._tell_ends()
            for told in self._ended.keys() & {*ready}:
                os.waitpid(self._ended.pop(told), 0)
                os.close(told)
            for pid in (running[told] for told in running.keys() & {*ready}):
                if pid in self._running:  # who started it is gone
                    _kill(pid)
            received = []
            if self._asked in ready:
                data, received, _, _ = socket.recv_fds(self._asked, 1, 4)
                if not data:
                    break
            elif self._door in ready:
                with self._door.accept()[0] as relay:
                    received = socket.recv_fds(relay, 1, 4)[1]
            if received and (task := self._fork(*received)):
                self._asked.detach()
                self._door.detach()
                return task
        for pid in self._running:
            _kill(pid)
        return None

    def _fork(self, told, *streams):
        with open(told, "rb", closefd=False) as file:
            task = pickle.load(file)
        modules, name = tempfile.mkstemp()
        Path(name).unlink()
        assert threading.active_count() == 1
        with warnings.catch_warnings():
            # From 3.12 on Python warns of threads that it does not know, such as pyarrow's, which sleep.
            warnings.simplefilter("ignore", DeprecationWarning)
            pid = os.fork()
        if pid == 0:
            return {**task, "streams": streams, "modules": modules}
        for stream in streams:
            os.close(stream)
        self._running[pid] = (told, modules)
        _tell(told, pid)
        return None

    def _tell_ends(self):
        """Tells of the programs that have ended. A pid stays theirs until whoever started them has heard."""
        for pid, (told, modules) in [*self._running.items()]:
            end = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            if end:
                del self._running[pid]
                self._ended[told] = pid
                _tell(told, end.si_status if end.si_code == os.CLD_EXITED else -end.si_status)
                os.lseek(modules, 0, os.SEEK_SET)
                with open(modules, encoding="utf-8") as file:  # noqa: PTH123 - a descriptor
                    self._import(file.read().split())

    def _import(self, names):
        """Imports what a program did, in its order."""
        new = [name for name in names if name not in self._tried | NOT_SHARED]
        for name in new:
            with suppress(Exception):  # whoever needs it imports it, and shows what is wrong
                importlib.import_module(name)
        self._tried.update(new)
        if new:
            gc.collect()
            gc.freeze()


def _kill(pid):
    with suppress(ProcessLookupError):  # it has no session yet
        os.killpg(pid, signal.SIGKILL)


def _tell(whom, number):
    with suppress(BrokenPipeError):  # nobody waits for it
        os.write(whom, b"%d\n" % number)


def become(words, env, folder, prepare, streams, modules):
    """Makes this fork what a new interpreter would be, and runs the program; it ends as Python ends."""
    os.setsid()
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for own, stream in enumerate(streams):
        os.dup2(stream, own)
    os.closerange(3, modules)
    os.closerange(modules + 1, os.sysconf("SC_OPEN_MAX"))
    os.chdir(folder)
    if prepare is not None:
        prepare()
    os.environ.clear()
    os.environ.update(env)
    time.tzset()
    with suppress(locale.Error):
        locale.setlocale(locale.LC_CTYPE, "")
    warned = [text for text in env.get("PYTHONWARNINGS", "").split(",") if text]
    unbuffered = bool(env.get("PYTHONUNBUFFERED"))
    while words[0] in ("-u", "-W"):
        if words.pop(0) == "-u":
            unbuffered = True
        else:
            warned.append(words.pop(0))
    _set_filters(warned)
    _open_streams(unbuffered, env.get("PYTHONIOENCODING", ""))
    sys.path[0:1] = ["", *filter(None, env.get("PYTHONPATH", "").split(os.pathsep))]
    atexit.register(_leave)
    atexit.register(_note_modules, modules, {*sys.modules})
    sys.excepthook = _show
    global _exit_code
    try:
        _run(words)
        _exit_code = 0
    except SystemExit as end:
        if isinstance(end.code, int | None):
            _exit_code = end.code or 0
        raise


_exit_code = None


def _leave():
    """Ends after all else that runs at exit; taking apart what all forks share would copy it first."""
    if _exit_code is not None:
        with suppress(Exception):  # a stream that takes no more is Python's to tell
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(_exit_code & 0xFF)


def _show(kind, error, trace):
    """Shows an error as Python does, without the frames of this file."""
    while trace and trace.tb_frame.f_code.co_filename == __file__:
        trace = trace.tb_next
    sys.__excepthook__(kind, error.with_traceback(trace), trace)


def _set_filters(options):
    added = warnings.filters[: warnings.filters.index(STRICT)]
    warnings.filters[:] = USUAL
    sys.warnoptions[:] = options
    warnings._processoptions(options)
    warnings.filters[:0] = added


def _open_streams(unbuffered, chosen):
    """As Python does: https://docs.python.org/3/library/sys.html#sys.stdin."""
    encoding, _, errors = chosen.partition(":")
    encoding = codecs.lookup(encoding or "utf-8").name
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        raw = io.FileIO(number, "w" if number else "r", closefd=False)
        raw.name = f"<{name}>"
        buffered = (
            raw if unbuffered and number else io.BufferedWriter(raw) if number else io.BufferedReader(raw)
        )
        stream = io.TextIOWrapper(
            buffered,
            encoding=encoding,
            errors="backslashreplace" if number == 2 else errors or ("strict" if chosen else USUAL_ERRORS),
            newline="\n" if number else None,
            line_buffering=not unbuffered and (number == 2 or raw.isatty()),
            write_through=unbuffered,
        )
        stream.mode = raw.mode[0]
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)


def _note_modules(file, before):
    """Their names, for the next program."""
    names = [
        name
        for name, module in [*sys.modules.items()]
        if name not in before and str(getattr(module, "__file__", None)).startswith(FOLDERS)
    ]
    with suppress(OSError):  # a program whose files must stay small
        os.write(file, "\n".join(names).encode())


def _run(words):
    """The program, as https://docs.python.org/3/using/cmdline.html#interface-options says."""
    main = sys.modules["__main__"] = types.ModuleType("__main__")
    main.__builtins__ = __builtins__
    match words:
        case ["-m", name, *arguments]:
            sys.path[0] = str(Path.cwd())
            sys.argv[:] = ["-m", *arguments]
            sys.modules.pop(name, None)  # it is imported for what others need of it, and runs by another name
            runpy._run_module_as_main(name)
        case ["-c", program, *arguments]:
            sys.argv[:] = ["-c", *arguments]
            exec(compile(program, "<string>", "exec"), main.__dict__)
        case [script, *arguments]:
            sys.path[0] = str(Path(script).absolute().parent)
            sys.argv[:] = [script, *arguments]
            main.__file__ = script
            exec(compile(Path(script).read_bytes(), script, "exec"), main.__dict__)


if __name__ == "__main__":
    sys.modules["httpx._main"] = None  # as our command line has it
    with socket.socket(fileno=int(sys.argv[1])) as _asked, socket.socket(fileno=int(sys.argv[2])) as _door:
        _task = Forks(_asked, _door).next_one()
    if _task:
        become(**_task)
