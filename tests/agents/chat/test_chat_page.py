"""The files of the chat's page, as far as they can be checked without a browser; see `try_in_browser`."""

import re
from pathlib import Path

import pytest

pytestmark = pytest.mark.quick


ROOT = Path(__file__).parents[3]
FOLDER = ROOT / "views" / "agent_chat"
CHAT = {file.stem: file.read_text("utf-8") for file in (ROOT / "src" / "agents" / "chat").glob("*.py")}
PAGE = (FOLDER / "index.html").read_text("utf-8")
SCRIPTS = {file.name: file.read_text("utf-8") for file in FOLDER.glob("*.js")}


def test_the_node_names_the_page(host):
    from knime_mcp.agents import agent_chat

    assert ROOT / agent_chat.PAGE == FOLDER


def test_the_page_loads_its_own_files_only():
    named = re.findall(r'(?:src|href)="([^"]*)"', PAGE)
    assert {Path(name).name for name in named} == {file.name for file in FOLDER.iterdir()} - {"index.html"}
    assert all(name.startswith("./") for name in named)
    assert "default-src 'none'" in PAGE


@pytest.mark.parametrize("name", sorted(SCRIPTS))
def test_no_text_becomes_markup(name):
    makes_markup = (
        r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|DOMParser|eval\(|new Function|srcdoc"
    )
    assert not re.search(makes_markup, SCRIPTS[name])


def test_the_page_shows_every_kind_of_event():
    told = set(re.findall(r'"kind": "(\w+)"', "".join(CHAT.values())))
    shown = SCRIPTS["chat.js"].partition("const SHOW = {")[2].partition("\n  };")[0]
    assert told == set(re.findall(r"^    (\w+):", shown, re.MULTILINE))


def test_the_page_calls_what_the_service_has():
    called = set(re.findall(r'knime\.call\("(\w+)"', SCRIPTS["chat.js"]))
    assert called == {"start", "poll", "ask", "stop", "undo", "start_over", "decide", "prompts", "ask_prompt"}
    assert all(f"    def {name}(self" in CHAT["chat_service"] for name in called)


def test_parts_of_the_page_that_its_script_needs_are_there():
    wanted = set(re.findall(r'byId\("([\w-]+)"\)', SCRIPTS["chat.js"]))
    assert wanted <= set(re.findall(r'id="([\w-]+)"', PAGE))
