"""What servers send that is not quite what the specification says, and that costs nothing to understand."""

import gzip
import json
import zlib

import pytest

from knime_mcp.tools import MCPClient, Timeouts
from knime_mcp.types.errors import ProtocolError, ServerError, ToolNotFound
from tests.support.scripted_server import (
    ACCEPTED,
    LEGACY,
    Part,
    ScriptedServer,
    event,
    http,
    initialize,
    legacy,
    modern,
    notification,
    reply_event,
    rpc,
    rpc_error,
    stream,
    text,
)
from tests.support.waiting import until

pytestmark = pytest.mark.quick


HURRIED = Timeouts(connect=2, idle=2, total=10)


def call(script, **options):
    with ScriptedServer(script) as server, MCPClient(server.url, timeouts=HURRIED, **options) as client:
        return client.call_tool("echo")


def message(**members):
    """A JSON reply with the members as they are, beside the id."""
    return lambda r: http(200, json.dumps({"jsonrpc": "2.0", "id": r.json["id"], **members}))


@pytest.mark.parametrize(
    "members",
    [
        {"result": text("hi"), "error": None},
        {"result": text("hi"), "method": None, "params": None},
        {"result": {**text("hi"), "structuredContent": None, "isError": None, "_meta": None}},
    ],
)
def test_members_that_are_null_are_not_there(era, members):
    assert call(era(tools__call=message(**members))).text == "hi"
    in_stream = stream(lambda r: event({"jsonrpc": "2.0", "id": r.json["id"], **members}))
    assert call(era(tools__call=in_stream)).text == "hi"


@pytest.mark.parametrize(
    ("members", "code", "words"),
    [
        ({"result": None, "error": {"code": -32000, "message": "oops"}}, -32000, "oops"),
        ({"error": {"code": -32601.0, "message": "oops"}}, -32601, "oops"),
        ({"error": {"message": "oops"}}, 0, "oops"),
        ({"error": "oops"}, 0, "oops"),
    ],
)
def test_errors_of_any_shape_say_what_the_server_said(era, members, code, words):
    with pytest.raises(ServerError, match=words) as caught:
        call(era(tools__call=message(**members)))
    assert caught.value.code == code


@pytest.mark.parametrize("request_id", [float, str, int])
def test_ids_come_back_in_any_form(era, request_id):
    def reply(request):
        answer = {"jsonrpc": "2.0", "id": request_id(request.json["id"]), "result": text("hi")}
        return stream(event(answer))(request)

    assert call(era(tools__call=reply)).text == "hi"


@pytest.mark.parametrize("version", ["2024-11-05", "2025-03-26"])
def test_a_batch_in_a_stream_is_read_where_the_revision_has_batches(version):
    """Its questions are answered, its progress is told, its reply is the reply."""

    def batch(request):
        token = request.params["_meta"]["progressToken"]
        return [
            {
                "jsonrpc": "2.0",
                "method": "notifications/progress",
                "params": {"progressToken": token, "progress": 1},
            },
            {"jsonrpc": "2.0", "id": "p", "method": "ping"},
            {"jsonrpc": "2.0", "id": request.json["id"], "result": text("hi")},
        ]

    replies = [
        stream(lambda r: event(batch(r))),
        lambda r: http(200, json.dumps(batch(r))),
    ]
    script = legacy(version=version, tools__call=replies)
    told = []
    with ScriptedServer(script) as server, MCPClient(server.url, timeouts=HURRIED) as client:
        for _ in replies:
            assert client.call_tool("echo", on_progress=told.append).text == "hi"
        until(lambda: len(server.named("response")) == len(replies))
    assert [answer.json for answer in server.named("response")] == [
        {"jsonrpc": "2.0", "id": "p", "result": {}}
    ] * 2
    assert len(told) == 2


def test_requests_of_a_modern_server_are_not_answered():
    """2026-07-28: servers send no requests, and clients send no responses."""
    asked = event({"jsonrpc": "2.0", "id": 1, "method": "ping"})
    with (
        ScriptedServer(modern(tools__call=stream(asked, reply_event(text("hi"))))) as server,
        MCPClient(server.url) as client,
    ):
        assert client.call_tool("echo").text == "hi"
    assert "response" not in server.methods


@pytest.mark.parametrize(
    "content_type",
    [
        "application/json; charset=utf-8",
        'Application/JSON; charset="UTF-8"',
        "application/json;charset=iso-8859-1",
        "application/json, application/json",
        "application/json-rpc",
        "text/plain; charset=utf-8",
        "text/html; charset=UTF-8",  # what PHP says where a script says nothing
        "application/vnd.api+json",
        None,
    ],
)
def test_a_content_type_that_says_too_much_or_nothing(era, content_type):
    def reply(request):
        body = json.dumps(
            {"jsonrpc": "2.0", "id": request.json["id"], "result": text("grüß")}, ensure_ascii=False
        )
        return http(200, body, content_type=content_type)

    assert call(era(tools__call=reply)).text == "grüß"


@pytest.mark.parametrize(
    ("charset", "value"),
    [('"ISO-8859-1"', "grüß"), ("windows-1252", "5 €"), ("GBK", "资讯"), ("EUC-JP", "日本")],
)
def test_json_in_an_old_encoding_is_read_where_it_is_named(era, charset, value):
    def reply(request):
        body = json.dumps(
            {"jsonrpc": "2.0", "id": request.json["id"], "result": text(value)}, ensure_ascii=False
        )
        encoded = body.encode(charset.strip('"'))
        return http(200, encoded, content_type=f"application/json; Charset={charset}")

    assert call(era(tools__call=reply)).text == value


@pytest.mark.parametrize(
    ("encoded", "shown", "said"),
    [
        ("5 € für Müller".encode("cp1252"), "5 € für Müller", "windows-1252"),
        ("资讯内容".encode("gbk"), "资讯内容".encode("gbk").decode("cp1252"), "windows-1252"),
        ("für Müller".encode()[:-3] + b"\xc3", "für Mül\ufffd", "lost characters"),
        ("one \ufffd".encode(), "one \ufffd", "lost characters"),
        ("grüß".encode(), "grüß", ""),
    ],
)
def test_text_that_is_not_utf_8_is_never_lost_in_silence(era, encoded, shown, said):
    def reply(request):
        body = json.dumps({"jsonrpc": "2.0", "id": request.json["id"], "result": text("WORD")})
        return http(200, body.encode().replace(b"WORD", encoded))

    result = call(era(tools__call=reply))
    assert result.text == shown
    assert said in "".join(result.irregular)
    assert bool(said) == bool(result.irregular)


def test_a_list_of_tools_that_is_not_utf_8_is_read_and_said(era, caplog):
    def listing(request):
        body = json.dumps(
            {"jsonrpc": "2.0", "id": request.json["id"], "result": {"tools": [{"name": "WORD"}]}}
        )
        return http(200, body.encode().replace(b"WORD", "grüß".encode("cp1252")))

    with ScriptedServer(era(tools__list=listing)) as server, MCPClient(server.url) as client:
        assert [tool.name for tool in client.list_tools()] == ["grüß"]
    assert "not UTF-8" in caplog.text


def test_a_result_that_is_no_object_is_what_the_tool_gave(era):
    assert call(era(tools__call=message(result="hi"))).text == "hi"
    assert call(era(tools__call=message(result=[{"a": 1}]))).text == '{"a": 1}'


@pytest.mark.parametrize("encoding", ["utf-8", "UTF8", "none", "identity"])
def test_a_content_encoding_that_is_none(era, encoding):
    def reply(request):
        body = json.dumps({"jsonrpc": "2.0", "id": request.json["id"], "result": text("hi")})
        return http(200, body, headers={"Content-Encoding": encoding})

    assert call(era(tools__call=reply)).text == "hi"


@pytest.mark.parametrize("closes", [False, True])
@pytest.mark.parametrize("encoding", ["gzip", "deflate"])
def test_a_compressed_reply_with_the_length_of_its_text_is_whole(encoding, closes):
    def reply(request):
        result = {"jsonrpc": "2.0", "id": request.json["id"], "result": text("row " * 300)}
        plain = json.dumps(result).encode()
        packed = gzip.compress(plain) if encoding == "gzip" else zlib.compress(plain)
        head = f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Encoding: {encoding}\r\n"
        head += f"Content-Length: {len(plain)}\r\n\r\n"
        return [head.encode() + packed, Part.CLOSE if closes else Part.STALL]

    assert call(modern(tools__call=reply)).text == "row " * 300


def test_a_reply_that_only_says_it_is_compressed_is_read(era):
    def reply(request):
        body = json.dumps({"jsonrpc": "2.0", "id": request.json["id"], "result": text("hi")})
        return http(200, body, headers={"Content-Encoding": "gzip"})

    assert call(era(tools__call=reply)).text == "hi"


def test_users_may_say_which_compression_they_want():
    with (
        ScriptedServer(modern()) as server,
        MCPClient(server.url, headers={"accept-encoding": "identity"}) as client,
    ):
        client.call_tool("echo")
    assert {request.headers["accept-encoding"] for request in server.requests} == {"identity"}
    with pytest.raises(ProtocolError, match="Set the header Accept-Encoding to identity"):
        call(modern(tools__call=http(200, "x", headers={"Content-Encoding": "br"})))


def test_a_byte_order_mark_in_front_of_json(era):
    def with_mark(request):
        body = json.dumps({"jsonrpc": "2.0", "id": request.json["id"], "result": text("hi")})
        return http(200, b"\xef\xbb\xbf" + body.encode())

    def refused(request):
        body = json.dumps({"jsonrpc": "2.0", "id": None, "error": {"code": -32602, "message": "bad"}})
        return http(400, b"\xef\xbb\xbf" + body.encode())

    assert call(era(tools__call=with_mark)).text == "hi"
    with pytest.raises(ServerError, match="bad"):
        call(era(tools__call=refused))


@pytest.mark.parametrize("form", ["1.0", "chunked with trailers", "no length"])
def test_forms_of_http(era, form):
    def reply(request):
        body = json.dumps({"jsonrpc": "2.0", "id": request.json["id"], "result": text("hi")}).encode()
        head = b"HTTP/1.%d 200 OK\r\nContent-Type: application/json\r\n" % (form != "1.0")
        match form:
            case "1.0":
                return [head + b"Content-Length: %d\r\n\r\n" % len(body) + body, Part.CLOSE]
            case "no length":
                return [head + b"\r\n" + body, Part.CLOSE]
            case _:
                chunks = b"%x;x=y\r\n%s\r\n0\r\nX-Sum: 1\r\nServer-Timing: a;dur=1\r\n\r\n" % (
                    len(body),
                    body,
                )
                return [head + b"Trailer: X-Sum\r\nTransfer-Encoding: chunked\r\n\r\n" + chunks]

    with ScriptedServer(era(tools__call=reply)) as server, MCPClient(server.url, timeouts=HURRIED) as client:
        for _ in range(3):
            assert client.call_tool("echo").text == "hi"


def test_a_server_that_speaks_http_1_0_throughout():
    def old(reply):
        def build(request):
            parts = reply(request) if callable(reply) else reply
            return [*(part.replace(b"HTTP/1.1", b"HTTP/1.0", 1) for part in parts), Part.CLOSE]

        return build

    script = {
        name: old(reply) for name, reply in legacy(session="s-1", GET=http(405, content_type=None)).items()
    }
    with ScriptedServer(script) as server, MCPClient(server.url, timeouts=HURRIED) as client:
        assert [found.name for found in client.list_tools()] == ["echo"]
        assert [client.call_tool("echo").text for _ in range(3)] == ["hi"] * 3


@pytest.mark.parametrize(
    "refusal",
    [
        rpc_error(-32602, "Invalid arguments: session must be text", status=400),
        rpc_error(-32602, "Unknown session must be text"),
    ],
)
def test_a_parameter_that_is_called_session_is_no_lost_session(refusal):
    with (
        ScriptedServer(legacy(session="s-1", tools__call=refusal)) as server,
        MCPClient(server.url) as client,
        pytest.raises(ServerError, match="session must be text"),
    ):
        client.call_tool("echo")
    assert server.methods.count("initialize") == 1


@pytest.mark.parametrize("status", [400, 404, 500])
def test_a_result_counts_under_every_status(era, status):
    """The tool has run: it must not be called again."""
    failed = rpc(text("it failed", isError=True), status=status)
    script = era(tools__call=failed) if era is modern else era(session="s-1", tools__call=failed)
    with ScriptedServer(script) as server, MCPClient(server.url) as client:
        assert client.call_tool("echo").is_error
    assert server.methods.count("tools/call") == 1


def test_a_tool_that_is_not_found_with_404_is_no_lost_session():
    refusal = rpc_error(-32602, "Unknown tool: echo", status=404)
    with (
        ScriptedServer(legacy(session="s-1", tools__call=refusal)) as server,
        MCPClient(server.url) as client,
        pytest.raises(ToolNotFound),
    ):
        client.call_tool("echo")
    assert server.methods.count("initialize") == 1


@pytest.mark.parametrize(
    "noise",
    [
        b": keep-alive\n\n",
        b"event: ping\ndata: {}\n\n",
        b"event: ping\ndata: 2026-01-01 00:00:00\n\n",
        b"data: \n\n",
        b"data: ping\n\n",
        b"data: [DONE]\n\n",
        b"data: 7\n\n",
        b"retry: abc\nid\ndata\n\n",
        b"unknown: x\n\n",
        b"event: endpoint\ndata: /elsewhere\n\n",
    ],
)
def test_noise_in_a_stream_is_skipped(era, noise):
    assert call(era(tools__call=stream(noise, noise, reply_event(text("hi"))))).text == "hi"


@pytest.mark.parametrize("line_end", [b"\r\n", b"\r", b"\n"])
def test_lines_of_a_stream_end_in_any_way(era, line_end):
    def reply(request):
        return reply_event(text("a\nb"))(request).replace(b"\n", line_end)

    ping = b": x" + line_end * 2
    assert call(era(tools__call=stream(b"\xef\xbb\xbf" + ping, reply, ping))).text == "a\nb"


def test_data_in_several_lines_is_one_message(era):
    def reply(request):
        lines = json.dumps({"jsonrpc": "2.0", "id": request.json["id"], "result": text("hi")}, indent=1)
        return event(lines)

    assert call(era(tools__call=stream(reply))).text == "hi"


def test_a_server_that_never_answers_a_method_it_does_not_know():
    """Bridges to stdio servers of the handshake era pass the probe on, and nothing comes back."""
    script = legacy(server__discover=[Part.STALL])
    timeouts = Timeouts(connect=0.5, idle=5, total=20)
    with ScriptedServer(script) as server, MCPClient(server.url, timeouts=timeouts) as client:
        assert client.server.protocol_version == LEGACY
        assert client.call_tool("echo").text == "hi"
    assert server.methods[:2] == ["server/discover", "initialize"]


def test_a_modern_server_that_was_slow_to_wake_is_probed_again():
    refused = rpc_error(-32601, "Method not found", status=404)
    discovered = modern()["server/discover"]
    script = modern(server__discover=[[Part.STALL], discovered], initialize=refused)
    timeouts = Timeouts(connect=0.5, idle=5, total=20)
    with ScriptedServer(script) as server, MCPClient(server.url, timeouts=timeouts) as client:
        assert client.call_tool("echo").text == "hi"
    assert server.methods[:3] == ["server/discover", "initialize", "server/discover"]


def test_a_refusal_without_a_challenge_may_be_about_the_method_only():
    """Some gateways let known methods through and answer 403 to the others."""
    script = legacy(server__discover=http(403, "forbidden", content_type="text/plain"))
    assert call(script).text == "hi"


@pytest.mark.parametrize("reply", [[[Part.CLOSE], ACCEPTED], [http(500), ACCEPTED], [http(404), ACCEPTED]])
def test_a_server_that_drops_the_first_notification(reply):
    assert call(legacy(notifications__initialized=reply)).text == "hi"


@pytest.mark.parametrize(
    "reply",
    [
        http(202, "Accepted", content_type="text/plain"),
        http(200, "{}"),
        http(202, b"", headers={"Content-Encoding": "br"}),
        http(202, b"\x8b\x02\x80", headers={"Content-Encoding": "br"}),
        http(202, b"no gzip", headers={"Content-Encoding": "gzip"}),
        [b"HTTP/1.1 202 X\r\nContent-Length: 99\r\n\r\nhalf", Part.STALL],
        stream(b": hello\n\n", Part.STALL, end=False),
    ],
)
def test_what_a_notification_is_answered_with_does_not_matter(reply):
    assert call(legacy(session="s-1", notifications__initialized=reply)).text == "hi"


def test_a_server_that_asks_before_it_answers_the_handshake_gets_its_answer_in_the_session():
    def hold(_):
        until(lambda: server.named("response"))
        return b""

    head = b"HTTP/1.1 200 X\r\nContent-Type: text/event-stream\r\nMcp-Session-Id: s-1\r\n\r\n"
    ping = event({"jsonrpc": "2.0", "id": "p", "method": "ping"})
    reply = reply_event({"protocolVersion": LEGACY, "capabilities": {"tools": {}}})
    script = legacy(initialize=[head, ping, hold, reply, Part.CLOSE])
    with ScriptedServer(script) as server, MCPClient(server.url, timeouts=HURRIED) as client:
        assert client.call_tool("echo").text == "hi"
    assert server.named("response")[0].headers["mcp-session-id"] == "s-1"


def test_the_id_of_an_event_may_be_any_text():
    def resumed(request):
        asked = server.named("tools/call")[0].json["id"]
        return stream(event({"jsonrpc": "2.0", "id": asked, "result": text("late")}))(request)

    script = legacy(tools__call=stream(event("", id="é 2", retry=1)), GET=resumed)
    with ScriptedServer(script) as server, MCPClient(server.url) as client:
        assert client.call_tool("echo").text == "late"
    assert server.named("GET")[0].headers["last-event-id"].encode("latin-1").decode() == "é 2"


@pytest.mark.parametrize("body", ["[]", "null", '"ok"', "7", "{}", '{"ok": true}', "{", ""])
@pytest.mark.parametrize("form", ["json", "stream"])
def test_what_is_no_answer_to_the_first_question_leads_to_the_second_one(body, form):
    reply = http(200, body) if form == "json" else stream(event(body))
    assert call(legacy(server__discover=reply)).text == "hi"


def test_progress_that_is_no_number_is_not_told(caplog):
    heard = []

    def reports(request):
        token = request.params["_meta"]["progressToken"]
        values = ("4", None, 10**400, 2)
        told = [
            notification("notifications/progress", progressToken=token, progress=value) for value in values
        ]
        return b"".join(event(message) for message in told)

    script = modern(tools__call=stream(reports, reply_event(text("hi"))))
    with ScriptedServer(script) as server, MCPClient(server.url, timeouts=HURRIED) as client:
        assert client.call_tool("echo", on_progress=heard.append).text == "hi"
    assert [progress.progress for progress in heard] == [2.0]
    assert not caplog.records


def test_what_a_server_says_of_itself_ends_somewhere():
    """Ten million invisible characters in its instructions took 2.4 GB and 18 s in MCP Tool Provider."""
    long = "\u200bx" * 200_000
    info = {"name": long, "title": long, "version": long}
    with (
        ScriptedServer(legacy(initialize=initialize(serverInfo=info, instructions=long))) as server,
        MCPClient(server.url) as client,
    ):
        told = client.connect()
    assert [len(text) for text in (told.name, told.title, told.version)] == [10_000] * 3
    assert len(told.instructions) == 200_000
    assert told.instructions.endswith("…")
