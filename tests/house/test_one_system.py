"""Only `src/system.py` knows on which operating system it runs."""

import ast
import re
from collections.abc import Iterable

import pytest

from tests.house.sources import FILES, SRC, nodes, place

#: What only some systems have, or what asks for the system.
ASKS = re.compile(
    r"sys\.platform|os\.name|platform\.system|sys\.getwindowsversion"
    r"|os\.(killpg|setsid|pidfd_open|register_at_fork|set_blocking|sysconf|O_DIRECTORY)"
    r"|signal\.(SIGKILL|SIGHUP|SIGQUIT|CTRL_\w+|pidfd_send_signal)"
    r"|select\.(select|poll|epoll|kqueue)|socket\.(SO_\w*ADDR\w*|TCP_(?!NODELAY)\w+)"
    r"|subprocess\.(CREATE_\w+|STARTUPINFO)"
)
ASKING_MODULES = {"fcntl", "grp", "msvcrt", "pwd", "resource", "termios", "tty", "winreg", "_winapi"}
#: What may only be done with what `system.py` returns: options of `Popen`, and features of modules.
OPTIONS = {"start_new_session", "creationflags", "process_group", "preexec_fn"}
ALLOWED = {("audit/journal.py", "platform.system")}


def asked(code: Iterable[ast.AST]) -> set[str]:
    """The expressions of a module that depend on the system."""
    found = set()
    for node in code:
        match node:
            case ast.Attribute() if ASKS.fullmatch(name := ast.unparse(node)):
                found.add(name)
            case ast.Import(names=names):
                found |= {alias.name for alias in names} & ASKING_MODULES
            case ast.ImportFrom(module=str(module)) if module in ASKING_MODULES:
                found.add(module)
            case ast.keyword(arg=str(option)) if option in OPTIONS:
                found.add(option)
            case ast.Call(func=ast.Name(id="hasattr" | "getattr"), args=[ast.Name(id=module), *_]) if (
                module in {"os", "signal", "socket", "select", "subprocess"}
            ):
                found.add(f"features of {module}")
            case _:
                pass
    return found


def test_no_other_module_asks_for_the_system():
    places = {
        (place(file), what) for file in FILES if file != SRC / "system.py" for what in asked(nodes(file))
    }
    assert places == ALLOWED


@pytest.mark.parametrize(
    "text",
    [
        "import sys\nif sys.platform == 'win32': pass",
        "import os\nx = os.name",
        "def f():\n    import fcntl",
        "from msvcrt import locking",
        "subprocess.run([], creationflags=8)",
        "hasattr(os, 'fork')",
        "sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)",
    ],
)
def test_what_counts_as_asking(text):
    assert len(asked(ast.walk(ast.parse(text)))) == 1
