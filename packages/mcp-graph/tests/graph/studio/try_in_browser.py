"""The studio in a real browser: `make browser-studio`; needs chromium, node and npm.

A graph of 20 nodes is built twice, with a mouse and with keys alone, saved, and run: by us, and by the
reference, npm's mcpgraph. Then a run is stepped through, gone back in, and begun in the middle; texts that
attack the page are shown; 200 nodes are drawn, and the file changes from outside. Screenshots go into the
folder that is named, to be looked at. Not among the tests, because a machine without a browser would have to
skip it.
"""

import json
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path

from knime_mcp.client.transports.stdio_server import StdioServer
from knime_mcp.tools import MCPClient
from knime_mcp_graph.api import McpGraphApi
from knime_mcp_graph.document_loading import read_yaml
from tests.graph import graphs
from tests.support.browser import Browser

REFERENCE = "mcpgraph@0.1.23"
EVIL = "<script>window.pwned=1</script><img src=x onerror='window.pwned=1'>"
START = f"""\
version: "1.0"
server: {{name: shop, version: "1"}}   # the shop's own
{graphs.SERVER}tools:
  # what the shop does
  - name: order
    description: 'Counts on.'
    inputSchema: {{type: object, properties: {{n: {{type: number}}}}, required: [n]}}
    outputSchema: {{type: object}}
    nodes:
      - {{id: entry, type: entry, next: exit}}   # begins
      - {{id: exit, type: exit}}                 # ends
"""
CHAIN = [f"c{number}" for number in range(1, 14)]
#: Each new node, its type, the node it comes after, and its expression.
PLAN = [
    ("ask", "mcp", "entry", None),
    ("double", "transform", "ask", '{"v": $.ask.received.n * 2}'),
    ("way", "switch", "double", None),
    ("big", "transform", "", '{"v": 100 + $.double.v}'),
    ("small", "transform", "", '{"v": $.double.v}'),
    ("c1", "transform", "", '{"v": $.big.v ? $.big.v : $.small.v}'),
    *((name, "transform", before, f'{{"v": $.{before}.v + 1}}') for before, name in pairwise(CHAIN)),
]
WAYS = [("way", "big"), ("way", "small"), ("big", "c1"), ("small", "c1"), ("c13", "exit")]
RULES = ['{">": [{"var": "$.double.v"}, 10]}', '{"<=": [{"var": "$.double.v"}, 10]}']
NAMED = ("button", "textbox", "tab", "combobox", "slider", "checkbox")
YAML = "document.querySelector('#yaml').value"
DIALOG = "document.querySelector('#dialog')"


def node(name):
    return f"document.querySelector('[data-id=\"{name}\"]')"


def selected(name):
    return f"{node(name)}?.getAttribute('aria-pressed') === 'true'"


def control(label):
    """The field with a label that begins so."""
    fields = "[...document.querySelectorAll('.field')]"
    begins = f"one.querySelector('label').textContent.startsWith({json.dumps(label)})"
    return (
        f"{fields}.find((one) => one.checkVisibility() && {begins})?.querySelector('input,textarea,select')"
    )


def button(text, within="document"):
    return f"[...{within}.querySelectorAll('button')].find((one) => one.textContent === {json.dumps(text)})"


class Person(Browser):
    """Somebody at the page: pointer and keys, nothing else."""

    def press(self, key, code=0, text="", *, held=0, commands=()):
        event = {"key": key, "windowsVirtualKeyCode": code, "code": key, "modifiers": held}
        self.do("Input.dispatchKeyEvent", type="keyDown", text=text, commands=list(commands), **event)
        self.do("Input.dispatchKeyEvent", type="keyUp", **event)

    def key(self, letter):
        self.press(letter, ord(letter.upper()), letter)

    def enter(self):
        self.press("Enter", 13, "\r")

    def tab(self):
        self.press("Tab", 9)

    def write(self, text):
        """Replaces what is in the field that has the focus."""
        self.press("a", 65, held=2, commands=["selectAll"])
        self.do("Input.insertText", text=text)

    def tab_to(self, found):
        for _ in range(150):
            if self.script(f"document.activeElement === ({found})"):
                return
            self.tab()
        raise AssertionError(found, self.script("document.activeElement.outerHTML"))

    def place(self, found):
        x, y = self.script(
            f"(() => {{ const one = {found};"
            " if (!one.closest('svg')) one.scrollIntoView({block: 'nearest'});"
            " const {x, y, width, height} = one.getBoundingClientRect();"
            " return [x + width / 2, y + height / 2] })()"
        )
        return {"x": x, "y": y}

    def mouse(self, kind, at, buttons=1):
        self.do("Input.dispatchMouseEvent", type=kind, button="left", clickCount=1, buttons=buttons, **at)

    def click(self, found):
        at = self.place(found)
        self.mouse("mouseMoved", at, 0)
        self.mouse("mousePressed", at)
        self.mouse("mouseReleased", at, 0)

    def drag(self, found, onto):
        begin, end = self.place(found), self.place(onto)
        self.mouse("mouseMoved", begin, 0)
        self.mouse("mousePressed", begin)
        self.mouse("mouseMoved", {"x": (begin["x"] + end["x"]) / 2, "y": (begin["y"] + end["y"]) / 2})
        self.mouse("mouseMoved", end)
        self.mouse("mouseReleased", end, 0)

    @contextmanager
    def changing(self):
        """What is done here changes the document."""
        before = self.script(YAML)
        yield
        self.wait_for(f"{YAML} !== {json.dumps(before)}")

    def names(self):
        nodes = self.do("Accessibility.getFullAXTree")["nodes"]
        said = [(one.get("role", {}).get("value"), one.get("name", {}).get("value")) for one in nodes]
        return [(role, name) for role, name in said if role]


class Keys:
    """Builds with keys alone."""

    def __init__(self, person):
        self.person = person

    def go(self, name):
        person = self.person
        if not person.script("document.activeElement.matches('.node')"):
            person.press("Escape", 27)
        if not person.script("document.activeElement.matches('.node')"):
            person.tab_to("document.querySelector('.node[tabindex=\"0\"]')")
        self.name(name)
        person.wait_for(f"{selected(name)} && document.activeElement === {node(name)}")

    def name(self, name):
        self.person.key("g")
        self.person.wait_for(f"{DIALOG}.open")
        self.person.write(name)
        self.person.enter()

    def begin_adding(self, after):
        self.go(after or "entry")
        self.person.key("a")

    def end_adding(self):
        self.confirm("Add")

    def open(self, name):
        self.go(name)
        self.person.enter()

    def to(self, label):
        self.person.wait_for(control(label))
        self.person.tab_to(control(label))

    def leave(self):
        self.person.tab()

    def connect(self, source, target):
        self.go(source)
        self.person.key("c")
        self.name(target)

    def confirm(self, text):
        self.person.tab_to(button(text, DIALOG))
        self.person.enter()

    def save(self):
        self.person.press("s", 83, held=2)


class Mouse(Keys):
    """Builds with the mouse, and with keys only for what is written."""

    def go(self, name):
        self.person.click("document.querySelector('#fit')")
        self.person.click(node(name))
        self.person.wait_for(selected(name))

    def begin_adding(self, after):
        if after:
            self.go(after)
        self.person.click("document.querySelector('#add')")

    def end_adding(self):
        self.person.click(button("Add", DIALOG))

    def open(self, name):
        self.go(name)

    def to(self, label):
        self.person.wait_for(control(label))
        if self.person.script(f"{control(label)}.tagName") == "SELECT":
            self.person.click(control("Name"))  # a list that opens is not the page's any more
            self.person.tab_to(control(label))
        else:
            self.person.click(control(label))

    def leave(self):
        self.person.click("document.querySelector('#settings h2')")

    def connect(self, source, target):
        self.go(source)
        self.person.drag(f"{node(source)}.querySelector('.port')", node(target))

    def confirm(self, text):
        self.person.click(button(text, DIALOG))

    def save(self):
        self.person.click("document.querySelector('#save')")


def build(hand):
    """The graph of `PLAN`; every step is waited for on the page."""
    person = hand.person
    for name, kind, after, expression in PLAN:
        hand.begin_adding(after)
        person.wait_for(f"{DIALOG}.open")
        person.write(name)
        person.tab()
        for letter in "" if kind == "transform" else kind:
            person.key(letter)
        person.tab()
        if not after:
            person.press("Home", 36)
        assert person.script("[...document.querySelectorAll('#dialog select')].map((one) => one.value)") == [
            kind,
            after,
        ]
        hand.end_adding()
        person.wait_for(f"{selected(name)} && !{DIALOG}.open")
        if expression:
            write(hand, name, "Expression", expression)
        if kind == "mcp":
            call(hand, name)
    for source, target in WAYS:
        with person.changing():
            hand.connect(source, target)
            if source != "way":
                person.wait_for(f"{DIALOG}.open")
                hand.confirm("next")
    for number, rule in enumerate(RULES, 1):
        write(hand, "way", f"Rule {number}", rule)
    hand.save()
    person.wait_for("document.querySelector('#status').textContent === 'Saved'")


def write(hand, name, label, text):
    hand.open(name)
    hand.to(label)
    with hand.person.changing():
        hand.person.write(text)
        hand.leave()


def call(hand, name):
    """Chooses the server's tool, and gives it an argument that is an expression."""
    hand.open(name)
    hand.person.wait_for(f"{control('Tool of the server')}?.options?.length > 3")
    hand.to("Tool of the server")
    while hand.person.script(f"{control('Tool of the server')}.value") != "echo":
        with hand.person.changing():
            hand.person.key("e")  # the next one that begins so
    for label, text in (("Further argument", "n"), ("n", "$.entry.n")):
        hand.to(label)
        with hand.person.changing():
            hand.person.write(text)
            hand.leave()


@contextmanager
def studio(file, *options):
    command = [
        sys.executable,
        "-m",
        "knime_mcp_graph.commands.program",
        "studio",
        str(file),
        "--no-open",
        *options,
    ]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    try:
        yield process.stderr.readline().split()[-1]
    finally:
        process.terminate()
        assert process.wait(30) == 0


@contextmanager
def person_at(url, shows=".node"):
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        person = Person(profile)
        try:
            person.resize(1500, 1000)
            person.open(url)
            person.wait_for(f"document.querySelector('{shows}')")
            yield person
            assert not [one for one in person.complaints if "favicon" not in one], person.complaints
            assert person.script("window.pwned") is None
        finally:
            person.close()


def built(hand_of, folder):
    """The document that was built, as text."""
    file = folder / f"{hand_of.__name__}.yaml"
    file.write_text(START, encoding="utf-8")
    with studio(file, "--dialect", "target") as url, person_at(url) as person:
        build(hand_of(person))
        person.script("document.querySelector('#fit').click()")
        person.picture(folder / f"{hand_of.__name__}-light.png", "light")
        person.picture(folder / f"{hand_of.__name__}-dark.png", "dark")
        unnamed = [role for role, name in person.names() if role in NAMED and not name]
        assert not unnamed, unnamed
    return file


def results(file, folder):
    """What our engine and the reference make of a document."""
    install = ["npm", "install", "--prefix", folder, "--no-audit", "--no-fund", "--ignore-scripts", REFERENCE]
    subprocess.run([*map(str, install)], check=True, capture_output=True)
    program = folder / "node_modules" / "mcpgraph" / "dist" / "main.js"
    given = [{"n": number} for number in (0, 3, 5, 6, 40)]
    with McpGraphApi(file) as api:
        ours = [api.execute_tool("order", one).result for one in given]
    with MCPClient(stdio=StdioServer("reference", ["node", str(program), "-g", str(file)])) as client:
        theirs = [client.call_tool("order", one).structured_content for one in given]
    return ours, theirs


def press(person, text):
    found = button(text, "document.querySelector('[role=tabpanel]:not([hidden])')")
    person.wait_for(f"{found} && !{found}.disabled")
    person.click(found)


def state(text):
    return f"document.querySelector('.state').textContent.includes({json.dumps(text)})"


def debugged(file, folder):
    """Breakpoint, step, back in time, values while one writes, pinned results, and a run from the middle."""
    with studio(file) as url, person_at(url) as person:
        hand = Mouse(person)
        hand.go("c2")
        person.key("b")
        person.wait_for(f"{node('c2')}.getAttribute('aria-label').includes('breakpoint')")
        person.click("document.querySelector('#tab-run')")
        person.click(control("n: number"))
        person.write("6")
        press(person, "Run")
        person.wait_for(state("waits before c2"))
        press(person, "Next step")
        person.wait_for(state("waits before c3"))
        person.picture(folder / "paused.png")
        press(person, "Continue")
        person.wait_for("document.querySelector('#result')?.textContent.includes('124')")
        steps = "[...document.querySelectorAll('tr[data-step]')].map((row) => row.dataset.step)"
        assert person.script(steps) == [str(number) for number in range(19)]
        ran = "[...document.querySelectorAll('.node.ran')].length"
        assert person.script(ran) == 19
        person.tab_to("document.querySelector('[type=range]')")
        for _ in range(13):
            person.press("ArrowLeft", 37)
        person.wait_for(f"{ran} === 6")
        assert person.script("document.querySelectorAll('.way.taken').length") == 5
        person.wait_for(f"{control('Try an expression here')}")
        person.click(control("Try an expression here"))
        person.write("$.double.v + ask.received.n")
        person.tab()
        person.wait_for("document.querySelector('#tried').textContent === '18'")
        person.picture(folder / "back.png")
        press(person, "Run from here")
        person.wait_for(f"{state('waits before c2')}")
        press(person, "Continue")
        person.wait_for(f"{state('finished')}")
        rows = "[...document.querySelectorAll('tr[data-step]')]"
        pinned = f"{rows}.filter((row) => row.innerText.includes('pinned')).length"
        assert person.script(pinned) == 5
        person.click("document.querySelector('#tab-settings')")
        hand.go("c5")
        person.wait_for("document.querySelector('.preview').textContent.includes('116')")
        person.click(control("Expression"))
        person.write("$.c4.v * 2")
        person.wait_for("document.querySelector('.preview').textContent === '230'")
        with person.changing():
            hand.leave()
        with person.changing():
            person.click("document.querySelector('#undo')")
        assert person.script(YAML) == file.read_text(encoding="utf-8")


def attacked(folder):
    """Texts of documents and servers that would run if they could."""
    file = folder / "hostile.yaml"
    evil = EVIL.replace("'", "")
    nodes = (
        f"{{id: '{evil}', type: entry, next: x}}",
        f"{{id: x, type: transform, transform: {{expr: \"$error('{evil}')\"}}, next: '{evil}2'}}",
        f"{{id: '{evil}2', type: exit}}",
    )
    file.write_text(
        graphs.one_tool(*nodes).replace("description: d", f"description: '{evil}'"), encoding="utf-8"
    )
    with studio(file) as url, person_at(url) as person:
        person.click(node("x"))
        person.click("document.querySelector('#tab-run')")
        press(person, "Run")
        person.wait_for("document.querySelector('#run-error')?.textContent.includes('<script>')")
        person.picture(folder / "hostile.png")
        assert person.script("document.querySelectorAll('script, img').length") == 1  # our own


def large(folder):
    """200 nodes: drawn, gone through, and changed; prints what that costs the page's thread."""
    file = folder / "large.yaml"
    nodes = ["{id: entry, type: entry, next: n0}"]
    for number in range(198):
        target = f"n{number + 1}" if number < 197 else "exit"
        nodes.append(graphs.transform(f"{{'v': {number}}}", node=f"n{number}", following=target))
    file.write_text(graphs.one_tool(*nodes, "{id: exit, type: exit}"), encoding="utf-8")
    with studio(file) as url, person_at(url) as person:
        assert person.script("document.querySelectorAll('.node').length") == 200
        person.do("Performance.enable", timeDomain="threadTicks")
        person.click(node("n0"))
        begin = busy(person)
        for number in range(1, 60):
            person.press("ArrowDown", 40)
            assert person.script(f"document.activeElement === {node(f'n{number}')}")
        moves = (busy(person) - begin) / 59
        begin = busy(person)
        with person.changing():
            person.press("Delete", 46)
        change = busy(person) - begin
        person.picture(folder / "large.png")
    print(f"200 nodes: {moves:.0f} ms of the page's thread from node to node, {change:.0f} ms for a change")


def busy(person):
    """Milliseconds of processor time that the page's thread has worked."""
    metrics = person.do("Performance.getMetrics")["metrics"]
    return next(one["value"] for one in metrics if one["name"] == "TaskDuration") * 1000


def mended(folder):
    """A text that cannot be read at first is corrected on the page."""
    file = folder / "broken.yaml"
    file.write_text("tools: [\n", encoding="utf-8")
    with studio(file) as url, person_at(url, shows="#problems li") as person:
        assert "not valid YAML" in person.script("document.querySelector('#problems').innerText")
        assert person.script("document.querySelector('#add').disabled")
        person.click("document.querySelector('#tab-text')")
        person.click("document.querySelector('#yaml')")
        person.write(START)
        person.wait_for(node("entry"))
        person.write(START.replace("next: exit", "next: exi"))
        person.wait_for(f"{node('entry')}?.classList.contains('wrong')")
        person.click(node("entry"))
        person.click("document.querySelector('#tab-settings')")
        person.wait_for(f"{control('Way: next')}.closest('.field').querySelector('.problem.error')")
        person.picture(folder / "wrong.png")
        hand = Keys(person)
        hand.go("entry")
        person.press("?", 191, "?")
        person.wait_for(f"{DIALOG}.open && {DIALOG}.innerText.includes('Delete')")
        person.press("Escape", 27)
        person.click("document.querySelector('#problems li button')")
        assert person.script("document.activeElement.id") == "yaml"
        start = "document.activeElement.selectionStart"
        assert person.script(f"{YAML}.slice(0, {start}).split('\\n').length") == 12


def formed(folder):
    """A tool and a server come by forms, and get other values and another name there."""
    file = folder / "formed.yaml"
    file.write_text(START, encoding="utf-8")
    with studio(file) as url, person_at(url) as person:
        with person.changing():
            person.click("document.querySelector('#add-tool')")
            person.write("more")
            person.enter()
        person.wait_for("document.querySelector('#tool').value === 'more'")
        with person.changing():
            person.click(button("Add server"))
            person.write("desk")
            person.tab()
            person.tab()
            person.write("serve --quick")
            person.enter()
        with person.changing():
            arguments = "[...document.querySelectorAll('fieldset')].at(-1).querySelector('textarea')"
            person.wait_for(f"{arguments}.value === '--quick'")
            person.click(arguments)
            person.write("--slow\ntwo words")
            person.tab()
        with person.changing():
            person.click(control("Name"))
            person.write("further")
            person.tab()
        person.wait_for("document.querySelector('#tool').value === 'further'")
        for scheme in ("light", "dark"):
            person.picture(folder / f"forms-{scheme}.png", scheme)
        person.press("s", 83, held=2)
        person.wait_for("document.querySelector('#status').textContent === 'Saved'")
    data = read_yaml(file.read_text(encoding="utf-8"), "formed").data
    assert [one["name"] for one in data["tools"]][-1] == "further"
    assert data["mcpServers"]["desk"] == {"command": "serve", "args": ["--slow", "two words"]}


def changed_outside(folder):
    """What somebody else wrote is taken over, and compared where there is something of one's own."""
    file = folder / "outside.yaml"
    file.write_text(START, encoding="utf-8")
    with studio(file) as url, person_at(url) as person:
        with person.changing():
            file.write_text(START.replace("begins", "starts"), encoding="utf-8")
        person.click("document.querySelector('#tab-text')")
        person.click("document.querySelector('#yaml')")
        person.press("Home", 36, held=2)
        for letter in "# mine, in some time\n":
            person.do("Input.insertText", text=letter)
            time.sleep(0.1)  # so that some of it is sent while more is typed
        person.wait_for("document.querySelector('#status').textContent === 'Not saved yet'")
        assert person.script(YAML).startswith("# mine, in some time\n")
        assert person.script("document.querySelector('#tab-compare').hidden")
        theirs = START.replace("begins", "is theirs")
        file.write_text(theirs, encoding="utf-8")
        person.wait_for("!document.querySelector('#compare').hidden")
        person.picture(folder / "compare.png")
        assert "is theirs" in person.script("document.querySelector('#compare').innerText")
        assert file.read_text(encoding="utf-8") == theirs
        press(person, "Keep mine, and save it")
        person.wait_for("document.querySelector('#status').textContent === 'Saved'")
        assert file.read_text(encoding="utf-8").startswith("# mine, in some time\n")


def main(folder):
    folder.mkdir(parents=True, exist_ok=True)
    files = [built(hand, folder) for hand in (Mouse, Keys)]
    texts = [file.read_text(encoding="utf-8") for file in files]
    assert texts[0] == texts[1]
    assert len(read_yaml(texts[0], "built").data["tools"][0]["nodes"]) == 20
    kept = [line for line in START.splitlines() if "next: exit" not in line]
    assert [line for line in texts[0].splitlines() if line in kept] == kept
    ours, theirs = results(files[0], folder)
    assert ours == theirs, (ours, theirs)
    debugged(files[0], folder)
    attacked(folder)
    mended(folder)
    formed(folder)
    large(folder)
    changed_outside(folder)
    print(f"20 nodes by mouse and by keys, equal; we and {REFERENCE} give {[one['v'] for one in ours]}")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else tempfile.mkdtemp(prefix="studio-pictures-")))
