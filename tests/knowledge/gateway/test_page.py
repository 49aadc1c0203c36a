"""The web page, as a browser without scripts sees it."""

import re
from contextlib import contextmanager
from html import unescape
from html.parser import HTMLParser
from urllib.parse import quote

import httpx
import pytest

from knime_mcp.knowledge.gateway.api_keys import Scope
from knime_mcp.knowledge.sources.catalogue_build import build_catalogue

HTML = {"Accept": "text/html"}
EVIL = '<script>alert("x")</script>'
PACK = """\
pack: {name: hostile, version: "1.0.0"}
nodes:
  - node_type: ACTION
    subtype: EVIL
    name: EVIL_TEXT
    description: EVIL_TEXT
    parameters:
      - {name: mode, type: string, default_value: EVIL_TEXT, description: EVIL_TEXT}
    input_ports: [{name: main, type: main, description: EVIL_TEXT}]
    output_ports: []
    tags: [EVIL_TEXT]
    examples: [{name: EVIL_TEXT, configurations: {mode: EVIL_TEXT}}]
""".replace("EVIL_TEXT", f"'{EVIL}'")


class Read(HTMLParser):
    """What a page holds: elements with their attributes, and its text."""

    def __init__(self, text):
        super().__init__()
        self.elements, self.words = [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))

    def handle_data(self, data):
        self.words.append(data)

    @property
    def text(self):
        return " ".join(" ".join(self.words).split())

    def all(self, tag):
        return [attributes for name, attributes in self.elements if name == tag]


@pytest.fixture
def visitor(gateway):
    """Somebody who is signed in."""
    with httpx.Client(base_url=gateway.url, headers=HTML, timeout=60, follow_redirects=True) as client:
        assert client.post("/sign-in", data={"key": gateway.key(), "after": "/"}).status_code == 200
        yield client


def seen(response, status=200):
    assert response.status_code == status, response.text
    assert response.headers["content-type"] == "text/html; charset=utf-8"
    return Read(response.text)


PATHS = ["/", "/nodes", "/nodes?q=email", "/node?id=FLOW.MERGE", "/tools", "/tools/search_nodes"]


@pytest.mark.parametrize("path", PATHS)
def test_a_page_is_whole_and_loads_nothing_from_elsewhere(visitor, path):
    response = visitor.get(path)
    page = seen(response)
    policy = response.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "script" not in policy
    assert response.headers["cache-control"] == "no-store"
    assert not page.all("script")
    assert page.all("html") == [{"lang": "en"}]
    for tag in ("title", "h1", "main", "header", "footer"):
        assert len(page.all(tag)) == 1, tag
    for attributes in (entry for _, entry in page.elements):
        assert not [name for name in attributes if name.startswith("on") or name == "style"]
        for name in ("href", "src", "action"):
            assert re.match(r"[/#](?!/)", attributes.get(name, "/"))
    labels = {entry["for"] for entry in page.all("label")}
    ids = [entry["id"] for _, entry in page.elements if "id" in entry]
    assert len(ids) == len(set(ids))
    for tag in ("input", "select", "textarea"):
        for entry in page.all(tag):
            assert entry.get("type") == "hidden" or entry["id"] in labels
            assert set(entry.get("aria-describedby", "").split()) <= set(ids)
    assert page.all("a")[0] == {"class": "skip", "href": "#main"}
    for link in page.all("link"):
        assert visitor.get(link["href"]).status_code == 200
    for link in {entry["href"] for entry in page.all("a") if entry["href"].startswith("/")}:
        assert visitor.get(link).status_code == 200, link


def test_knimes_types_stand_before_those_of_the_workflow_engine(start, tmp_path):
    (tmp_path / "knime.yaml").write_text(PACK.replace("ACTION", "SOURCE"), "utf-8")
    build_catalogue(tmp_path / "c.sqlite", packs=[tmp_path / "knime.yaml"])
    running = start(catalogue=tmp_path / "c.sqlite", gateway_rate_limit=0)
    with httpx.Client(base_url=running.internal, headers=HTML) as client:
        text = seen(client.get("/")).text
    assert text.index("SOURCE 1 node") < text.index("TRIGGER 6 nodes") < text.index("MEMORY 3 nodes")


def test_titles_tell_pages_apart(visitor):
    titles = [re.search("<title>(.*?)</title>", visitor.get(path).text)[1] for path in PATHS]
    assert len(set(titles)) == len(PATHS)


def test_signing_in_counts_for_the_limit_of_the_key(start):
    running = start()
    form = {"key": running.key(rate_limit=2), "after": "/"}
    with httpx.Client(base_url=running.url, headers=HTML) as client:
        assert [client.post("/sign-in", data=form).status_code for _ in range(3)] == [303, 303, 429]


@pytest.mark.parametrize("after", ["//elsewhere.example", "https://elsewhere.example/"])
def test_a_wrong_key_leads_to_no_other_host(gateway, after):
    with httpx.Client(base_url=gateway.url, headers=HTML) as client:
        wrong = seen(client.post("/sign-in", data={"key": "wrong", "after": after}), 401)
    assert {"name": "after", "type": "hidden", "value": "/"} in wrong.all("input")


def test_a_wrong_key_keeps_the_deep_link(gateway):
    after = "/node?id=FLOW.MERGE"
    with httpx.Client(base_url=gateway.url, headers=HTML) as client:
        wrong = seen(client.post("/sign-in", data={"key": "wrong", "after": after}), 401)
        assert {"name": "after", "type": "hidden", "value": after} in wrong.all("input")
        right = client.post("/sign-in", data={"key": gateway.key(), "after": after})
        assert (right.status_code, right.headers["location"]) == (303, after)


@pytest.mark.requirement("N25")
@pytest.mark.parametrize("path", PATHS)
def test_without_a_key_there_is_only_the_way_in(gateway, path):
    with httpx.Client(base_url=gateway.url, headers=HTML) as client:
        response = client.get(path)
        page = seen(response, 401)
        assert [entry["action"] for entry in page.all("form")] == ["/sign-in"]
        assert {"name": "after", "type": "hidden", "value": path} in page.all("input")
        assert "Merge" not in page.text
        client.cookies.set("knime_mcp_session", "x" * 43)
        assert client.get(path).status_code == 401


def test_a_key_is_shown_once_and_a_cookie_stands_for_it(gateway, start):
    key = gateway.key(name="a <b>person</b>")
    with httpx.Client(base_url=gateway.url, headers=HTML) as client:
        wrong = seen(client.post("/sign-in", data={"key": key[:-1], "after": "/tools"}), 401)
        assert "revoked" in wrong.text
        assert {"name": "after", "type": "hidden", "value": "/tools"} in wrong.all("input")
        assert not client.cookies
        answer = client.post("/sign-in", data={"key": f" {key} ", "after": "/nodes?q=mail"})
        assert (answer.status_code, answer.headers["location"]) == (303, "/nodes?q=mail")
        cookie = answer.headers["set-cookie"]
        assert {"HttpOnly", "SameSite=strict"} <= {part.strip() for part in cookie.split(";")}
        assert key.split("_", 2)[2] not in cookie
        page = seen(client.get("/nodes?q=mail"))
        assert "a <b>person</b>" in page.text
        assert key.split("_", 2)[2] not in client.get("/").text
        session = client.cookies["knime_mcp_session"]
        assert client.post("/sign-out", data={"x": ""}).headers["location"] == "/"
        client.cookies.set("knime_mcp_session", session)
        assert client.get("/").status_code == 401
        client.cookies.clear()
        client.post("/sign-in", data={"key": key})
        assert client.get("/").status_code == 200
        gateway.gateway.keys.revoke(gateway.made[-1].id)
        assert client.get("/").status_code == 401
    behind = start(gateway_behind_proxy=True)
    answer = httpx.post(f"{behind.url}/sign-in", data={"key": behind.key()})
    assert "Secure" in answer.headers["set-cookie"]


@pytest.mark.parametrize(
    "after",
    ["https://evil.example", "//evil.example", "/\\evil", "/\t/evil", "/x\r\nSet-Cookie: a=b", "", "é"],
)
def test_signing_in_leads_nowhere_else(gateway, after):
    answer = httpx.post(f"{gateway.url}/sign-in", data={"key": gateway.key(), "after": after})
    assert (answer.status_code, answer.headers["location"]) == (303, "/")


@pytest.mark.requirement("N25")
def test_scopes_and_limits_of_a_key_hold_on_the_page(gateway, start):
    @contextmanager
    def visit(running, key):
        with httpx.Client(base_url=running.url, headers=HTML) as client:
            client.post("/sign-in", data={"key": key})
            yield client

    with visit(gateway, gateway.key(Scope.TOOLS_EXECUTE)) as client:
        assert "tools:read" in seen(client.get("/"), 403).text
    with visit(gateway, gateway.key(Scope.TOOLS_READ)) as client:
        assert client.get("/tools/get_node_types").status_code == 200
        assert "tools:execute" in seen(client.post("/tools/get_node_types", data={"x": ""}), 403).text
    limited = start(gateway_rate_limit=4)  # signing in counts, too
    with visit(limited, limited.key()) as client:
        assert [client.get("/").status_code for _ in range(4)] == [200] * 3 + [429]


def test_a_form_of_another_site_is_refused(gateway, visitor):
    for headers in (
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
    ):
        for url in (gateway.url, gateway.internal):
            response = visitor.post(f"{url}/tools/get_node_types", data={"x": ""}, headers=headers)
            assert response.status_code == 403
    own = {"Origin": gateway.url}
    assert visitor.post("/tools/get_node_types", data={"x": ""}, headers=own).status_code == 200


def test_on_this_machine_no_key_is_asked_for(gateway):
    with httpx.Client(base_url=gateway.internal, headers=HTML) as client:
        for path in PATHS:
            seen(client.get(path))
        own = {"Origin": gateway.internal}
        page = seen(client.post("/tools/get_node_types", data={"type_filter": "FLOW"}, headers=own))
        assert "MERGE" in page.text
        assert "/invoke/internal" in page.text
        assert client.get("/", headers={"Host": "evil.example"}).status_code == 403
        link = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}
        assert client.get("/", headers=link).status_code == 200
        assert client.get("/", headers=link | {"Sec-Fetch-Mode": "no-cors"}).status_code == 403


def test_searching_and_leafing_through(visitor):
    page = seen(visitor.get("/nodes", params={"q": "http request"}))
    assert page.all("li")[0]["class"] == "entry"
    assert "HTTP Request" in page.text
    corrected = seen(visitor.get("/nodes", params={"q": "emial"}))
    assert "was not found" in corrected.text
    nothing = seen(visitor.get("/nodes", params={"q": "qqqqzzzz"}))
    assert "Nothing was found" in nothing.text
    assert "Nothing was found" in seen(visitor.get("/nodes", params={"type": "NOTHING"})).text
    names, path, pages = [], "/nodes", 0
    while path:
        page = seen(visitor.get(path))
        names += [entry["href"] for entry in page.all("a") if entry["href"].startswith("/node?")]
        path = next((entry["href"] for entry in page.all("a") if entry.get("rel") == "next"), None)
        pages += 1
    assert pages > 1
    assert len(names) == len(set(names)) == int(re.search(r"(\d+) nodes, page", page.text)[1])
    assert "There are only" in seen(visitor.get("/nodes?page=9999")).text
    for number in ("0", "-1", "x", "9" * 30, "²"):
        assert "page 1 of" in seen(visitor.get("/nodes", params={"page": number})).text
    assert visitor.get("/nodes", params={"q": "a" * 5000}).status_code == 200


def test_a_card_has_ports_and_settings(visitor):
    page = seen(visitor.get("/node", params={"id": "HUMAN_IN_THE_LOOP.SLACK_INTERACTION"}))
    for text in ("Slack Interaction", "confirmed", "question_template", "Please confirm: {{input.summary}}"):
        assert text in page.text
    assert [entry["scope"] for entry in page.all("th")].count("row") > 5
    assert seen(visitor.get("/node", params={"id": "Slack Interaction"})).text
    for missing in ("nothing at all", "", "../../etc/passwd", "x" * 5000):
        assert "no such node" in seen(visitor.get("/node", params={"id": missing}), 404).text


@pytest.mark.requirement("W8")
def test_foreign_text_is_only_text(start, tmp_path):
    pack = tmp_path / "hostile.yaml"
    pack.write_text(PACK, "utf-8")
    catalogue = tmp_path / "nodes.sqlite"
    build_catalogue(catalogue, packs=[pack], with_own_packs=False)
    running = start(catalogue=catalogue, gateway_rate_limit=0)
    with httpx.Client(base_url=running.internal, headers=HTML) as client:
        paths = [
            "/",
            "/nodes",
            f"/nodes?q={quote(EVIL)}",
            f"/nodes?type={quote(EVIL)}",
            "/node?id=ACTION.EVIL",
        ]
        paths += [f"/tools/find_compatible?node={quote(EVIL)}", f"/node?id={quote(EVIL)}", f"/{quote(EVIL)}"]
        pages = [client.get(path) for path in paths]
        pages.append(client.post("/tools/search_nodes", data={"query": EVIL}))
        pages.append(client.post("/tools/check_configuration", data={"node": EVIL, "settings": EVIL}))
    for response in pages:
        assert not Read(response.text).all("script"), response.url
        assert "<script" not in response.text
    card = Read(pages[4].text)
    assert card.text.count(EVIL) >= 5


def test_a_tool_is_tried_with_a_form(visitor):
    form = seen(visitor.get("/tools/search_nodes"))
    assert {"query", "max_results", "include_details"} <= {entry.get("name") for entry in form.all("input")}
    page = seen(visitor.post("/tools/search_nodes", data={"query": "http request", "max_results": "1"}))
    assert "HTTP_REQUEST" in page.text
    assert "X-API-Key: $KEY" in page.text
    wrong = visitor.post("/tools/search_nodes", data={"query": "x", "max_results": "many"})
    page = seen(wrong, 400)
    assert {"max_results"} == {entry["name"] for entry in page.all("input") if "aria-invalid" in entry}
    assert next(entry for entry in page.all("input") if entry.get("id") == "f-query")["value"] == "x"
    page = seen(visitor.post("/tools/get_node_details", data={"nodes": "[{"}), 400)
    assert "not JSON" in page.text
    assert seen(visitor.post("/tools/find_compatible", data={"node": "nothing at all"}), 404)
    assert seen(visitor.post("/tools/nothing", data={"x": ""}), 404)
    assert seen(visitor.get("/tools/nothing"), 404)


def entered_in(text):
    """What a browser would send, were the button pressed."""
    page = Read(text)
    entered = {
        entry["name"]: entry.get("value", "")
        for entry in page.all("input")
        if "name" in entry and (entry["type"] != "checkbox" or "checked" in entry)
    }
    for name, inner in re.findall(r'<textarea id="\S+" name="(\w+)".*?>\n(.*?)</textarea>', text, re.DOTALL):
        entered[name] = unescape(inner)
    for name, inner in re.findall(r'<select id="\S+" name="(\w+)".*?>(.*?)</select>', text, re.DOTALL):
        entered[name] = "".join(re.findall(r"<option selected>(.*?)<", inner))
    return entered


def test_the_examples_of_every_tool_work_in_its_form(gateway, visitor):
    for tool in gateway.gateway.registry.get_available_tools():
        for number, _ in enumerate(tool.usage_examples):
            form = visitor.get(f"/tools/{tool.name}", params={"example": number}).text
            answer = visitor.post(f"/tools/{tool.name}", data=entered_in(form))
            # Not every catalogue has the nodes of every example.
            assert answer.status_code in (200, 404), Read(answer.text).text


def test_strange_forms_are_answered(visitor):
    form = {"Content-Type": "application/x-www-form-urlencoded"}
    path = "/tools/get_node_types"
    assert visitor.post(path, content=b"\xff", headers=form).status_code == 400
    assert visitor.post(path, content=b"type_filter=%ff", headers=form).status_code == 400
    assert visitor.post(path, content=b"&".join([b"a=b"] * 101), headers=form).status_code == 400
    assert visitor.post(path, content=b"a=" + b"b" * 1_100_000, headers=form).status_code == 413
    assert visitor.post(path, json={}).status_code == 415
    half = visitor.post("/tools/get_node_details", data={"nodes": '[{"id": "\\ud800"}]'})
    assert '"id": "?"' in seen(half).text
    assert visitor.post(path, content=b"", headers=form).status_code == 200


def test_a_missing_page_is_html_for_people_and_json_for_programs(gateway):
    with httpx.Client(base_url=gateway.url) as client:
        assert "Not found" in seen(client.get("/nothing", headers=HTML), 404).text
        assert client.get("/nothing").json()["error_type"] == "VALIDATION_ERROR"
        assert seen(client.put("/nodes", headers=HTML), 405)


def test_a_catalogue_that_is_gone_is_said_on_the_page(start, tmp_path, catalogue):
    copy = tmp_path / "nodes.sqlite"
    copy.write_bytes(catalogue.read_bytes())
    running = start(catalogue=copy)
    copy.unlink()
    with httpx.Client(base_url=running.internal, headers=HTML) as client:
        for path in PATHS[:4]:
            response = client.get(path)
            assert "has to build it again" in seen(response, 500).text
            assert str(tmp_path) not in response.text


def test_the_page_is_off_with_the_tools(start):
    running = start(environment={"MCP_ENABLED": "false"})
    with httpx.Client(base_url=running.internal, headers=HTML) as client:
        for path in PATHS:
            assert "switched off" in seen(client.get(path), 503).text
