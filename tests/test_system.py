"""What differs between systems: the branch of each where names decide, the running system's where it acts."""

import asyncio
import os
import signal
import socket
import subprocess
import sys
import threading
from contextlib import closing
from pathlib import Path, PurePosixPath

import pytest

from knime_mcp import system

HOME = Path("/home/ada").absolute()
ELSEWHERE = Path("/elsewhere").absolute()
SYSTEMS = ["linux", "darwin", "win32"]


@pytest.mark.parametrize(
    ("name", "settings", "data", "cache"),
    [
        ("linux", ".config", ".local/share", ".cache"),
        ("darwin", "Library/Application Support", "Library/Application Support", "Library/Caches"),
        ("win32", "AppData/Roaming", "AppData/Local", "AppData/Local"),
    ],
)
def test_folders_of_a_user(name, settings, data, cache):
    kinds = {"settings": settings, "data": data, "cache": cache}
    for kind, folder in kinds.items():
        assert system.user_folder(kind, system=name, environment={}, home=HOME) == HOME / folder


@pytest.mark.parametrize(("name", "variable"), [("linux", "XDG_CONFIG_HOME"), ("win32", "APPDATA")])
def test_a_variable_names_a_folder(name, variable):
    def folder(text):
        return system.user_folder("settings", system=name, environment={variable: text}, home=HOME)

    assert folder(str(ELSEWHERE)) == ELSEWHERE
    assert folder("relative").is_relative_to(HOME)
    assert folder("").is_relative_to(HOME)


def test_macos_has_one_place_whatever_is_set():
    variables = {"XDG_CACHE_HOME": str(ELSEWHERE), "APPDATA": str(ELSEWHERE)}
    found = system.user_folder("cache", system="darwin", environment=variables, home=HOME)
    assert found == HOME / "Library" / "Caches"


@pytest.mark.parametrize("name", SYSTEMS)
def test_the_python_of_an_environment(name):
    first, second = (path.relative_to(HOME).as_posix() for path in system.pythons_in(HOME, system=name))
    expected = ["bin/python", "python.exe"]
    assert [first, second] == (expected[::-1] if name == "win32" else expected)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("linux", ["C:Toolsserver.exe", "a file", "b c"]),
        ("darwin", ["C:Toolsserver.exe", "a file", "b c"]),
        ("win32", [r"C:\Tools\server.exe", "a file", "b\\", "c"]),
    ],
)
def test_words_of_a_command(name, words):
    assert system.words_of(r'C:\Tools\server.exe "a file" b\ c', system=name) == words


@pytest.mark.parametrize("name", SYSTEMS)
def test_needed_variables_are_no_keys(name):
    variables = system.needed_variables(system=name)
    assert "PATH" in variables
    assert {"APPDATA", "HOME"} & set(variables) == ({"APPDATA"} if name == "win32" else {"HOME"})
    assert not [word for word in variables if "KEY" in word or "TOKEN" in word or word == "PYTHONPATH"]


def test_a_group_of_its_own():
    assert system.in_own_group(system="win32") == {"creationflags": 0x200}
    assert system.in_own_group(waiting=True, system="win32") == {"creationflags": 0x204}
    assert system.in_own_group(waiting=True, system="darwin") == {"start_new_session": True}


# --- what acts on the running system ---


def test_only_one_locks_a_file(tmp_path):
    file = tmp_path / "journal"
    file.write_bytes(b"line\n")
    with file.open("ab") as first, file.open("ab") as second:
        assert system.try_to_lock(first)
        assert not system.try_to_lock(second)
        assert file.read_bytes() == b"line\n"
    with file.open("ab") as third:
        assert system.try_to_lock(third)


def test_a_kept_file_is_not_removed(tmp_path):
    kept, free = tmp_path / "kept", tmp_path / "free"
    for file in (kept, free):
        file.write_bytes(b"x")
    program = "import sys; from pathlib import Path; from knime_mcp.system import keep\n"
    program += "file = Path(sys.argv[1]); opened = file.open('rb'); keep(file); print(1, flush=True); input()"
    with subprocess.Popen(
        [sys.executable, "-c", program, str(kept)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as holder:
        holder.stdout.readline()
        for file in (kept, free):
            system.remove_unless_kept(file)
        assert kept.exists()
        assert not free.exists()
        holder.stdin.close()
        holder.wait(60)
    system.remove_unless_kept(kept)
    assert not kept.exists()


def test_a_file_is_replaced(tmp_path):
    new, old = tmp_path / "new", tmp_path / "old"
    new.write_text("new")
    old.write_text("old")
    system.replace_file(new, old)
    assert old.read_text() == "new"
    with pytest.raises(FileNotFoundError):
        system.replace_file(new, old, system="win32")
    system.sync_folder(tmp_path)


class _Open:
    """A file that others have open for the first few attempts, as on Windows."""

    def __init__(self, attempts: int) -> None:
        self.left = attempts

    def replace(self, file: PurePosixPath) -> None:
        self.left -= 1
        if self.left >= 0:
            raise PermissionError(13, "in use")


def test_a_file_that_is_open_is_replaced_once_it_is_closed():
    busy = _Open(attempts=2)
    system.replace_file(busy, Path("x"), system="win32")
    assert busy.left == -1
    with pytest.raises(PermissionError):
        system.replace_file(_Open(attempts=1), Path("x"), system="linux")


def _child(program: str, *, mark: str) -> tuple[subprocess.Popen, system.ProcessGroup]:
    name, _, value = mark.partition("=")
    process = subprocess.Popen(
        [sys.executable, "-c", program],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        env={**os.environ, name: value}, **system.in_own_group(waiting=True),
    )  # fmt: skip
    return process, system.ProcessGroup(process, mark)


#: Starts at once another process with its output.
PARENT = """
import subprocess, sys
subprocess.Popen([sys.executable, "-c", "import time; print(1, flush=True); time.sleep(600)"])
input()
"""


def test_a_child_ends_with_what_it_started():
    process, group = _child(PARENT, mark="SYSTEM_TEST=1")
    with process:
        assert process.stdout.readline().strip() == b"1"  # the grandchild runs
        assert group.is_alive()
        group.kill()
        assert process.stdout.read() == b""  # ends with the last process that could write
        process.wait(60)
        group.watch_no_more()


#: Starts another process and ends with it still running: by itself, as if it was killed.
KILLED = """
import os, subprocess, sys
from knime_mcp import system
child = subprocess.Popen([sys.executable, "-c", "import time; print(1, flush=True); time.sleep(600)"],
    stdin=subprocess.PIPE, **system.in_own_group(waiting=True))
group = system.ProcessGroup(child, "SYSTEM_TEST=2")
input()
os._exit(9)
"""


def test_a_child_ends_with_a_process_that_is_killed():
    with subprocess.Popen(
        [sys.executable, "-c", KILLED], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout.readline().strip() == b"1"
        process.stdin.write(b"\n")
        process.stdin.flush()
        assert process.wait(60) == 9
        assert process.stdout.read() == b""


def test_a_socket_that_can_be_read_or_written():
    with closing(socket.socket()) as server:
        system.take_port_again(server)
        server.bind(("127.0.0.1", 0))
        server.listen()
        assert not system.is_ready(server, 0)
        with socket.create_connection(server.getsockname()) as ours:
            system.keep_connection_alive(ours, 60)
            assert ours.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
            assert system.is_ready(server, 30)
            assert system.is_ready(ours, 30, writing=True)
            accepted, _ = server.accept()
            with accepted:
                assert not system.is_ready(ours, 0)
                accepted.sendall(b"x")
                assert system.is_ready(ours, 30)


def test_a_port_is_not_shared():
    with closing(socket.socket()) as first, closing(socket.socket()) as second:
        for bound in (first, second):
            system.take_port_again(bound)
        first.bind(("127.0.0.1", 0))
        first.listen()
        with pytest.raises(OSError, match=r"in use|forbidden|Only one|Windows Error"):
            second.bind(first.getsockname())


def test_ctrl_c_comes_to_the_loop_or_is_an_exception():
    async def serve() -> bool:
        stop = asyncio.Event()
        take_back = system.on_ending(asyncio.get_running_loop(), stop.set)
        signal.raise_signal(signal.SIGINT)
        try:
            return await asyncio.wait_for(stop.wait(), 60)
        finally:
            take_back()

    if system.NAME == "win32":
        with pytest.raises(KeyboardInterrupt):
            asyncio.run(serve())
    else:
        assert asyncio.run(serve())


def test_no_signal_comes_to_a_thread():
    async def serve() -> None:
        system.on_ending(asyncio.get_running_loop(), lambda: None)()

    thread = threading.Thread(target=lambda: asyncio.run(serve()))
    thread.start()
    thread.join(60)
    assert not thread.is_alive()


def test_memory_is_told():
    assert (system.memory_in_use() > 1 << 20) == (system.NAME == "linux")
    assert system.addresses_left() > 1 << 20


def test_nothing_was_typed_where_nobody_types():
    reading, writing = os.pipe()
    before = os.dup(0)
    os.dup2(reading, 0)
    try:
        os.write(writing, b"y\n")
        assert not system.forget_typed()
        assert os.read(0, 9) == b"y\n", "no terminal: it is somebody's input"
    finally:
        os.dup2(before, 0)
        for number in (before, reading, writing):
            os.close(number)
