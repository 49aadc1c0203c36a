"""The studio over HTTP: who may ask, changes of the document, and runs with steps, pins and values."""

import json

import pytest
from starlette.testclient import TestClient

from knime_mcp_graph.studio.app import PAGE, Studio
from knime_mcp_graph.studio.desk import Desk
from tests.support.waiting import until

from .. import graphs
from ..test_document_edits import ALL_KINDS

HOST = "http://127.0.0.1:8000"
CALLS = graphs.yaml(
    graphs.tool(
        "{id: entry, type: entry, next: first}",
        "{id: first, type: mcp, server: fx, tool: count, args: {}, next: second}",
        "{id: second, type: mcp, server: fx, tool: count, args: {}, next: sum}",
        graphs.transform("{'calls': [first.calls, second.calls], 'n': entry.n}", node="sum"),
        graphs.EXIT,
    )
)


class Page:
    """What the page does: it asks as JSON, with the token in the address."""

    def __init__(self, studio):
        self.studio = studio
        self.client = TestClient(studio.app(), base_url=HOST)

    def ask(self, name, status=200, headers=(), **asked):
        answer = self.client.post(f"/{self.studio.token}/api/{name}", json=asked, headers=dict(headers))
        assert answer.status_code == status, answer.text
        return answer.json()

    def edit(self, status=200, **edit):
        version = self.ask("state")["version"]
        return self.ask("apply", status, version=version, change={"nodes": ["tools", 0, "nodes"], **edit})

    def ran(self, status=None):
        """The run once it is over, or in a state."""

        def is_there():
            run = self.ask("history", since=0)
            return run["status"] == status or "result" in run or "error" in run

        until(is_there)
        return self.ask("history", since=0)


@pytest.fixture
def page(tmp_path, request):
    file = tmp_path / "g.yaml"
    file.write_text(getattr(request, "param", ALL_KINDS))
    page = Page(Studio(Desk(file, environ={})))
    yield page
    page.studio.debugger.close()


def test_only_its_own_page_gets_answers(page):
    state = f"/{page.studio.token}/api/state"
    json_type = {"content-type": "application/json"}
    assert page.client.post("/other-token/api/state", json={}).status_code == 404
    assert page.client.get("/").status_code == 404
    for headers, status in (
        ({"host": "evil.example"}, 403),
        ({"host": "127.0.0.1.evil.example:8000"}, 403),
        ({"origin": "http://evil.example"}, 403),
        ({"origin": "null"}, 403),
        ({"origin": HOST}, 200),
        ({"content-type": "text/plain"}, 415),
        ({"content-length": str(1 << 30)}, 413),
    ):
        answer = page.client.post(state, content="{}", headers={**json_type, **headers})
        assert answer.status_code == status, headers
    whole = page.client.get(f"/{page.studio.token}/")
    assert "script-src 'self'" in whole.headers["content-security-policy"]
    assert page.client.get(f"/{page.studio.token}/..%2fapp.py").status_code == 404
    for file in PAGE.iterdir():
        assert page.client.get(f"/{page.studio.token}/{file.name}").content == file.read_bytes()


def test_changes_come_back_as_text_and_graph(page):
    page.edit(kind="add", node={"id": "new", "type": "transform", "transform": {"expr": "1"}}, after="other")
    page.edit(kind="connect", source="start", way=["next"], target="new")
    page.edit(kind="rename", id="list", to="all")
    page.edit(kind="set", path=["tools", 0, "description"], value="does: it")
    state = page.edit(kind="remove", id="left")
    assert 'description: "does: it"   # what it does' in state["text"]
    assert "items: all.result" in state["text"]
    assert "left" not in [node["id"] for node in state["tools"][0]["nodes"]]
    for _ in range(5):
        state = page.edit(kind="undo")
    assert state["text"] == ALL_KINDS
    assert state["canRedo"]
    assert not state["canUndo"]
    assert "id: new" in page.edit(kind="redo")["text"]
    page.ask("save")
    assert page.studio.desk.file.read_text() == page.ask("state")["text"]


def test_what_does_not_fit_is_told(page):
    assert "already" in page.edit(422, kind="rename", id="list", to="each")["error"]
    assert "kind" in page.edit(422, kind="paint")["error"]
    assert "form" in page.ask("apply", 400, version="x")["error"]
    assert (
        "changed meanwhile"
        in page.ask("apply", 409, version=77, change={"kind": "text", "text": ""})["error"]
    )
    assert "no run" in page.ask("control", 422, action="step")["error"]
    assert "no values yet" in page.ask("evaluate", expression="1")["error"]
    page.edit(kind="text", text="tools: []\n")
    assert "errors" in page.ask("run", 422, tool="t")["error"]


def test_a_run_with_values_at_each_step(page):
    page.ask("run", tool="t", arguments={"n": 7})
    run = page.ran()
    assert run["status"] == "finished"
    names = [record["nodeId"] for record in run["records"]]
    assert names[:3] == ["start", "list", "each"]
    assert page.ask("history", since=run["count"] - 1)["records"] == run["records"][-1:]
    way = str(names.index("way"))
    assert page.ask("evaluate", expression="$sum(each)", at=way) == {
        "value": run["records"][-1]["output"]["sum"]
    }
    assert page.ask("evaluate", expression="nothing", at=way) == {}
    assert page.ask("evaluate", rule={">": [{"var": "start.n"}, 3]}, at=way) == {"value": True}
    assert page.ask("evaluate", rule={"<": [{"var": "start.n"}, 3]}, at=way, standard=True) == {
        "value": False
    }
    assert "expected" in page.ask("evaluate", expression="1 +", at=way)["error"].lower()
    assert page.ask("context", at="2") == {"start": {"n": 7}, "list": run["records"][1]["output"]}


def test_breakpoints_and_steps(page):
    page.ask("breakpoints", nodes=["fan"])
    page.ask("run", tool="t", arguments={"n": 1})
    assert page.ran("paused")["waiting"]["node"] == "fan"
    assert "going on" in page.ask("run", 422, tool="t")["error"]
    page.ask("control", action="step")
    until(lambda: (page.ask("history", since=0)["waiting"] or {}).get("node") in ("left", "right"))
    page.ask("control", action="stop")
    assert page.ran()["status"] == "stopped"
    page.ask("breakpoints", nodes=[])
    page.ask("run", tool="t", arguments={"n": 1}, paused=True)
    assert page.ran("paused")["waiting"] == {"index": 0, "node": "start"}
    page.ask("control", action="resume")
    assert page.ran()["status"] == "finished"
    assert "cannot" in page.ask("control", 422, action="dance")["error"]


INFINITE = graphs.one_tool(graphs.ENTRY, graphs.transform("{'t': '😀'}"), graphs.EXIT, more="x-a: .inf\n")


@pytest.mark.parametrize("page", [INFINITE + 'x-b: "\\ud83d"\n'], indirect=True)
def test_values_that_json_does_not_have(page):
    assert page.ask("state")["canRun"] in (True, False)
    page.edit(kind="text", text=INFINITE)
    page.ask("run", tool="t")
    assert page.ran()["result"] == {"t": "😀"}


@pytest.mark.parametrize("page", [CALLS], indirect=True)
def test_a_run_begins_in_the_middle_with_what_was_there(page):
    page.ask("run", tool="t", arguments={"n": 1})
    first = page.ran()
    assert first["result"] == {"calls": [1, 2], "n": 1}
    page.ask("run", tool="t", arguments={"n": 1}, begin=2)
    again = page.ran()
    assert again["result"] == {"calls": [1, 3], "n": 1}
    assert [record["isPinned"] for record in again["records"]] == [True, True, False, False, False]
    page.ask("run", tool="t", arguments={"n": 1}, pins={"second": {"calls": "mine"}})
    assert page.ran()["result"] == {"calls": [4, "mine"], "n": 1}


def test_pins_and_earlier_results_inside_branches(page):
    page.ask("run", tool="t", arguments={"n": 7})
    first = page.ran()
    names = [record["nodeId"] for record in first["records"]]
    page.ask("run", tool="t", arguments={"n": 7}, begin=names.index("way"))
    again = page.ran()
    assert again["result"] == first["result"]
    pinned = [record["nodeId"] for record in again["records"] if record["isPinned"]]
    assert sorted(set(pinned)) == ["left", "list", "right", "start", "twice"]
    page.ask("run", tool="t", arguments={"n": 7}, pins={"left": 100})
    assert page.ran()["result"]["sum"] == 100


@pytest.mark.parametrize("page", [CALLS], indirect=True)
def test_tools_of_a_server_also_while_the_document_has_mistakes(page):
    names = [tool["name"] for tool in page.ask("tools", server="fx")]
    assert "echo" in names
    page.ask("ask")
    page.edit(kind="text", text=CALLS.replace("next: second", "next: gone"))
    assert [tool["name"] for tool in page.ask("tools", server="fx")] == names
    assert "no server" in page.ask("tools", 422, server="other")["error"]


def test_credentials_of_servers_are_marks_on_the_page(tmp_path):
    secret = "s3cret-and-long-enough"
    file = tmp_path / "g.yaml"
    servers = graphs.SERVER.replace("]}", "], env: {TOKEN: '${TOKEN}'}}")
    file.write_text(
        graphs.yaml(
            graphs.tool(graphs.ENTRY, graphs.transform("{'a': entry.a}"), graphs.EXIT), servers=servers
        )
    )
    page = Page(Studio(Desk(file, environ={"TOKEN": secret})))
    page.ask("run", tool="t", arguments={"a": secret})
    run = page.ran()
    assert secret not in json.dumps(run)
    assert secret not in json.dumps(page.ask("context", at="1"))
    assert secret not in json.dumps(page.ask("state"))


def test_tools_and_servers_are_added_and_renamed(page):
    page.edit(kind="addTool", name="more")
    state = page.edit(kind="renameTool", name="u", to="inner")
    assert [tool["name"] for tool in state["tools"]] == ["t", "inner", "more"]
    assert state["canRun"]
    server = {"type": "streamableHttp", "url": "http://127.0.0.1:9/mcp"}
    state = page.edit(kind="set", path=["mcpServers", "desk"], value=server)
    assert state["ownServers"]["desk"] == server
    assert "desk" in state["servers"]
