import pytest

from knime_mcp.tools.node_settings.connection import client_for
from knime_mcp.tools.provider import provision_report as view
from knime_mcp.tools.provider.provide import ServerRequest, provide
from knime_mcp.tools.provider.provision_report import catalogue
from knime_mcp.types.routing import ServerRoute
from tests.tools.provider.running import tool
from tests.tools.views.test_html import HOSTILE, parsed

pytestmark = pytest.mark.quick


def provision(*servers):
    requests = [
        ServerRequest(row=f"Row{i}", route=ServerRoute.parse(server.url)) for i, server in enumerate(servers)
    ]
    return provide(requests, lambda asked, trace: client_for(asked.route, None, trace=trace))


def text_of(page):
    return " ".join("".join(parsed(page).text).split())


def test_a_tool_is_shown_with_all_that_is_known_of_it(serve):
    schema = {
        "type": "object",
        "properties": {
            "query": {"type": "string", "description": "What to look for."},
            "limit": {"$ref": "#/$defs/limit"},
        },
        "required": ["query"],
        "$defs": {"limit": {"type": "integer", "description": "How many.", "default": 10}},
    }
    search = tool(
        "search",
        "Finds things.\nSecond line.",
        schema,
        title="Search the shop",
        annotations={"readOnlyHint": True, "destructiveHint": True},
    )
    page = catalogue(provision(serve([search], instructions="Be kind.")))
    shown = text_of(page)
    for words in (
        "1 tool from 1 server",
        "shop 1.5",
        "2026-07-28 over http",
        "Search the shop",
        "Finds things. Second line.",
        "search(query: string, limit?: integer = 10)",
        "What to look for.",
        "How many.",
        "required",
        "read only",
        "destructive",
        "contradiction",
        "Be kind.",
        "sha256:",
    ):
        assert words.lower() in shown.lower(), words


def test_a_failed_server_is_shown_with_every_step(serve):
    page = catalogue(provision(serve([], status=404), serve([tool("a")])))
    shown = text_of(page)
    assert "1 server failed" in shown
    assert "failed: http" in shown
    assert "Next step:" in shown
    for step in ("server/discover", "initialize", "GET as event stream"):
        assert step in shown
    assert "<b>a</b>" in page


def test_hostile_definitions_stay_text(serve):
    bad = tool(
        HOSTILE,
        HOSTILE,
        {
            "type": "object",
            "properties": {HOSTILE: {"type": HOSTILE, "description": HOSTILE, "default": HOSTILE}},
        },
        title=HOSTILE,
        outputSchema={HOSTILE: HOSTILE},
    )
    page = catalogue(provision(serve([bad], instructions=HOSTILE, name=HOSTILE)))
    tags = parsed(page)
    assert not {"script", "img", "iframe"} & {name for name, _ in tags.seen}
    assert not any(key.startswith("on") for _, attributes in tags.seen for key in attributes)
    assert "".join(tags.text).count(HOSTILE) > 5


def test_a_great_many_tools_are_shown_in_short(serve, monkeypatch):
    monkeypatch.setattr(view, "_MAX_DETAILED", 20_000)
    page = catalogue(provision(serve([tool(f"tool_{i}", f"Does {i}.") for i in range(300)])))
    assert len(page) < 80_000
    shown = text_of(page)
    assert "tools in short" in shown
    assert all(f"tool_{i}" in shown for i in range(300))


def test_name_and_description_stand_apart_whatever_their_direction(serve):
    page = catalogue(provision(serve([tool("\u05d7\u05d9", "\u05de\u05d7 (2).")])))
    assert '<summary><b>\u05d7\u05d9</b> <span class="soft">\u05de\u05d7 (2).</span></summary>' in page


def test_no_tools_and_no_servers_are_said_in_words(serve):
    assert "No tools to show." in text_of(catalogue(provision(serve([]))))
    assert "0 tools from 0 servers" in text_of(catalogue(provision()))


def test_tools_with_malformed_schemas_are_shown(serve):
    schemas = [
        {},
        {"properties": []},
        {"properties": {"a": True, "b": 3, "c": None}, "required": "a"},
        {"type": 5},
    ]
    page = catalogue(provision(serve([tool(f"t{i}", "", schema) for i, schema in enumerate(schemas)])))
    assert text_of(page).count("Takes no arguments.") == 3


def test_parameters_that_stand_behind_references_and_in_alternatives(serve):
    schema = {
        "type": "object",
        "allOf": [{"$ref": "#/$defs/Paging"}],
        "oneOf": [{"properties": {"query": {"type": "string"}}}, {"properties": {"id": {"type": "integer"}}}],
        "$defs": {"Paging": {"properties": {"page": {"type": "integer"}}, "required": ["page"]}},
    }
    shown = text_of(catalogue(provision(serve([tool("search", "", schema)]))))
    assert "search(page: integer, query?: string, id?: integer)" in shown
    assert "Takes no arguments." not in shown


def test_a_list_of_required_names_that_holds_something_else_is_shown(serve):
    schema = {"type": "object", "properties": {"a": {"type": "string"}}, "required": [["a"], {}, "a"]}
    shown = text_of(catalogue(provision(serve([tool("odd", "", schema)]))))
    assert "odd(a: string)" in shown
