"""Values of the environment in graphs: plain ones change nothing, what was taken from ours is hidden."""

import asyncio
import json
import os
import random
from urllib.parse import quote, unquote

import pytest

from knime_mcp.audit.journal_reading import read_journal
from knime_mcp.cli.files import recorded_run
from knime_mcp.types.secret_rules import stands_out
from knime_mcp.web.tool_server import RequestedCall
from knime_mcp_graph import McpGraphApi
from knime_mcp_graph.document_loading import check_text
from knime_mcp_graph.graph_service import HISTORY_KEY, GraphService
from tests.graph.graphs import ENTRY, EXIT, SERVER, call, tool, transform, yaml
from tests.graph.live import PROGRAM, graph_file, served
from tests.graph.test_observing import collector
from tests.support import commands
from tests.support.canaries import (
    ARGUMENTS,
    canary,
    debugging_server,
    files_below,
    found,
    login_with,
    processes,
)
from tests.support.scripted_server import ScriptedServer, http, modern
from tests.support.short_secrets import rows_of_values

GRAPH = commands.words_of("mcpgraph")
STRONG = "c4n4ry-5ecret-v4lue"


def run(tmp_path, env, *nodes, words=(), environ=None, **options):
    file = tmp_path / "graph.yaml"
    servers = SERVER.replace("]}", f"], env: {env}}}")
    file.write_text(yaml(tool(ENTRY, *nodes, EXIT, **options), servers=servers))
    return commands.run(
        [*GRAPH, "run", "graph.yaml", "t", *words, "--save-run", "run.json", "--audit", "a.jsonl", "--trace"],
        capture_output=True, text=True, timeout=60, check=False, cwd=tmp_path,
        env={**os.environ, **(environ or {})},
    )  # fmt: skip


def recorded(folder):
    """The calls in the journal."""
    lines = map(json.loads, (folder / "a.jsonl").read_text().splitlines())
    return [line for line in lines if line["kind"] == "call"]


def test_plain_values_change_no_id_type_key_or_argument(tmp_path):
    env = "{LOG_LEVEL: error, MODE: transform, KIND: list, NODE_ENV: text}"
    ended = run(tmp_path, env, call("echo", "{text: {list: [error, text]}}", node="x"))
    assert ended.returncode == 0, ended.stderr
    assert json.loads(ended.stdout) == {"received": {"text": {"list": ["error", "text"]}}}
    saved = json.loads((tmp_path / "run.json").read_text())
    assert [step["nodeId"] for step in saved["executionHistory"]] == ["entry", "x", "exit"]
    (record,) = recorded(tmp_path)
    assert json.loads(record["arguments"]) == {"text": {"list": ["error", "text"]}}
    assert "secret" not in ended.stderr + json.dumps(saved)


def test_a_failed_run_is_saved_as_failed(tmp_path):
    ended = run(tmp_path, "{LOG_LEVEL: error, MODE: transform}", transform("$error('bad')"))
    assert ended.returncode == 1
    step = json.loads((tmp_path / "run.json").read_text())["executionHistory"][-1]
    assert (step["nodeId"], step["nodeType"]) == ("x", "transform")
    assert "bad" in step["error"]["message"]


def test_what_was_taken_from_our_environment_is_hidden(tmp_path):
    ended = run(
        tmp_path,
        "{SETTING: '${MINE}'}",
        call(
            "echo",
            "{v: {expr: entry.v}, password: {expr: entry.password}, code: {expr: entry.code}}",
            node="x",
        ),
        words=(f"v=I am {STRONG}", "password=pw-one", "code=my-c0de", "--secret-argument", "code"),
        environ={"MINE": STRONG},
    )
    assert ended.returncode == 0, ended.stderr
    left = ended.stderr + (tmp_path / "run.json").read_text() + (tmp_path / "a.jsonl").read_text()
    assert STRONG not in left + ended.stdout
    assert "pw-one" not in (tmp_path / "run.json").read_text() + ended.stderr
    assert "my-c0de" not in (tmp_path / "run.json").read_text() + ended.stderr
    assert "I am ⟨secret " in ended.stdout
    assert "held a secret" in ended.stderr


def test_our_own_sentences_stay_with_a_token_that_is_one_of_their_words(tmp_path):
    refused = http(401, "wrong token", headers={"WWW-Authenticate": "Bearer"})
    with ScriptedServer(modern(tools__call=refused)) as server:
        servers = (
            f"mcpServers:\n  fx: {{type: streamableHttp, url: '{server.url}',"
            " headers: {Authorization: 'Bearer ${MINE}'}}\n"
        )
        file = tmp_path / "graph.yaml"
        file.write_text(yaml(tool(ENTRY, call("echo", "{}", node="x"), EXIT), servers=servers))
        ended = commands.run(
            [*GRAPH, "run", "graph.yaml", "t"],
            capture_output=True, text=True, timeout=60, check=False, cwd=tmp_path,
            env={**os.environ, "MINE": "token"},
        )  # fmt: skip
    assert ended.returncode == 1
    assert "its token may be wrong" in " ".join(ended.stderr.split())


DECLARED = "{type: object, properties: {door: {type: string, format: password}}}"


@pytest.mark.parametrize("secret", [STRONG, "weak"])
def test_what_the_schema_of_the_document_declares_is_hidden(tmp_path, secret):
    node = call("echo", "{v: {expr: entry.door}}", node="x")
    ended = run(tmp_path, "{}", node, words=(f"door={secret}",), schema=DECLARED)
    assert ended.returncode == 0, ended.stderr
    saved = json.loads((tmp_path / "run.json").read_text())
    assert saved["arguments"]["door"] == saved["executionHistory"][0]["output"]["door"]
    assert saved["arguments"]["door"].startswith("⟨secret ")
    journal = (tmp_path / "a.jsonl").read_text()
    if secret == STRONG:  # wherever it stands; `weak` may be a word of somebody else's
        assert STRONG not in ended.stdout + ended.stderr + json.dumps(saved) + journal
        assert "held a secret in 2 places" in ended.stderr or "held a secret in one place" in ended.stderr


def test_what_a_document_passes_to_a_tool_of_its_own_is_hidden_as_its_schema_says(tmp_path):
    inner = tool(ENTRY, transform("{'r': 1}"), EXIT, name="inner", schema=DECLARED)
    node = "{id: x, type: tool, tool: inner, args: {door: {expr: entry.v}}, next: exit}"
    file = tmp_path / "graph.yaml"
    file.write_text(yaml(tool(ENTRY, node, EXIT), inner))
    ended = commands.run(
        [*GRAPH, "run", "graph.yaml", "t", "v=weak", "--save-run", "run.json"],
        capture_output=True, text=True, timeout=60, check=True, cwd=tmp_path,
    )  # fmt: skip
    saved = json.loads((tmp_path / "run.json").read_text())["executionHistory"]
    doors = [step[place]["door"] for step, place in ((saved[1], "input"), (saved[2], "output"))]
    assert [door[:8] for door in doors] == ["⟨secret "] * 2, ended.stderr


def test_blocks_that_the_output_lacks_are_hidden_as_well(tmp_path):
    blocks = f"{{content: [{{type: text, text: a}}, {{type: text, text: {STRONG}}}]}}"
    nodes = call("blocks", blocks, node="x", following="y"), transform("{'r': 1}", node="y")
    ended = run(tmp_path, "{S: '${MINE}'}", *nodes, environ={"MINE": STRONG})
    assert ended.returncode == 0, ended.stderr
    saved = (tmp_path / "run.json").read_text()
    assert '"content"' in saved
    assert STRONG not in saved + ended.stderr


@pytest.mark.parametrize("argv", [[*GRAPH, "serve", "graph.yaml"], [*PROGRAM, "-g", "graph.yaml"]])
def test_named_arguments_of_a_server(tmp_path, argv):
    graph_file(tmp_path, call("echo", "{code: {expr: entry.code}}", node="x"))
    audit = ["--audit", "a.jsonl"] if "serve" in argv else []
    with served(*argv, "--secret-argument", "code", *audit, folder=tmp_path) as server:
        server.greet()
        answer = server.ask(
            "tools/call", name="t", arguments={"code": "weak"}, _meta={"knime-mcp/history": True}
        )
        server.end()
    result = answer["result"]
    assert result["structuredContent"] == {"received": {"code": "weak"}}
    history = result["_meta"]["knime-mcp/history"]
    assert history[0]["output"]["code"] == history[1]["input"]["code"] != "weak"
    if audit:
        assert [json.loads(record["arguments"])["code"] != "weak" for record in recorded(tmp_path)] == [True]


KINDS = {name: canary(name) for name in ("token", "more", "url", "variable", *ARGUMENTS)}


def documented(folder, url):
    """A document with a server over HTTP and one that is a command, and secrets from the environment."""
    headers = "{Authorization: 'Bearer ${TOKEN}', X-More: 'a ${MORE}'}"
    far = f"  far: {{type: streamableHttp, url: '{url}?q=${{KEY}}', headers: {headers}}}\n"
    schema = "{type: object, properties: {door: {type: string, format: password}}}"
    given = ", ".join(f"{name}: {{expr: entry.{name}}}" for name in ("password", "door", "code", "settings"))
    login = f"{{id: x, type: mcp, server: far, tool: login, args: {{{given}}}, onError: y, next: y}}"
    refused = (
        f"{{id: y, type: mcp, server: far, tool: login, args: {{fail: true, {given}}}, onError: z, next: z}}"
    )
    near = call("echo", "{v: {expr: x.said}}", node="z")
    servers = SERVER.replace("]}", "], env: {SETTING: '${VARIABLE}'}}") + far
    file = folder / "graph.yaml"
    file.write_text(yaml(tool(ENTRY, login, refused, near, EXIT, schema=schema), servers=servers))
    return file


def test_every_kind_in_every_spelling_is_in_no_artefact(tmp_path):
    given, folder = json.dumps(login_with(KINDS)), tmp_path / "left"
    folder.mkdir()
    (tmp_path / "given.json").write_text(given)
    running, script = [], debugging_server(KINDS.values())

    def answer(request):
        running.append(processes())
        return script["tools/call"](request)

    secrets = {name.upper(): KINDS[name] for name in ("token", "more", "variable")}
    secrets["KEY"] = quote(KINDS["url"], safe="")
    with ScriptedServer(script | {"tools/call": answer}) as server, collector() as (where, spans):
        file = documented(tmp_path, server.url)
        environ = os.environ | secrets | {"OTEL_EXPORTER_OTLP_ENDPOINT": where}
        options = ("--secret-argument", "code", "--audit")
        saved = ("a.jsonl", "--save-run", "run.json", "--trace")
        ended = commands.run(
            [*GRAPH, "run", str(file), "t", "@../given.json", *options, *saved],
            cwd=folder, env=environ, capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip
        assert ended.returncode == 0, ended.stderr
        page = [*GRAPH, "show", str(file), "--run", "run.json", "--html", "run.html"]
        commands.run(page, cwd=folder, env=environ, capture_output=True, timeout=60, check=True)
        argv = [*GRAPH, "serve", str(file), *options, "b.jsonl", "--log-level", "debug"]
        with served(*argv, folder=folder, OTEL_EXPORTER_OTLP_ENDPOINT=where, **secrets) as graph:
            graph.greet()
            meta = {"knime-mcp/history": True, "progressToken": 1}
            graph.send("tools/call", name="t", arguments=json.loads(given), _meta=meta)
            answers = [graph.process.stdout.readline()]
            while '"result"' not in answers[-1]:
                answers.append(graph.process.stdout.readline())
            graph.end()
        sent_spans = str(spans())
    assert "graph.node.id" in sent_spans
    assert len(running) == 4
    assert KINDS["url"] in unquote(server.requests[-1].target)
    left = files_below(folder)
    assert set(left) == {"a.jsonl", "b.jsonl", "run.json", "run.html"}
    left |= {"run": ended.stdout + ended.stderr, "served": "".join(answers), "log": "".join(graph.said)}
    left |= {"spans": sent_spans, "running": "".join(running)}
    shown = {name: found(KINDS, content) for name, content in left.items()}
    assert {name: what for name, what in shown.items() if what} == {}


@pytest.mark.long
def test_ten_thousand_values_through_a_graph_with_short_credentials(tmp_path):
    chance = random.Random(25)
    nodes = ENTRY, call("echo", "{v: {expr: entry.v}}", node="x"), EXIT
    for password in ("test", "1234", "error", "a"):
        assert not stands_out(password)
        servers = SERVER.replace("]}", "], env: {SETTING: '${MINE}'}}")
        checked = check_text(yaml(tool(*nodes), servers=servers), environ={"MINE": password})
        file = tmp_path / f"{password}.jsonl"
        with (
            recorded_run(file, about="values") as recorded,
            McpGraphApi(checked.document, run=recorded) as api,
        ):
            assert password in api.secrets.known
            service = GraphService(api)
            for sent in rows_of_values(chance, 25, 100):
                asked = RequestedCall(
                    tool="t", arguments={"v": sent}, any_json=True, meta={HISTORY_KEY: True}
                )
                answer = asyncio.run(service.call(asked))
                assert answer["structuredContent"] == {"received": {"v": sent}}
                assert json.loads(answer["content"][0]["text"]) == answer["structuredContent"]
                assert answer["_meta"][HISTORY_KEY][1]["input"] == {"v": sent}
        records = read_journal(file).records
        assert len(records) == 25
        assert {record.secrets for record in records} == {None}
        assert json.loads(records[-1].arguments) == {"v": sent}
