"""The Python that the README shows runs as it stands, but for the address of the server."""

import re
from pathlib import Path

import pytest

from tests.support.scripted_server import ScriptedServer, modern, rpc, text, tool

README = Path(__file__).parents[2] / "README.md"
BLOCKS = re.findall(r"^```python\n(.*?)^```", README.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)


def test_there_is_python_in_the_readme():
    assert BLOCKS


@pytest.mark.parametrize("block", BLOCKS)
def test_the_readmes_python_runs(block, capsys):
    script = modern(tools__list=rpc({"tools": [tool("search")]}), tools__call=rpc(text("an answer")))
    with ScriptedServer(script) as server:
        program, found = re.subn(r'"https?://[^"]+"', repr(server.url), block)
        assert found == 1
        exec(compile(program, str(README), "exec"), {"token": "secret"})  # what people copy and run
        assert server.named("tools/list")
    shown = capsys.readouterr().out
    assert "an answer" in shown or "'Tool name': 'search'" in shown
