"""The language server of graph documents, by an editor's own messages over standard input and output."""

import json
import subprocess

import pytest

from tests.graph.graphs import ENTRY, EXIT, call, tool, transform, yaml
from tests.graph.live import COMMAND, DEADLINE
from tests.support import commands

SCHEMA = (
    "{type: object, properties: {city: {type: string}, rows: {type: array, items: {properties: {id: {}}}}}}"
)
INNER = tool(
    "{id: entry, type: entry, next: exit}",
    EXIT,
    name="inner",
    schema="{type: object, required: [n], properties: {n: {type: integer, description: How many}},"
    " allOf: [{properties: {m: {type: string}}}]}",
    output="{type: object, properties: {sum: {type: number}}}",
)
TEXT = yaml(
    tool(
        ENTRY,
        transform("{'ö': '😀', 'a': entry.ctiy}", following="y"),
        "{id: y, type: tool, tool: inner, args: {n: 3}, next: exit}",
        EXIT,
        schema=SCHEMA,
    ),
    INNER,
    servers="",
)


class Editor:
    """A client of the Language Server Protocol."""

    def __init__(self, *options):
        self._process = commands.Popen(
            [*COMMAND, "graph", "lsp", *options], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        self._number = 0
        self.diagnostics = {}

    def ask(self, method, **parameters):
        self._number += 1
        self._send({"id": self._number, "method": method, "params": parameters})
        while (message := self._next()).get("id") != self._number:
            self._note(message)
        assert "error" not in message, message["error"]
        return message["result"]

    def tell(self, method, **parameters):
        self._send({"method": method, "params": parameters})

    def problems(self, uri):
        """The next diagnostics of a document."""
        self.diagnostics.pop(uri, None)
        while uri not in self.diagnostics:
            self._note(self._next())
        return self.diagnostics[uri]

    def end(self):
        self.ask("shutdown")
        self.tell("exit")
        self._process.stdin.close()
        try:
            assert self._process.wait(DEADLINE) == 0
        finally:
            self._process.kill()
            self._process.stdout.close()

    def _note(self, message):
        if message.get("method") == "textDocument/publishDiagnostics":
            self.diagnostics[message["params"]["uri"]] = message["params"]["diagnostics"]

    def _send(self, message):
        body = json.dumps({"jsonrpc": "2.0", **message}).encode()
        self._process.stdin.write(b"Content-Length: %d\r\n\r\n" % len(body) + body)
        self._process.stdin.flush()

    def _next(self):
        size = 0
        while line := self._process.stdout.readline().strip():
            name, _, value = line.partition(b":")
            size = int(value) if name.lower() == b"content-length" else size
        assert size, "the server has ended"
        return json.loads(self._process.stdout.read(size))


@pytest.fixture(scope="module")
def editor():
    editor = Editor()
    told = editor.ask("initialize", processId=None, rootUri=None, capabilities={})["capabilities"]
    assert told["hoverProvider"]
    assert told["completionProvider"]["triggerCharacters"][0] == "."
    editor.tell("initialized")
    yield editor
    editor.end()


@pytest.fixture
def opened(editor, tmp_path):
    """Opens a text; gives its address, and what is wrong with it at first."""

    def opened(text):
        uri = (tmp_path / "graph.yaml").as_uri()
        item = {"uri": uri, "languageId": "yaml", "version": 1, "text": text}
        editor.tell("textDocument/didOpen", textDocument=item)
        return uri, editor.problems(uri)

    yield opened
    uri = (tmp_path / "graph.yaml").as_uri()
    editor.tell("textDocument/didClose", textDocument={"uri": uri})
    assert editor.problems(uri) == []


def at(text, words):
    """The place after some words, as an editor counts: in UTF-16."""
    before = text[: text.index(words) + len(words)]
    line = before.rpartition("\n")[2]
    return {"line": before.count("\n"), "character": len(line.encode("utf-16-le")) // 2}


def test_problems_are_told_as_the_text_changes(editor, opened):
    uri, (problem,) = opened(TEXT)
    assert problem["message"] == (
        """Node "x": the inputSchema has no argument 'ctiy'. Did you mean 'city'?"""
    )
    assert problem["range"] == {"start": at(TEXT, "entry."), "end": at(TEXT, "entry.ctiy")}
    assert (problem["severity"], problem["source"]) == (2, "knime-mcp")
    change = {"range": {"start": at(TEXT, "entry."), "end": at(TEXT, "entry.ctiy")}, "text": "city"}
    document = {"uri": uri, "version": 2}
    editor.tell("textDocument/didChange", textDocument=document, contentChanges=[change])
    assert editor.problems(uri) == []
    editor.tell("textDocument/didChange", textDocument=document, contentChanges=[{"text": "tools: ["}])
    (problem,) = editor.problems(uri)
    assert problem["severity"] == 1


def test_what_may_stand_there_is_offered(subtests, editor, opened):
    for instead, written, offered in [
        ("entry.ctiy", "entry.", {"city", "rows"}),
        ("entry.ctiy", "entry.rows.", {"id"}),
        ("entry.ctiy", "entry.rows[0].", {"id"}),
        ("entry.ctiy", "y.", {"sum"}),
        ("entry.ctiy", "en", {"entry", "x", "y", "exit"}),
        ("entry.ctiy", "$su", {"$sum", "$substring", "$nodeExecution"}),
        ("type: tool", "type: ", {"entry", "exit", "transform", "mcp", "switch"}),
        ("tool: inner", "tool: ", {"t", "inner"}),
        ("args: {n: 3}", "args: {", {"n", "m"}),
        ("next: y", "next: ", {"entry", "x", "y", "exit"}),
    ]:
        with subtests.test(instead=instead, written=written, offered=offered):
            uri, _ = opened(TEXT)
            text = TEXT.replace(instead, written, 1)
            document = {"uri": uri, "version": 2}
            editor.tell("textDocument/didChange", textDocument=document, contentChanges=[{"text": text}])
            place = at(text, TEXT[: TEXT.index(instead)] + written)
            found = editor.ask("textDocument/completion", textDocument={"uri": uri}, position=place)
            labels = {item["label"] for item in found["items"]}
            assert offered <= labels
            assert labels == offered or len(offered) > 2


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("next: y", "**y**: tool node; its output is object with sum"),
        ("entry", "**entry**: entry node; its output is object with city, rows"),
    ],
)
def test_what_is_known_is_told(editor, opened, words, told):
    uri, _ = opened(TEXT)
    found = editor.ask("textDocument/hover", textDocument={"uri": uri}, position=at(TEXT, words))
    assert found["contents"]["value"] == told


def test_servers_are_asked_for_their_tools(tmp_path):
    """With ``--online``: their outputs and arguments are known then."""
    nodes = (call("measure", "{}", following="y"), transform("{'b': x.size.heigth}", node="y"))
    text = yaml(tool(ENTRY, *nodes, EXIT))
    uri = (tmp_path / "graph.yaml").as_uri()
    editor = Editor("--online")
    editor.ask("initialize", processId=None, rootUri=None, capabilities={})
    item = {"uri": uri, "languageId": "yaml", "version": 1, "text": text}
    editor.tell("textDocument/didOpen", textDocument=item)
    assert editor.problems(uri) == []
    (problem,) = editor.problems(uri)
    assert problem["message"].endswith("Did you mean 'height'?")
    place = at(text, "tool: ")
    found = editor.ask("textDocument/completion", textDocument={"uri": uri}, position=place)
    assert {"measure"} <= {item["label"] for item in found["items"]}
    editor.end()
