"""The chat's page in a real browser, in a frame like KNIME's: `make browser-chat`; needs chromium.

A scripted model and a real server say what is dangerous to show. Somebody asks, allows, edits and stops by
keyboard alone, in light and dark. Screenshots go into the folder that is named, to be looked at. Not among
the tests, because a machine without a browser would have to skip it.
"""

import json
import shutil
import sys
import tempfile
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pyarrow as pa

from tests.support import peers
from tests.support.browser import Browser
from tests.support.chat_server import ChatServer, call, calls, says
from tests.support.host import KNIME_YML
from tests.support.knime_host import load_extension

PAGE = Path(__file__).parents[3] / "views" / "agent_chat"
EVIL = "<script>window.pwned=1</script><img src=x onerror='window.pwned=1'>"
#: KNIME's part: an iframe that may as little as KNIME's, and the two messages that a view needs.
FRAME = """<!doctype html><meta charset="utf-8"><title>frame</title>
<style>body{margin:0}iframe{border:0;width:100vw;height:100vh;display:block}</style>
<iframe sandbox="allow-downloads allow-scripts allow-same-origin" src="/view/index.html"></iframe>
<script>
const place = {nodeId: "root:1", projectId: "p", workflowId: "root", extensionType: "view"};
const told = window.told = [];
const answers = {
  getConfig: () => place,
  publishData: (data) => told.push(["publishData", data]),
  callNodeDataService: async (request) => {
    told.push([request.serviceType, request.nodeId]);
    const applied = JSON.stringify({isApplied: true});
    if (request.serviceType === "apply_data") return JSON.stringify({result: applied});
    const answer = await fetch("/rpc", {method: "POST", body: request.dataServiceRequest});
    return JSON.stringify({result: await answer.json()});
  },
};
addEventListener("message", async ({data, source}) => {
  if (data.type !== "UIExtensionRequest") return told.push([data.type]);
  const payload = await answers[data.payload.method](...data.payload.params);
  source.postMessage({type: "UIExtensionResponse", requestId: data.requestId, payload}, "*");
});
</script>"""


class FrameBrowser(Browser):
    """The view stands in a frame; ``page`` is the document in there."""

    def open(self, url):
        super().open(url)
        self.wait_for("document.querySelector('iframe')?.contentDocument?.readyState === 'complete'")

    def script(self, code):
        return super().script(
            f"(() => {{ const page = document.querySelector('iframe')?.contentDocument; return {code} }})()"
        )

    def press(self, key, code=0, text=""):
        event = {"key": key, "windowsVirtualKeyCode": code, "code": key}
        self.do("Input.dispatchKeyEvent", type="keyDown", text=text, **event)
        self.do("Input.dispatchKeyEvent", type="keyUp", **event)

    def write(self, text):
        self.do("Input.insertText", text=text)

    def enter(self):
        self.press("Enter", 13, "\r")

    @property
    def focused(self):
        return self.script(
            "page.activeElement.id || page.activeElement.getAttribute('aria-label')"
            " || page.activeElement.textContent"
        )

    def tab_to(self, what):
        """Presses Tab until this element has the focus, and is seen to have it."""
        for _ in range(60):
            if self.focused == what:
                style = "getComputedStyle(page.activeElement).outlineStyle"
                assert self.script(style) != "none", f"the focus on {what} is not seen"
                return
            self.press("Tab", 9)
        raise AssertionError(f"Tab does not get to {what}")

    def names(self):
        """Role and name of everything that a screen reader reads out in the frame."""
        frame = self.do("Page.getFrameTree")["frameTree"]["childFrames"][0]["frame"]["id"]
        nodes = self.do("Accessibility.getFullAXTree", frameId=frame)["nodes"]
        return [
            (node["role"]["value"], node.get("name", {}).get("value", ""))
            for node in nodes
            if not node.get("ignored")
        ]


def served(service):
    """A server on loopback with the frame, the page's files, and the service."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            if self.path == "/":
                return self._send(FRAME.encode(), "text/html")
            file = PAGE / Path(self.path).name
            kinds = {".html": "text/html", ".js": "text/javascript", ".css": "text/css"}
            if not file.is_file():
                return self.send_error(404)
            return self._send(file.read_bytes(), kinds[file.suffix])

        def do_POST(self):
            request = json.loads(self.rfile.read(int(self.headers["content-length"])))
            try:
                answer = {"result": service(request["method"], *request["params"])}
            except RuntimeError as error:
                answer = {"error": {"code": -32603, "message": str(error)}}
            self._send(
                json.dumps({"jsonrpc": "2.0", "id": request["id"], **answer}).encode(), "application/json"
            )

        def _send(self, body, kind):
            self.send_response(200)
            self.send_header("content-type", kind)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server


SCRIPT = [
    calls(call("weather", {"city": "Konstanz", "days": 3}), text="I look at the weather."),
    says(
        "In **Konstanz** it is *mild*.\n\n| day | °C |\n|---|---|\n| Mon | 18 |\n| Tue | 19 |\n\n"
        "- take an umbrella\n- see [the map](https://example.org/map)\n\n```\nprint(18)\n```"
    ),
    calls(call("echo", {"value": {"order": 17, "note": EVIL}}), call("pixel")),
    calls(call("echo", {"value": {"order": 17, "note": "edit me"}})),
    says(
        f"{EVIL} [click](javascript:window.pwned=1) `{EVIL}` **{EVIL}**\n\n"
        + f"| {EVIL} | b |\n|---|---|\n| {EVIL} | 2 |"
    ),
    calls(call("order")),
    says("Ordered."),
    says("Dear Ada."),
    calls(call("summarize", {"text": "A long text."})),
    says(f"Private. {EVIL}\nAnd long."),
    says("Summed up."),
    says("Never said.").after(20),
]


def talk(browser, folder):
    """The conversation; every step is waited for on the page."""
    browser.wait_for("page.querySelector('#suggestions button')")
    assert browser.focused == "question"
    browser.write("How is the weather in Konstanz?")
    browser.enter()
    browser.wait_for("page.querySelector('.asks') && page.activeElement.textContent === 'Allow'")
    browser.picture(folder / "asks.png", "light")
    browser.enter()
    browser.wait_for("page.querySelector('.answer table')")
    browser.wait_for("!page.querySelector('#ask').hidden")
    browser.script("page.querySelectorAll('.card').forEach((card) => card.open = true)")
    browser.picture(folder / "answer-light.png", "light")
    browser.picture(folder / "answer-dark.png", "dark")

    browser.tab_to("question")
    browser.write(f"Send {EVIL}")
    browser.enter()
    for name in ("echo", "pixel"):
        browser.wait_for(f"page.querySelector('.asks')?.title === '{name}'")
        browser.tab_to("Allow")
        browser.enter()
        browser.wait_for(
            "!page.querySelector('.asks') || page.querySelector('.asks textarea').value.length < 40"
        )
    browser.wait_for("page.querySelector('.asks textarea')?.value.includes('edit me')")
    browser.tab_to("Edit")
    browser.enter()
    browser.script("page.activeElement.select()")
    browser.write('{"value": {"edited": true}}')
    browser.tab_to("Send as edited")
    browser.enter()
    browser.wait_for("!page.querySelector('#ask').hidden && page.querySelectorAll('.answer').length >= 3")
    browser.picture(folder / "hostile-light.png", "light")
    browser.picture(folder / "hostile-dark.png", "dark")
    assert browser.script("page.querySelector('.card img').naturalWidth") > 0

    ask_back(browser, folder)
    ask_the_model(browser, folder)
    browser.tab_to("question")
    browser.write("And now?")
    browser.enter()
    browser.wait_for("!page.querySelector('#stop').hidden")
    browser.press("Escape", 27)
    browser.wait_for("page.body.innerText.includes('Stopped.')")


def ask_back(browser, folder):
    """A server asks for a form, and offers a prompt."""
    browser.tab_to("question")
    browser.write("Order a desk.")
    browser.enter()
    browser.wait_for("page.querySelector('.asks')?.title === 'order'")
    browser.tab_to("Allow")
    browser.enter()
    browser.wait_for("page.querySelector('.asks .form input')")
    browser.picture(folder / "form-light.png", "light")
    browser.picture(folder / "form-dark.png", "dark")
    browser.script("page.querySelector('.asks .form input').focus()")
    browser.write("Ada")
    browser.press("Tab", 9)
    browser.script("page.activeElement.select()")
    browser.write("12")
    browser.tab_to("Send")
    browser.enter()
    browser.wait_for("page.querySelector('.asks .error')?.textContent.includes('9')")
    browser.script("page.querySelectorAll('.asks .form input')[1].focus()")
    browser.script("page.activeElement.select()")
    browser.write("2")
    browser.enter()
    browser.wait_for("page.body.innerText.includes('Ordered.') && !page.querySelector('#ask').hidden")
    browser.script("page.querySelector('#prompts summary').focus()")
    browser.enter()
    browser.wait_for("page.querySelector('#prompts li button')")
    browser.picture(folder / "prompts.png", "light")
    browser.tab_to("letter")
    browser.enter()
    browser.wait_for("page.querySelector('.card .form input')")
    browser.write("Ada")
    browser.tab_to("Ask this")
    browser.enter()
    browser.wait_for("page.body.innerText.includes('Dear Ada.') && !page.querySelector('#ask').hidden")


def ask_the_model(browser, folder):
    """A server asks the model; what it gets of the answer is changed before."""
    browser.tab_to("question")
    browser.write("Sum it up.")
    browser.enter()
    for title in ("May summarize be called?", "May a server ask your model?"):
        browser.wait_for(f"page.querySelector('.asks')?.getAttribute('aria-label') === '{title}'")
        browser.tab_to("Allow")
        browser.enter()
    browser.wait_for("page.querySelector('.asks textarea')?.value.endsWith('And long.')")
    browser.picture(folder / "review-light.png", "light")
    browser.tab_to("Edit")
    browser.enter()
    browser.script("page.activeElement.select()")
    browser.write("Short.")
    browser.tab_to("Send as edited")
    browser.enter()
    browser.wait_for("page.body.innerText.includes('Summed up.') && !page.querySelector('#ask').hidden")
    assert browser.script("page.body.textContent.includes('test-model: Short.')")


def check(browser):
    """Nothing that a server, a model or a person wrote was run."""
    assert browser.script("page.defaultView.pwned") is None
    assert browser.script("page.querySelectorAll('script').length") == 3
    assert browser.script("page.querySelectorAll('img').length") == 1
    assert browser.script("[...page.querySelectorAll('a')].map((link) => link.protocol)") == ["https:"]
    assert browser.script("page.body.innerText").count("window.pwned=1</script>") >= 4
    known = ("favicon.ico", "can escape its sandboxing")  # both of the frame, which is KNIME's part
    assert not [c for c in browser.complaints if not any(w in c for w in known)], browser.complaints
    names = browser.names()
    unnamed = [role for role, name in names if role in ("button", "textbox", "link", "image") and not name]
    assert not unnamed, unnamed
    found = {role for role, _ in names}
    assert {"log", "button", "textbox", "article", "table", "columnheader"} <= found, found
    assert ["publishData", {}] in browser.script("window.told")
    assert ["UIExtensionReady"] in browser.script("window.told")
    browser.script("page.querySelector('#hand-on').click()")
    browser.wait_for("window.told.some(([kind]) => kind === 'apply_data')")


def main(folder):
    folder.mkdir(parents=True, exist_ok=True)
    host = load_extension(KNIME_YML)
    profile = tempfile.mkdtemp()
    with (
        peers.running(peers.counting("weather server")) as server,
        peers.running(peers.asking()) as asking,
        ChatServer(SCRIPT) as model,
    ):
        connected = host.run_node(
            "openai_compatible_chat_model", [], {"base_url": model.url, "model_name": "test-model"}
        )
        port = _port_object(connected.outputs[0])
        servers = host.table(pa.table({"url": [server.url("/one"), asking.url("/mcp")]}))
        parameters = {"column_form": "auto"}
        tools = host.run_node("mcp_tool_provider", [servers, None], parameters).outputs[0].as_input()
        data = host.table(pa.table({"order": [1, 2]}))
        settings = {
            "questions": "How is the weather in Konstanz?\nWhich orders are late?",
        }
        service = host.data_service("mcp_agent_chat", [port, tools, None, [data], None], settings)
        http, browser = served(service), FrameBrowser(profile)
        try:
            browser.open(f"http://127.0.0.1:{http.server_port}/")
            talk(browser, folder)
            check(browser)
        finally:
            browser.close()
            http.shutdown()
            service.view_data()
            shutil.rmtree(profile, ignore_errors=True)
    print(f"Asked, allowed, edited and stopped by keyboard; nothing was run. Pictures are in {folder}.")


def _port_object(output):
    from knime.extension.nodes import get_port_type_for_id

    spec, data = output
    port_type = get_port_type_for_id(spec["id"])
    return port_type.object_class.deserialize(port_type.spec_class.deserialize(spec["data"]), data)


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else tempfile.mkdtemp(prefix="chat-pictures-")))
