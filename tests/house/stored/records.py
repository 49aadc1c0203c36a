"""Records and journals: made of given values, and by runs of the engine, of an agent, a graph, a reader."""

import base64
import json
import re
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path

import pyarrow as pa
import pytest

from knime_mcp.audit.journal import Journal, anchor_of
from knime_mcp.audit.journal_reading import LINES, SentCall, part_file
from knime_mcp.audit.record import (
    FIELDS,
    CallRecord,
    CallStatus,
    chained,
    content_digests,
    line_chain,
    line_of,
    plan_digest,
)
from knime_mcp.audit.secrets import HiddenSecrets, SecretMarker
from knime_mcp.audit.signatures import PublicKey, Sealer, SigningKey
from knime_mcp.client.mcp_client import MCPClient
from knime_mcp.client.protocol import tools as blocks
from knime_mcp.runs.call_values import Allow, Deny, Edit, PlannedCall
from knime_mcp.runs.checked_calls import pinned_tool
from knime_mcp.runs.engine import new_run
from knime_mcp.types.errors import CallDenied
from knime_mcp.types.routing import ServerRoute
from knime_mcp.types.texts import canonical_json
from knime_mcp_graph import McpGraphApi
from tests.audit.calls import FLOW, SEARCH, record
from tests.graph import graphs
from tests.support.chat_server import ChatServer, call, calls, says
from tests.support.host import get_host
from tests.support.scripted_server import ScriptedServer, http, modern, rpc, rpc_error, text, tool

AT = "2026-01-31T12:00:00.000000Z"
#: The key of the first test in RFC 8032, 7.1.
KEY = SigningKey(
    PublicKey("auditor", bytes.fromhex("d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a")),
    "2026-01-31T12:00:00Z",
    bytes.fromhex("9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60"),
)
PICTURE = b"\x89PNG a picture"

#: What differs from run to run in every journal, and what stands here in its place.
PASSING = {
    r'"at":"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z"': f'"at":"{AT}"',
    r'"who":\{"machine":"[^"]*","product":"knime-mcp [^"]+","system":"[^"]*","user":"[^"]*"\}': (
        '"who":{"machine":"…","product":"knime-mcp …","system":"…","user":"…"}'
    ),
    r'(knime-mcp/journal/2\\n\d+)\\n[\w+/=]{44}\\n[\d:.TZ-]{27}\\n\\n— auditor [\w+/=]+\\n"': (
        r'\1\\n…\\n…\\n\\n— auditor …\\n"'
    ),
}
#: And in the journals of real calls.
PASSING_CALLS = PASSING | {
    r"http://127\.0\.0\.1:\d+": "http://127.0.0.1:8931",
    r'"started_at":"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z"': f'"started_at":"{AT}"',
    r'"duration":[\d.e-]+': '"duration":0.5',
    r'"(head|hash|previous_hash)":"sha256:[0-9a-f]{64}"': r'"\1":"sha256:…"',
    r'"key":"[0-9a-f]{32}"': '"key":"…"',
    r'"plan":"[0-9a-f]{64}"': '"plan":"…"',
    r'"about":"mcp_agent_prompter [0-9a-f]{16}"': '"about":"mcp_agent_prompter …"',
    r"\"server 's'\":\"[0-9a-f]{16}\"": '"server \'s\'":"…"',
    r'"opened":"[0-9a-f]{16}"': '"opened":"…"',
    r'"run":"[\dTZ.]+-[0-9a-f]{6}"': '"run":"…"',
}


def stored(folder: Path) -> Iterator[tuple[str, bytes]]:
    yield from _records()
    yield from _parts_of_records()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("KNIME_MCP_AUDIT_KEYS", str(folder / "keys.json"))
        yield from _lines("journal", _journal(folder / "journal.jsonl"), PASSING)
        yield from _lines("journal of two files", _in_two_files(folder / "parts.jsonl", patch), PASSING)
        yield from _lines("journal of calls", _calls(folder / "calls.jsonl"), PASSING_CALLS)
        yield from _lines("journal of an agent", _agent(folder / "agent"), PASSING_CALLS)
        yield from _lines("journal of a graph", _graph(folder / "graph.jsonl"), PASSING_CALLS)
        yield from _lines("journal of a reader", _reader(folder / "reader"), PASSING_CALLS)
        key = {"public": str(KEY.public), "made": KEY.made, "private": base64.b64encode(KEY.private).decode()}
        (folder / "keys.json").write_text(json.dumps({"keys": [key]}))
        (folder / "keys.json").chmod(0o600)
        with Journal(folder / "signed.jsonl", run="r1") as journal:
            journal.append(_record())
        yield from _lines("signed journal", journal.path, PASSING)


def everything() -> CallRecord:
    """A record in which no field is empty."""
    more = {"iteration": 2, "decision": "allowed by rule: allow *", "error": "It failed", "attempts": 3}
    files = {"files": ("a/1.png", "a/2 ü.pdf"), "image": "a/1.png", "content": "[]"}
    secrets = HiddenSecrets(salt="00ff", arguments={"/a": ("0123456789ab",)}, answer={"0123456789ab": 2})
    more |= {"secrets": secrets.to_json(), "resumed_from": "r0", "key": "00ff", "asked": 2.5}
    made = chained(record(1, **more, **files), "sha256:" + "0" * 64, call=7)
    assert [name for name in FIELDS if getattr(made, name) in (None, ())] == []
    return made


def _record(**more) -> CallRecord:
    values = {"tool_name": "t", "arguments": "{}", "status": CallStatus.OK, "started_at": AT}
    return chained(CallRecord(run="r1", **values | more), "", call=1)


def _records() -> Iterator[tuple[str, bytes]]:
    yield "record with all fields", line_of(everything())
    yield "record with few fields", line_of(CallRecord(run="r1", status=CallStatus.CANCELED))
    for status in CallStatus:
        yield f"record: {status}", line_of(_record(status=status))
    for seconds in (0.0, 1e-7, 1e-05, 0.0001, 1 / 3, 5.0, 1e6, 123456789.125, 1e11):
        yield f"record of {seconds} s", line_of(_record(duration=seconds))
    odd = 'é 😀 \u2028 \x7f \x00 \ud800 "\\ / \r\n\t'
    yield "record of odd texts", line_of(_record(result=odd, tool_name=odd))


def _parts_of_records() -> Iterator[tuple[str, bytes]]:
    for tool_ in (SEARCH, FLOW):
        planned = record(1 if tool_ is SEARCH else 4, arguments='{"a":"⟨secret 0123456789ab⟩"}')
        yield f"plan of a call of {tool_.name}", plan_digest(planned).encode()
    marker = SecretMarker(["hunter2-token"], salt=bytes(range(16)))
    hidden, _ = marker.for_call({"password": "pässword-1", "a": [1, "x hunter2-token y"]}, "{}")
    marked = hidden.marked({"password": "pässword-1", "a": [1, "x hunter2-token y"]})
    yield "marks of secrets", canonical_json(marked).encode()
    kinds = (
        blocks.TextContent("grüße"),
        blocks.ImageContent(PICTURE, "image/png"),
        blocks.AudioContent(b"RIFF", "audio/wav"),
        blocks.EmbeddedResource("a://b", None, None, b"blob"),
        blocks.EmbeddedResource("a://b", "text/plain", "text", None, {"type": "resource", "text": "text"}),
        blocks.ResourceLink("a://b", raw={"type": "resource_link", "uri": "a://b"}),
        blocks.UnknownContent("new", {"type": "new", "x": [1]}),
    )
    yield "content", content_digests(kinds, lambda value: value).encode()
    yield "chain of a line", line_chain("0" * 64, '{"kind":"sent","row":"ü"'.encode()).encode()
    yield "anchor", f"{anchor_of('', 'ab' * 32)}\n{anchor_of('sha256:00', 'cd' * 32)}".encode()
    yield "signed note", Sealer(KEY, None).note(12, "ab" * 32, AT).encode()
    yield "note without a key", Sealer(None, None).note(12, "ab" * 32, AT).encode()


def _journal(path: Path) -> Path:
    """All kinds of lines; their fields are those of `LINES`."""
    what = {"kind": "agent", "model": "m", "rules": ["deny *"], "system": "Sei kurz: ü"}
    with Journal(path, run="r1", about="ab", what=what, calls=4) as journal:
        journal.sent(SentCall(key="00ff", plan="p1", tool_name="pay", input_row="Row1"))
        for number in range(1, 5):
            journal.append(record(number))
        for kind in sorted(LINES.keys() - {"start", "end", "sent", "checkpoint", "next", "part"}):
            journal.note(kind, {name: f"{name} ü" for name in LINES[kind] if name not in ("run", "at")})
    for outcome in ("failed", "canceled"):
        journal = Journal(path, run=f"r-{outcome}", append=True)
        journal.append(everything())
        journal.close(outcome)
    return path


def _in_two_files(path: Path, patch: pytest.MonkeyPatch) -> Path:
    with patch.context() as small:
        small.setenv("KNIME_MCP_AUDIT_PART", "1")
        Journal(path, run="r1").close()
    path.write_bytes(path.read_bytes() + part_file(path, 2).read_bytes())
    return path


def _lines(name: str, path: Path, passing: dict[str, str]) -> Iterator[tuple[str, bytes]]:
    """The lines of a journal, without what passes, and without their chain once it was seen to hold."""
    chain = ""
    for number, line in enumerate(path.read_bytes().splitlines(keepends=True), 1):
        said, _, stated = line.rpartition(b',"chain":"')
        chain = sha256(chain.encode() + b"\n" + said).hexdigest()
        assert stated == b'%b"}\n' % chain.encode(), line
        text = said.decode()
        for pattern, instead in passing.items():
            text = re.sub(pattern, instead, text)
        yield f"{name}, line {number}", f'{text},"chain":"…"}}\n'.encode()


class _Rules:
    """Decides by the names of tools."""

    def before(self, plan):
        match plan.tool and plan.tool.name:
            case "denied":
                return Deny(CallDenied("Not today", fix="Ask tomorrow"), by="rule: deny denied")
            case "edited" if plan.decision is None:
                return Edit({"text": "better"}, by="Ada")
            case _:
                return Allow(by="rule: allow *")

    def after(self, plan, outcome):
        return None


def _answer(request):
    """What a tool says follows from its name."""
    arguments = request.params.get("arguments", {})
    said = {
        "fail": text("It broke: ü", isError=True),
        "structured": text('{"n": 1}', structuredContent={"n": 1, "z": None, "a": [0.1]}),
        "picture": {
            "content": [
                {"type": "text", "text": "see"},
                {"type": "image", "data": base64.b64encode(PICTURE).decode(), "mimeType": "image/png"},
            ]
        },
        "secret": text(f"got {arguments.get('pin')}"),
    }
    match request.params["name"]:
        case "pay":
            return http(502, "gone")
        case "refused":
            return rpc_error(-32603, "no such luck")(request)
        case name:
            return rpc({"resultType": "complete", **said.get(name, text(json.dumps(arguments)))})(request)


def _resource(request):
    if request.params["uri"] != "a://text":
        return rpc_error(-32002, "There is none")(request)
    contents = [{"uri": "a://text", "text": "grüße", "mimeType": "text/plain"}]
    return rpc({"contents": contents, "resultType": "complete"})(request)


ECHO = {"type": "object", "properties": {"text": {"type": "string"}, "n": {"type": "integer"}}}
SECRET = {"type": "object", "properties": {"pin": {"type": "string", "format": "password"}}}
TOOLS = (
    *(
        tool(name, inputSchema=ECHO, description=f"Does {name}", annotations={"readOnlyHint": True})
        for name in ("echo", "fail", "structured", "picture", "denied", "edited", "refused")
    ),
    tool("secret", inputSchema=SECRET, outputSchema={"type": "object"}, title="Secret"),
    tool("pay", inputSchema=ECHO),
)


def _server() -> ScriptedServer:
    listed = rpc({"tools": list(TOOLS), "resultType": "complete"})
    resources = {
        "resources__list": rpc({"resources": [], "resultType": "complete"}),
        "resources__templates__list": rpc({"resourceTemplates": [], "resultType": "complete"}),
        "resources__read": _resource,
    }
    return ScriptedServer(modern(tools__list=listed, tools__call=_answer, **resources))


def _calls(path: Path) -> Path:
    """The ends that calls can have, by the engine."""
    run = new_run(lambda route: MCPClient(route.url), id="r1")
    run.secrets, run.hooks = SecretMarker(salt=bytes(range(16))), (_Rules(),)
    with _server() as server, run.pool, run:
        run.open_journal(path, about="", what={"kind": "test"}, calls=12)
        route = ServerRoute.parse(server.url)

        def made(name, arguments, **more):
            found = pinned_tool(run.definitions.find(route, name), route, shown_name=name)
            return run.call(PlannedCall(tool=found, arguments=arguments, input_row=f"Row-{name}"), **more)

        for name in ("echo", "fail", "structured", "picture", "denied", "edited", "refused", "pay"):
            made(name, {"text": "ü", "n": "3"})
        made("secret", {"pin": "canary-token-4711"})
        made("echo", {"n": "three"})
        made("echo", {}, is_canceled=lambda: True)
        run.call(PlannedCall(tool=FLOW, arguments={"n": 1}, iteration=2))
    return path


def _agent(folder: Path) -> Path:
    """Turns, calls and decisions of an agent, as the node writes them."""
    host = get_host()
    turns = (
        calls(call("echo", {"text": "ü", "n": 3}), text="Let me see", usage=(9, 5)),
        calls(call("denied", {"text": "x"}), usage=(10, 6)),
        calls(call("fail", "[1]"), usage=(11, 7)),
        calls(call("nothing", {"text": "x"}), usage=(12, 8)),
        says("Done: ü", usage=(13, 9)),
    )
    with _server() as server, ChatServer(turns) as model:
        settings = {"server_url": server.url, "column_form": "auto"}
        listed = host.run("mcp_tool_provider", [None, None], settings)
        assert listed.ok, listed.failure
        connected = host.run(
            "openai_compatible_chat_model", [], {"base_url": model.url, "model_name": "test-model"}
        )
        assert connected.ok, connected.failure
        asked = host.run(
            "mcp_agent_prompter",
            [
                host.port_object(connected.outputs[0]),
                listed.outputs[0].as_input(),
                None,
                [host.table(pa.table({"question": ["How many?"]}))],
                None,
            ],
            {
                "prompt_column": "question",
                "developer_message": "Be brief: ü",
                "rules": "deny denied\nallow *",
            },
            workflow_dir=folder,
            output_groups={"Data outputs": 1},
        )
        assert asked.ok, asked.failure
        assert (model.complaints, model.unplayed) == ([], 0)
    (file,) = folder.rglob("*.jsonl")
    return file


def _graph(path: Path) -> Path:
    """The calls of a graph, one of which fails."""
    nodes = (
        graphs.ENTRY,
        "{id: x, type: mcp, server: s, tool: pay, args: {text: {expr: entry.text}}, next: y, onError: y}",
        "{id: y, type: mcp, server: s, tool: echo, args: {text: {expr: entry.text}}, next: exit}",
        graphs.EXIT,
    )
    with _server() as server:
        servers = f"mcpServers:\n  s: {{type: streamableHttp, url: {server.url!r}}}\n"
        document = graphs.load(graphs.yaml(graphs.tool(*nodes), servers=servers))
        run = new_run(lambda route: MCPClient(route.url), id="r1").open_journal(path, about="t")
        with run, McpGraphApi(document, run=run) as api:
            api.executor.run("t", {"text": "ü"})
    return path


def _reader(folder: Path) -> Path:
    host = get_host()
    with _server() as server:
        rows = host.table(pa.table({"uri": ["a://text", "a://none"]}))
        settings = {"server_url": server.url, "uri_column": "uri"}
        read = host.run("mcp_resource_reader", [rows, None], settings, workflow_dir=folder)
        assert read.ok, read.failure
    (file,) = folder.rglob("*.jsonl")
    return file
