"""Why a server's process ended, in the words of what it was written with."""

import pytest

from knime_mcp.client.transports.stdio_process import last_words

pytestmark = pytest.mark.quick


NODE = """\
node:internal/modules/cjs/loader:1210
  throw err;
  ^

Error: Cannot find module '/srv/server.js'
    at Module._resolveFilename (node:internal/modules/cjs/loader:1207:15)
    at node:internal/main/run_main_module:28:49 {
  code: 'MODULE_NOT_FOUND',
  requireStack: []
}

Node.js v20.20.2
"""
NODE_LIST = "Error: Could not locate the bindings file. Tried:\n" + "\n".join(
    f" → /srv/node_modules/sqlite3/build/{number}/node_sqlite3.node" for number in range(20)
)
PYTHON = """\
Traceback (most recent call last):
  File "/srv/server.py", line 1, in <module>
    import missing
ModuleNotFoundError: No module named 'missing'
"""
GO = "panic: runtime error: index out of range [5]\n\ngoroutine 1 [running]:\n" + "main.main()\n" * 9


def _said(text: str) -> str:
    return last_words(text.encode(), lambda said: said)


@pytest.mark.parametrize(
    ("written", "why"),
    [
        (NODE, "Error: Cannot find module '/srv/server.js' / code: 'MODULE_NOT_FOUND'"),
        (NODE_LIST, "Error: Could not locate the bindings file. Tried: / → /srv"),
        (PYTHON, "ModuleNotFoundError: No module named 'missing'"),
        (GO, "panic: runtime error: index out of range [5] / goroutine 1"),
        (
            "Unhandled exception. System.Exception: no key\n" + "   at Main()\n" * 9,
            "System.Exception: no key",
        ),
        ("Usage: server --port\n" * 9, "Usage: server --port"),
    ],
)
def test_the_error_is_shown_wherever_it_stands(written, why):
    assert why in _said(written)


def test_lines_after_the_last_error_are_the_last_words():
    lines = [f"Error: attempt {number}" for number in range(9)] + ["giving up"]
    assert _said("\n".join(lines)).endswith("attempt 8 / giving up")


def test_a_long_text_keeps_both_ends():
    said = _said(f"Error: begin {'x' * 5000}\nend")
    assert said.startswith("Error: begin")
    assert said.endswith("x / end")
    assert len(said) < 700


def test_secrets_are_taken_out_before_lines_are():
    said = last_words(b"Error: tok\x1b[0men-12345 is wrong\n", lambda text: text.replace("token-12345", "*"))
    assert said == "Error: * is wrong"
