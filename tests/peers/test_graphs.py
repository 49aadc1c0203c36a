"""One graph over servers that others wrote, and our own: all as programs, in one run."""

import json

import pytest

from knime_mcp.client.transports.stdio_server import StdioServer
from knime_mcp.tools import MCPClient
from tests.graph.live import PROGRAM, REVISIONS, SERVE, client_of, command, run
from tests.graph.recorded import compare, filled, recorded
from tests.peers import build_peers
from tests.support import commands
from tests.support.peers import needs

pytestmark = pytest.mark.peer

DOCUMENT = """
version: "1.0"
server: {{name: three, version: "1"}}
mcpServers:
  everything: {everything}
  files: {files}
  nodes: {nodes}
tools:
  - name: note_down
    description: Finds a node that does what is asked for, notes it down in a file, and reads the file again.
    inputSchema: {{type: object, properties: {{wanted: {{type: string}}}}, required: [wanted]}}
    outputSchema: {{type: object, properties: {{noted: {{type: string}}}}, required: [noted, sum, answers]}}
    nodes:
      - {{id: entry, type: entry, next: find}}
      - id: find
        type: mcp
        server: nodes
        tool: search_nodes
        args: {{query: {{expr: entry.wanted}}, max_results: 3}}
        next: name
      - {{id: name, type: transform, transform: {{expr: "{{'name': find.nodes[0].name}}"}}, next: at_once}}
      - {{id: at_once, type: parallel, branches: [echo, add, weather], next: write}}
      - id: echo
        type: mcp
        server: everything
        tool: echo
        args: {{message: {{expr: name.name}}}}
        next: write
      - id: add
        type: mcp
        server: everything
        tool: get-sum
        args: {{a: {{expr: $length(name.name)}}, b: 40}}
        next: write
      - id: weather
        type: mcp
        server: everything
        tool: get-structured-content
        args: {{location: Chicago}}
        next: write
      - id: write
        type: mcp
        server: files
        tool: write_file
        args: {{path: {path}, content: {{expr: "at_once.echo & '\\n'"}}}}
        next: read
      - {{id: read, type: mcp, server: files, tool: read_text_file, args: {{path: {path}}}, next: answer}}
      - id: answer
        type: transform
        transform:
          expr: |
            {{ "noted": $trim(read.content), "sum": at_once.add, "weather": at_once.weather.conditions,
               "answers": $count($nodeExecutions("read")) }}
        next: exit
      - {{id: exit, type: exit}}
"""


def node_server(package, *arguments):
    """How a document names a server of npm."""
    needs("node")
    program = build_peers.node_package(f"@modelcontextprotocol/{package}") / "dist" / "index.js"
    return program_of(build_peers.node(), program, *arguments)


def program_of(program, *arguments):
    return json.dumps({"command": str(program), "args": [str(argument) for argument in arguments]})


@pytest.fixture
def document(tmp_path):
    folder = tmp_path / "files"
    folder.mkdir()
    file = tmp_path / "graph.yaml"
    file.write_text(
        DOCUMENT.format(
            everything=node_server("server-everything", "stdio"),
            files=node_server("server-filesystem", folder),
            nodes=program_of(*commands.words_of("knime-nodes", "serve")),
            path=json.dumps(str(folder / "note.txt")),
        ),
        "utf-8",
    )
    return file


@pytest.mark.requirement("G4", "G17")
@pytest.mark.parametrize("revision", REVISIONS)
def test_one_tool_uses_three_servers_in_a_run(document, tmp_path, revision):
    server = StdioServer(name="graph", command=(*SERVE, str(document)))
    with MCPClient(stdio=server, protocol_version=revision) as client:
        assert [tool.name for tool in client.list_tools()] == ["note_down"]
        for wanted, noted in (("VLOOKUP", "Value Lookup"), ("keep some rows only", "Row Filter")):
            result = client.call_tool("note_down", {"wanted": wanted}, timeout=100)
            assert not result.is_error, result.text
            assert result.structured_content == {
                "noted": f"Echo: {noted}",
                "sum": f"The sum of {len(noted)} and 40 is {len(noted) + 40}.",
                "weather": "Light rain / drizzle",
                "answers": 1,
            }
            assert (tmp_path / "files" / "note.txt").read_text("utf-8") == f"Echo: {noted}\n"


def test_the_check_asks_them_for_their_tools(document):
    checked = command("check", document, "--online")
    assert checked.returncode == 0, checked.stdout + checked.stderr
    document.write_text(document.read_text("utf-8").replace("tool: get-sum", "tool: get-some"), "utf-8")
    checked = command("check", document, "--online")
    assert checked.returncode == 1
    assert "get-some" in checked.stdout + checked.stderr


@pytest.mark.requirement("G18")
@pytest.mark.parametrize(("case", "dialect", "said"), list(recorded(lambda case: case.get("requires"))))
def test_recorded_cases_with_servers_of_others(case, dialect, said, tmp_path):
    """Among them the source's example, count_files."""
    needs("node")
    programs = {
        f"{name.upper()}_SERVER": build_peers.node_package(f"@modelcontextprotocol/server-{name}")
        / "dist"
        / "index.js"
        for name in ("filesystem", "everything")
    }
    text = json.dumps(said).replace("command: node\\n", f"command: {build_peers.node()}\\n")
    said = json.loads(filled(text, tmp_path, **programs))
    for name, content in case.get("files", {}).items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(content, "utf-8")
    (tmp_path / "graph.yaml").write_text(said["yaml"], "utf-8")
    assert said["calls"]

    async def calls():
        async with client_of([*PROGRAM, "--dialect", dialect, "-g", tmp_path / "graph.yaml"]) as client:
            for asked in said["calls"]:
                await compare(client, asked)

    run(calls())
