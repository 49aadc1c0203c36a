"""Documents: both dialects and all layouts become one model; every mistake is found, with its place."""

import json
import os

import pytest

from knime_mcp.runs.server_configs import StdioConfig, UrlConfig
from knime_mcp.yaml_text import Severity
from knime_mcp_graph.document_loading import DocumentError, check_text, load_document
from knime_mcp_graph.graph_model import (
    Dialect,
    Expression,
    InvalidExpression,
)
from knime_mcp_graph.nodes import SwitchNode
from tests.graph.graphs import ENTRY, EXIT, HEAD, call, one_tool, texts, tool
from tests.graph.recorded import filled, recorded


def has_text(case):
    return case["id"] != "e14_missing_file"


@pytest.mark.requirement("G6", "G14", "G16")
def test_recorded_documents(subtests, tmp_path):
    """What the reference loads, loads; what it refuses, is refused with the same words."""
    mcp_file = tmp_path / "mcp.json"
    for case, dialect, said in recorded(has_text):
        text = filled(said["yaml"], tmp_path)
        if case.get("mcp_json"):
            mcp_file.write_text(json.dumps(case["mcp_json"]), "utf-8")
        is_refused = said.get("startup", {}).get("kind") == "startup_error" and case["kind"] != "quirk"
        for asked in (dialect, None):
            with subtests.test(case=case["id"], dialect=dialect, asked=asked):
                file = mcp_file if case.get("mcp_json") else None
                checked = check_text(text, dialect=asked, mcp_file=file, environ={})
                if is_refused:
                    errors = "\n".join(texts(checked))
                    assert all(words in errors for words in said["startup"]["must_contain"])
                assert (checked.document is None) == is_refused, texts(checked)
                if asked and checked.document:
                    assert checked.document.dialect == dialect


@pytest.mark.requirement("G12", "G13")
def test_the_model():
    text = """
version: "1.0"
server: {name: n, version: "2"}
executionLimits: {maxNodeExecutions: 7}
mcpServers: {s: {command: cmd, args: []}}
tools:
  - name: t
    description: d
    inputSchema: {type: object, properties: {a: {enum: [1, 2]}}, additionalProperties: false}
    outputSchema: {type: object}
    nodes:
      - {id: entry, type: entry, next: sw}
      - {id: sw, type: switch, conditions: [{rule: {"==": [1, 1]}, next: m}], next: exit}
      - id: m
        type: mcp
        server: s
        tool: remote
        args: {a: {expr: entry.a}, deep: [{b: {expr: "1"}}, "$5.00"], bad: {expr: 5}}
        retry: {attempts: 4, delay: 200ms}
        timeout: 1m
        cache: true
        onError: exit
        next: exit
      - {id: exit, type: exit}
"""
    found = check_text(text).document
    assert found is not None
    assert (found.server.title, found.server.instructions, found.dialect) == ("n", None, Dialect.NEXT)
    assert (found.limits.max_node_executions, found.limits.max_execution_time_ms) == (7, 300_000)
    (tool,) = found.tools
    assert tool.input_schema["additionalProperties"] is False
    assert [node.id for node in tool.nodes] == ["entry", "sw", "m", "exit"]
    assert (tool.entry.next, tool.exit.id) == ("sw", "exit")
    switch, call = tool.by_id["sw"], tool.by_id["m"]
    assert isinstance(switch, SwitchNode)
    assert (switch.conditions[0].next, switch.next) == ("m", "exit")
    assert call.args["a"] == Expression(text="entry.a")
    assert call.args["deep"] == [{"b": Expression(text="1")}, "$5.00"]
    assert isinstance(call.args["bad"], InvalidExpression)
    assert "must be a string, got number" in call.args["bad"].message
    assert (call.retry.attempts, call.retry.delay, call.timeout, call.cache.ttl) == (4, 0.2, 60, 300)
    assert call.position.line == 14


def test_the_dialect_target():
    text = one_tool(
        "{id: entry, type: entry, next: s}",
        "{id: s, type: switch, conditions: [{target: m}, {rule: {var: entry}, target: exit}]}",
        '{id: m, type: mcp, server: s, tool: r, args: {a: "$.entry.a", b: {c: "$x"}}, next: exit}',
        "{id: exit, type: exit}",
        more="mcpServers: {s: {command: python3, args: []}}\n",
    )
    checked = check_text(text)
    assert checked.dialect.dialect is Dialect.TARGET
    assert "the switch 's'" in checked.dialect.reason
    tool = checked.document.tools[0]
    assert tool.by_id["s"].conditions[0].rule is None
    assert tool.by_id["s"].next is None
    assert tool.by_id["m"].args == {"a": Expression(text="$.entry.a"), "b": {"c": "$x"}}
    assert any("never tried" in text for text in texts(checked, Severity.WARNING))
    wrong = texts(check_text(text, dialect="next"))
    assert any("'next' is missing" in text and "choose the dialect 'target'" in text for text in wrong)


def test_a_switch_that_leads_nowhere_is_of_the_dialect_target():
    text = one_tool(
        "{id: entry, type: entry, next: exit}",
        "{id: s, type: switch, conditions: []}",
        "{id: exit, type: exit}",
    )
    checked = check_text(text)
    assert (checked.dialect.dialect, checked.document is not None) == (Dialect.TARGET, True)


@pytest.mark.parametrize("argument", ["$.a", "$é", "$ ~> $keys()", "${'a': 1}", "$^(a)", "$ & 'x'", "$=1"])
def test_arguments_that_are_expressions_in_the_dialect_target(argument):
    text = one_tool(
        "{id: entry, type: entry, next: m}",
        f'{{id: m, type: mcp, server: s, tool: r, args: {{a: "{argument}"}}, next: exit}}',
        "{id: exit, type: exit}",
        more="mcpServers: {s: {command: python3, args: []}}\n",
    )
    assert check_text(text).document.tools[0].by_id["m"].args == {"a": Expression(text=argument)}


def test_money_is_no_expression():
    call = '{id: m, type: mcp, server: s, tool: r, args: {a: "$5.00"}, next: exit}'
    text = one_tool(
        "{id: entry, type: entry, next: m}",
        call,
        "{id: exit, type: exit}",
        more="mcpServers: {s: {command: python3, args: []}}\n",
    )
    assert check_text(text).document.tools[0].by_id["m"].args == {"a": "$5.00"}


@pytest.mark.requirement("G15")
def test_all_nodes_in_one_list():
    t, u = (tool(name=name).removesuffix("    nodes:\n") for name in "tu")
    text = f"""{HEAD}
mcpServers: {{s: {{command: python3, args: []}}}}
tools:
{t}{u}
nodes:
  - {{id: in_t, type: entry, tool: t, next: m}}
  - {{id: in_u, type: entry, tool: u, next: m2}}
  - {{id: m, type: mcp, server: s, tool: remote, args: {{}}, next: out}}
  - {{id: m2, type: transform, transform: {{expr: "1"}}, next: out_u}}
  - {{id: out, type: exit, tool: t}}
  - {{id: out_u, type: exit, tool: u}}
"""
    checked = check_text(text)
    assert texts(checked) == []
    t, u = checked.document.tools
    assert [node.id for node in t.nodes] == ["in_t", "m", "out"]
    assert [node.id for node in u.nodes] == ["in_u", "m2", "out_u"]
    assert t.by_id["m"].tool == "remote"
    (wrong,) = texts(check_text(text.replace("type: exit, tool: u", "type: exit, tool: uu")))[-1:]
    assert 'the tool "uu"' in wrong
    assert "'tool' is missing" in "".join(
        texts(check_text(text.replace("type: exit, tool: u", "type: exit")))
    )


def test_all_mistakes_at_once():
    text = """version: 1.0
server: {name: s}
executionLimits: {maxNodeExecutions: 0}
tools:
  - name: t
    description: d
    inputSchema: {properties: {}}
    outputSchema: {type: object}
    nodes:
      - {id: entry, type: entry, next: nowhere}
      - {id: x, type: transfrom, next: exit}
      - {id: y, type: transform, transform: {expr: "("}, next: exit}
      - {id: exit, type: exit}
      - {id: exit, type: exit, colour: red}
"""
    checked = check_text(text)
    assert checked.document is None
    expected = [
        ("f:1:1: error: 'version' must be text, not the number 1", "Put it in quotes"),
        ("f:2:1: error: 'version' is missing", "at server"),
        ("f:3:19: error: 'maxNodeExecutions' must be greater than 0", "executionLimits.maxNodeExecutions"),
        ("f:7:5: error: 'type' is missing in 'inputSchema'", "type: object"),
        ('f:10:34: error: Node "entry" in tool "t" references non-existent next node "nowhere"', "next"),
        ("f:11:17: error: unknown node type 'transfrom'", "Did you mean 'transform'?"),
        ('f:12:46: error: Node "y": Invalid JSONata syntax in transform expression', "transform.expr"),
        ('f:14:9: error: Tool "t" has multiple exit nodes: exit, exit', "nodes[4]"),
    ]
    errors = texts(checked)
    for begin, inside in expected:
        assert any(line.startswith(begin) and inside in line for line in errors), (begin, errors)
    assert len(errors) == len(expected)
    (warning,) = [text for text in texts(checked, Severity.WARNING) if "colour" in text]
    assert warning.startswith("f:14:32: warning: the key 'colour' is not known here")


def test_secrets_come_from_the_environment(tmp_path, caplog):
    text = """
mcpServers:
  a: {command: python3, args: ["--key=${KEY}", "$${KEY}"], env: {TOKEN: "${TOKEN}", X: "${NOPE:-x}"},
    cwd: sub}
  b: {type: streamableHttp, url: "https://h/${TOKEN}", headers: {Authorization: "Bearer ${TOKEN}"}}
  c: {type: sse, url: "https://h/sse", requestInit: {headers: {X-A: "1", x-b: "2"}}, headers: {X-B: "3"}}
"""
    file = tmp_path / "g.yaml"
    (tmp_path / "sub").mkdir()
    file.write_text(HEAD + text + "tools: []\n", "utf-8")
    with caplog.at_level("DEBUG"):
        found = load_document(file, environ={"KEY": "k1", "TOKEN": "canary"}, dialect=Dialect.NEXT)
    a, b, c = found.servers["a"], found.servers["b"], found.servers["c"]
    assert isinstance(a, StdioConfig)
    assert a.args == ("--key=k1", "${KEY}")
    assert a.env == {"TOKEN": "canary", "X": "x"}
    assert a.cwd == tmp_path / "sub"
    assert isinstance(b, UrlConfig)
    assert b.transport == "http"
    assert b.headers == {"Authorization": "Bearer canary"}
    assert isinstance(c, UrlConfig)
    assert c.transport == "sse"
    assert c.headers == {"X-A": "1", "X-B": "3"}
    assert "canary" not in repr(found) + caplog.text
    assert "dialect 'next'" in caplog.text
    with pytest.raises(DocumentError, match="the environment variable TOKEN is not set") as caught:
        load_document(file, environ={"KEY": "k1"})
    assert [problem.position.line for problem in caught.value.problems if "TOKEN" in problem.message] == [
        5,
        7,
        7,
    ]
    assert "k1" not in str(caught.value)


def test_mcp_json(tmp_path):
    text = one_tool(
        "{id: entry, type: entry, next: m}",
        "{id: m, type: mcp, server: extra, tool: r, args: {}, next: exit}",
        "{id: exit, type: exit}",
        more="mcpServers: {shared: {command: mine, args: []}}\n",
    )
    file = tmp_path / "mcp.json"
    file.write_text('{"mcpServers": {"shared": {"command": 5}, "extra": {"command": "e"}}}', "utf-8")
    found = check_text(text, mcp_file=file).document
    assert {name: config.command for name, config in found.servers.items()} == {
        "shared": "mine",
        "extra": "e",
    }
    assert found.servers["extra"].cwd == tmp_path
    file.write_text('{\n\t"mcpServers": {\n\t\t"extra": {"command": "why?"}\n\t}\n}\n', "utf-8")
    assert check_text(text, mcp_file=file).document.servers["extra"].command == "why?"
    file.write_text('{"mcpServers": {"extra": {"command": "\\ud83d\\ude00 \\\\ud83d\\\\ude00"}}}', "utf-8")
    assert check_text(text, mcp_file=file).document.servers["extra"].command == "\U0001f600 \\ud83d\\ude00"
    file.write_text('{"mcpServers": {"extra": {"comand": "e"}}', "utf-8")
    assert "mcp.json:1:42: error: this is not valid JSON" in "".join(texts(check_text(text, mcp_file=file)))
    file.write_text('{"mcpServers": {"extra": {"comand": "e"}}}', "utf-8")
    assert "'command' is missing" in "".join(texts(check_text(text, mcp_file=file)))
    missing = tmp_path / "none.json"
    assert f"MCP file not found: {missing}" in "".join(texts(check_text(text, mcp_file=missing)))


def test_servers_that_have_a_name_on_this_computer_are_known(tmp_path, monkeypatch):
    file = tmp_path / "servers.json"
    monkeypatch.setenv("KNIME_MCP_SERVERS", str(file))
    text = one_tool(ENTRY, call("echo"), EXIT)
    assert "non-existent server" in texts(check_text(text))[0]
    file.write_text(json.dumps({"mcpServers": {"fx": {"url": "http://h/mcp"}, "other": 5}}), "utf-8")
    checked = check_text(text)
    assert (checked.document.servers["fx"].url, checked.problems) == ("http://h/mcp", ())
    own = text.replace("tools:", "mcpServers: {fx: {url: 'http://own/mcp'}}\ntools:")
    assert check_text(own).document.servers["fx"].url == "http://own/mcp"
    file.write_text(json.dumps({"mcpServers": {"fx": {"url": "nowhere"}}}), "utf-8")
    assert any("must begin with http" in said and str(file) in said for said in texts(check_text(text)))


@pytest.mark.requirement("G12")
@pytest.mark.parametrize(
    ("server", "said"),
    [
        ('{name: n, version: "2"}', ("n", "n", "2", None)),
        ('{name: n, version: "2", title: T, instructions: Ask.}', ("n", "T", "2", "Ask.")),
        ('{version: "2"}', "'name' is missing"),
        ("{name: n}", "'version' is missing"),
        ("{}", "'name' is missing"),
    ],
)
def test_a_server_has_a_name_and_a_version_and_may_have_more(server, said):
    checked = check_text(f'version: "1.0"\nserver: {server}\ntools: []\n')
    if isinstance(said, str):
        assert said in "".join(texts(checked))
        return
    found = checked.document.server
    assert (found.name, found.title, found.version, found.instructions) == said


@pytest.mark.parametrize(
    ("key", "server", "transport"),
    [
        ("mcpServers", {"url": "https://h/mcp"}, "auto"),
        ("mcpServers", {"url": "https://h/mcp", "headers": {"Authorization": "Bearer ${env:TOKEN}"}}, "auto"),
        ("mcpServers", {"serverUrl": "https://h/mcp"}, "auto"),
        ("mcpServers", {"httpUrl": "https://h/mcp"}, "auto"),
        ("mcpServers", {"type": "streamable-http", "url": "https://h/mcp"}, "http"),
        ("mcpServers", {"transport": "sse", "url": "https://h/mcp"}, "sse"),
        ("mcpServers", {"type": "http", "serverUrl": "https://h/mcp"}, "http"),
        ("servers", {"type": "http", "url": "https://h/mcp"}, "http"),
        ("servers", {"type": "sse", "url": "https://h/mcp"}, "sse"),
    ],
)
def test_mcp_json_of_other_programs(tmp_path, key, server, transport):
    file = tmp_path / "mcp.json"
    file.write_text(json.dumps({key: {"far": server}, "inputs": []}), "utf-8")
    checked = check_text(HEAD + "tools: []\n", mcp_file=file, environ={"TOKEN": "canary"})
    assert texts(checked) == []
    found = checked.document.servers["far"]
    assert (found.url, found.transport) == ("https://h/mcp", transport)
    assert set(found.headers.values()) == ({"Bearer canary"} if "headers" in server else set())


@pytest.mark.parametrize(
    ("server", "said"),
    [
        ({"serverUrl": "h/mcp"}, "the URL of the server 'far' must begin with http:// or https://"),
        ({"transport": "ftp", "url": "https://h"}, "the server 'far' has an unknown type"),
        ({"type": "http"}, "'url' is missing"),
        ({"url": "https://h", "headers": {"X": "${input:key}"}}, "only VS Code can ask for ${input:key}"),
        ({"url": "https://h", "headers": {"X": "${env:NOPE}"}}, "the environment variable NOPE is not set"),
    ],
)
def test_mistakes_in_the_mcp_json_of_other_programs(tmp_path, server, said):
    file = tmp_path / "mcp.json"
    file.write_text(json.dumps({"servers": {"far": server}}), "utf-8")
    checked = check_text(HEAD + "tools: []\n", mcp_file=file, environ=os.environ)
    assert said in "".join(texts(checked))


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "the document must be a mapping"),
        (b"- a\n", "the document must be a mapping (key: value), not a list"),
        (b"\xff\xfe\xfa", "not UTF-8"),
        (b"a: [1,\n", "this is not valid YAML"),
        (b"a: 1\na: 2\n", "the key 'a' is given twice; the other one is on line 1"),
        (b"tools: 5\n", "'tools' must be a list"),
        (b"mcpServers: {s: {type: ssse, url: x}}\n", "Did you mean 'sse'?"),
        (b"mcpServers: {s: {type: sse, url: 'ftp://x'}}\n", "must begin with http:// or https://"),
    ],
)
def test_what_is_no_document(content, said, tmp_path):
    file = tmp_path / "g.yaml"
    file.write_bytes(content)
    with pytest.raises(DocumentError) as caught:
        load_document(file)
    assert said in str(caught.value)


def test_a_missing_file(tmp_path):
    with pytest.raises(DocumentError, match="there is no such file"):
        load_document(tmp_path / "none.yaml")


def test_empty_texts():
    head = 'version: "1.0"\nserver: {name: s, version: "1", title: "", instructions: ""}\n'
    nodes = ("{id: '', type: entry, next: exit}", "{id: exit, type: exit}")
    found = check_text(one_tool(*nodes).replace(HEAD, head)).document
    assert found is not None
    assert (found.server.title, found.server.instructions) == ("s", None)
    assert found.tools[0].entry.id == ""


def test_limits_may_be_as_large_as_numbers_are():
    text = f"{HEAD}executionLimits: {{maxNodeExecutions: 1e30, maxExecutionTimeMs: 5.0}}\ntools: []\n"
    found = check_text(text).document
    assert found is not None
    assert (found.limits.max_node_executions, found.limits.max_execution_time_ms) == (int(1e30), 5)
    for wrong in ("2.5", ".inf", ".nan", "true"):
        (error,) = texts(check_text(text.replace("1e30", wrong)))
        assert "'maxNodeExecutions' must be a whole number" in error


def test_annotations_are_those_of_the_protocol():
    nodes = ("{id: entry, type: entry, next: exit}", "{id: exit, type: exit}")
    text = one_tool(*nodes).replace(
        "    nodes:", "    annotations: {readOnlyHint: true, colour: red}\n    nodes:"
    )
    checked = check_text(text)
    assert checked.document.tools[0].annotations == {"readOnlyHint": True}
    assert any("the key 'colour' is not known here" in said for said in texts(checked, Severity.WARNING))
    (error,) = texts(check_text(text.replace("true", "'yes'")))
    assert "'readOnlyHint' must be true or false, not text" in error


def test_arguments_are_objects_whatever_the_schema_says():
    nodes = ("{id: entry, type: entry, next: exit}", "{id: exit, type: exit}")
    text = one_tool(*nodes).replace("inputSchema: {type: object}", "inputSchema: {type: string, title: T}")
    checked = check_text(text)
    assert checked.document.tools[0].input_schema == {"type": "object", "title": "T"}
    assert any(
        "the arguments of a tool are always an object" in said for said in texts(checked, Severity.WARNING)
    )


@pytest.mark.parametrize(
    ("more", "key", "said"),
    [
        ("retry: {attempts: 0}", "retry.attempts", "greater than 0, not 0"),
        ("retry: {delay: 0}", "retry.delay", "greater than 0, not 0"),
        ("retry: x", "retry", "a whole number or a mapping, not text"),
        ("timeout: -5", "timeout", "greater than 0, not -5"),
        ("timeout: {}", "timeout", "text or a number, not a mapping"),
        ("cache: {ttl: -1}", "cache.ttl", "greater than 0, not -1"),
        ("cache: 5", "cache", "true or false or a mapping, not the number 5"),
    ],
)
def test_what_may_have_several_forms_is_one_mistake(more, key, said):
    nodes = (
        "{id: entry, type: entry, next: x}",
        f"{{id: x, type: mcp, server: s, tool: r, args: {{}}, next: exit, {more}}}",
        "{id: exit, type: exit}",
    )
    servers = "mcpServers: {s: {command: python3, args: []}}\n"
    (error,) = texts(check_text(one_tool(*nodes, more=servers)))
    name = key.rpartition(".")[2]
    assert error.endswith(f"error: '{name}' must be {said} (at tools[0].nodes[1].{key})")
