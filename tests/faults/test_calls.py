"""Faults in the reply to a call: the error that each becomes, when, and that the other rows do not suffer."""

import gzip
import json
import zlib
from dataclasses import dataclass, field

from knime_mcp.tools import Limits
from knime_mcp.types.errors import (
    ConnectError,
    MCPError,
    ProtocolError,
    ResultTooLarge,
    ServerError,
    TimedOut,
)
from tests.faults.rows import BAD_ROWS, WAYS, Row, batch, script_for
from tests.support.scripted_server import (
    Part,
    Parts,
    Reply,
    event,
    http,
    notification,
    reply_event,
    rpc,
    rpc_error,
    stream,
    text,
)

LIMITS = Limits(result_bytes=300_000, values=20_000, event_bytes=200_000, events=500)
OK = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
EVENTS = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"


@dataclass
class Fault:
    """A reply that a server must not give.

    Attributes:
        reply: The reply.
        error: Class of the error; None if the call works all the same.
        words: Found in the error's message, or the text of the result.
        clock: The clock that ends it; None if it is seen at once.
        attributes: Attributes of the error.
        modern: It is one in the modern era only.
    """

    reply: Reply
    error: type[MCPError] | None
    words: str
    clock: str | None = None
    attributes: dict = field(default_factory=dict)
    modern: bool = False


def drip(head: bytes, piece: bytes, pause: float = 0.02) -> Parts:
    """The head at once, the rest in drops."""
    return [head, *([piece, pause] * 2000)]


def gzipped(*parts: bytes, times: int = 1) -> bytes:
    packer = zlib.compressobj(wbits=31)
    return b"".join(packer.compress(part) for _ in range(times) for part in parts) + packer.flush()


def in_stream(data: bytes) -> Reply:
    return http(200, data, content_type="text/event-stream", headers={"Content-Encoding": "gzip"})


def result_with(body: str) -> Reply:
    """A JSON reply whose result is the text."""
    return lambda r: http(200, f'{{"jsonrpc": "2.0", "id": {r.json["id"]}, "result": {body}}}')


def reply_of_another_id(request):
    return stream(event({"jsonrpc": "2.0", "id": request.json["id"] + 1000, "result": text("not mine")}))(
        request
    )


HTTP_ONLY = {"phase": "http"}
PROTOCOL = {"phase": "protocol"}
FAULTS = {
    # connections
    "close before headers": Fault([Part.CLOSE], ConnectError, "before it replied", attributes=HTTP_ONLY),
    "reset": Fault([Part.RESET], ConnectError, "before it replied", attributes=HTTP_ONLY),
    "half-closed socket": Fault([Part.HALF_CLOSE], ConnectError, "before it replied", attributes=HTTP_ONLY),
    "close in the headers": Fault(
        [b"HTTP/1.1 200 OK\r\nContent-Ty", Part.CLOSE], ConnectError, "before it replied"
    ),
    "half-closed in the body": Fault(
        [OK + b"Content-Length: 90\r\n\r\n{", Part.HALF_CLOSE], ConnectError, "in the middle of its reply"
    ),
    "close in the body": Fault(
        [OK + b"Content-Length: 90\r\n\r\n{", Part.CLOSE], ConnectError, "in the middle of its reply"
    ),
    "close in a chunk": Fault(
        [OK + b"Transfer-Encoding: chunked\r\n\r\n50\r\n{", Part.CLOSE],
        ConnectError,
        "in the middle of its reply",
    ),
    "body ends with the connection": Fault([OK + b"\r\n{", Part.CLOSE], ProtocolError, "not valid JSON"),
    # silence and drips
    "accept and stall": Fault([Part.STALL], TimedOut, "sent nothing for 1 s", "idle", {"kind": "idle"}),
    "stall in the headers": Fault([OK, Part.STALL], TimedOut, "sent nothing", "idle"),
    "stall in the body": Fault(
        [OK + b"Content-Length: 9\r\n\r\n{", Part.STALL], TimedOut, "sent nothing", "idle"
    ),
    "stall in a stream": Fault(stream(b": hi\n\n", Part.STALL), TimedOut, "sent nothing", "idle"),
    "drip of header bytes": Fault(drip(OK + b"X: ", b"y"), TimedOut, "sent nothing", "idle"),
    "drip of interim replies": Fault(
        drip(b"", b"HTTP/1.1 103 Early Hints\r\n\r\n"), TimedOut, "sent nothing", "idle"
    ),
    "drip of comments": Fault(drip(EVENTS + b"\r\n", b": alive\n\n"), TimedOut, "sent nothing", "idle"),
    "drip of body bytes": Fault(
        drip(OK + b"Content-Length: 99999\r\n\r\n", b" "),
        TimedOut,
        "No reply within 1.5 s in total",
        "total",
        {"kind": "total"},
    ),
    "drip of notifications": Fault(
        drip(EVENTS + b"\r\n", event(notification("notifications/message", data="still here"))),
        TimedOut,
        "in total",
        "total",
    ),
    # not HTTP, or not that of RFC 9112
    "no HTTP": Fault([b"SSH-2.0-OpenSSH_9.6\r\n\r\n", Part.CLOSE], ConnectError, "does not speak HTTP"),
    "HTTP/0.9": Fault([b"<html>hello</html>\n", Part.CLOSE], ConnectError, "before it replied"),
    "no status": Fault([b"HTTP/1.1 OK\r\n\r\n"], ConnectError, "does not speak HTTP"),
    "negative length": Fault([OK + b"Content-Length: -1\r\n\r\n{}"], ConnectError, "does not speak HTTP"),
    "two lengths": Fault(
        [OK + b"Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}"], ConnectError, "does not speak HTTP"
    ),
    "no chunk size": Fault(
        [OK + b"Transfer-Encoding: chunked\r\n\r\nxyz\r\n{}\r\n0\r\n\r\n"],
        ConnectError,
        "malformed in its middle (illegal chunk header)",
    ),
    "unknown transfer encoding": Fault(
        [OK + b"Transfer-Encoding: smoke\r\n\r\n{}"], ConnectError, "does not speak HTTP"
    ),
    "null byte in a header": Fault([OK + b"X: a\0b\r\n\r\n{}"], ConnectError, "does not speak HTTP"),
    "many headers": Fault(
        [OK + b"".join(b"X-%d: %s\r\n" % (i, b"y" * 500) for i in range(500)) + b"\r\n", Part.CLOSE],
        ConnectError,
        "server sent more than 100 KiB of headers",
    ),
    "long header": Fault(
        [OK + b"X: " + b"y" * 5_000_000], ConnectError, "server sent more than 100 KiB of headers"
    ),
    "switch of protocols": Fault(
        [b"HTTP/1.1 101 Switching\r\nUpgrade: websocket\r\nConnection: upgrade\r\n\r\n\x81\x00", Part.STALL],
        ConnectError,
        "does not speak HTTP",
    ),
    # a reply that is none
    "202 for a request": Fault(http(202, content_type=None), ConnectError, "202", attributes=PROTOCOL),
    "204 for a request": Fault([b"HTTP/1.1 204 No\r\n\r\n"], ConnectError, "204", attributes=PROTOCOL),
    "wrong type": Fault(
        http(200, "hi", content_type="text/plain"), ConnectError, "text/plain", attributes=PROTOCOL
    ),
    "no type": Fault(
        http(200, "{}", content_type=None), ConnectError, "no content type", attributes=PROTOCOL
    ),
    "web page": Fault(
        http(200, "<html><title>Sign in</title>", content_type="text/html"),
        ConnectError,
        "web page ('Sign in')",
        attributes=PROTOCOL,
    ),
    "web page of many unfinished titles": Fault(
        http(200, "<html>" + "<title " * 9000, content_type="text/html"), ConnectError, "web page"
    ),
    "error page": Fault(
        http(502, "<html><title>Bad gateway</title>", content_type="text/html"),
        ConnectError,
        "502 Bad Gateway ('Bad gateway')",
        attributes=HTTP_ONLY,
    ),
    "status out of range": Fault(http(999, "?"), ConnectError, "999"),
    # JSON
    "no JSON": Fault(http(200, "{"), ProtocolError, "not valid JSON"),
    "empty JSON": Fault(http(200, ""), ProtocolError, "without a message"),
    "JSON of another shape": Fault(http(200, "[1]"), ProtocolError, "JSON list"),
    "no UTF-8": Fault(
        lambda r: http(
            200, json.dumps({"id": r.json["id"], "result": text("@")}).replace("@", "\xff").encode("latin-1")
        ),
        None,
        "\xff",
    ),
    "UTF-16": Fault(http(200, "{}".encode("utf-16")), ProtocolError, "not valid JSON"),
    "number too long": Fault(
        result_with(f'{{"content": [{{"type": "text", "text": "all else", "n": {"9" * 9000}}}]}}'),
        None,
        "all else",
    ),
    "deep JSON": Fault(result_with("[" * 15_000 + "]" * 15_000), ProtocolError, "nested too deeply"),
    "JSON as deep as Python's stack": Fault(
        result_with('{"x": ' + "[" * 900 + '"\\ud800"' + "]" * 900 + "}"), ProtocolError, "nested too deeply"
    ),
    "JSON as deep as a parser may": Fault(
        result_with('{"x": ' + "[" * 500 + "]" * 500 + "}"), ProtocolError, "nested too deeply"
    ),
    "JSON larger than allowed": Fault(
        result_with(json.dumps(text("x" * 400_000))), ResultTooLarge, "larger than 300.0 KB"
    ),
    "JSON without an end": Fault(
        [OK + b"Transfer-Encoding: chunked\r\n\r\n", *([b"2710\r\n" + b" " * 10_000 + b"\r\n"] * 100)],
        ResultTooLarge,
        "larger than 300.0 KB",
        attributes={"limit": 300_000},
    ),
    # event streams
    "stream without the reply": Fault(stream(event(notification("x"))), ConnectError, "without its reply"),
    "empty stream": Fault(stream(), ConnectError, "without its reply"),
    "stream that breaks": Fault(
        stream(event(notification("x")), Part.CLOSE), ConnectError, "without its reply"
    ),
    "truncated event": Fault(
        stream(lambda r: reply_event(text("cut"))(r)[:-20]), ConnectError, "without its reply"
    ),
    "event without its blank line": Fault(
        stream(lambda r: reply_event(text("whole"))(r)[:-1]), None, "whole"
    ),
    "reply for another id": Fault(reply_of_another_id, ConnectError, "without its reply"),
    "reply twice": Fault(stream(reply_event(text("one")), reply_event(text("two"))), None, "one"),
    "no JSON in a stream": Fault(stream(b"data: {\n\n"), ProtocolError, "not valid JSON"),
    "deep JSON in a stream": Fault(
        stream(b"data: " + b"[" * 15_000 + b"\n\n"), ProtocolError, "nested too deeply"
    ),
    "no UTF-8 in a stream": Fault(
        stream(lambda r: reply_event(text("@"))(r).replace(b"@", b"\xff\xfe")), None, "\ufffd\ufffd"
    ),
    "endless event": Fault(
        lambda r: [*stream(end=False)(r), *([b"2710\r\n" + b"data: " + b"x" * 9_994 + b"\r\n"] * 100)],
        ResultTooLarge,
        "an event of more than 200000 bytes",
        attributes={"limit": 200_000},
    ),
    "endless questions": Fault(
        stream(*[event({"jsonrpc": "2.0", "id": "q", "method": "ping"})] * 100, end=False),
        ResultTooLarge,
        "beside its reply",
    ),
    "endless notifications": Fault(
        stream(*[event(notification("x"))] * 2000, end=False), ResultTooLarge, "beside its reply"
    ),
    "reconnection time beyond all numbers": Fault(
        stream(event("", id="1", retry=10**400)), MCPError, "without its reply|in total"
    ),
    # compression
    "compression that nobody asked for": Fault(
        http(200, b"x", headers={"Content-Encoding": "br"}), ProtocolError, "does not read"
    ),
    "two compressions": Fault(
        http(200, b"x", headers={"Content-Encoding": "gzip, gzip"}), ProtocolError, "does not read"
    ),
    "damaged compression": Fault(
        http(200, b"nonsense", headers={"Content-Encoding": "gzip"}), ProtocolError, "not valid JSON"
    ),
    "compression cut short": Fault(
        lambda r: http(200, gzip.compress(rpc({})(r)[0])[:-12], headers={"Content-Encoding": "gzip"}),
        ProtocolError,
        "not valid JSON|damaged",
    ),
    "interim responses without end": Fault(
        [b"HTTP/1.1 103 Early Hints\r\n\r\n" * 1_100], ConnectError, "more than 1,000 interim responses"
    ),
    "bomb": Fault(
        http(200, gzipped(b"0" * 1_000_000, times=100), headers={"Content-Encoding": "gzip"}),
        ResultTooLarge,
        "larger than",
    ),
    "bomb of one event": Fault(
        in_stream(gzipped(b"data: ", *[b"0" * 1_000_000] * 100)), ResultTooLarge, "an event of more than"
    ),
    "bomb of small values": Fault(
        result_with('{"content": [], "structuredContent": {"v": [' + "0," * 60_000 + "0]}}"),
        ResultTooLarge,
        "more than 20,000 values",
        attributes={"limit": 20_000},
    ),
    "bomb of small values in a stream": Fault(
        stream(reply_event({"content": [], "structuredContent": {"v": [0] * 60_000}})),
        ResultTooLarge,
        "more than 20,000 values",
    ),
    # JSON-RPC
    "huge error message": Fault(rpc_error(-32000, "m" * 100_000), ServerError, "mmm…"),
    "unknown kind of result": Fault(
        rpc({"resultType": "x" * 100_000, "content": []}), ProtocolError, "does not know", modern=True
    ),
    "input request of a wrong shape": Fault(
        rpc(
            {"resultType": "input_required", "inputRequests": {"a": {"method": "roots/list", "params": [1]}}}
        ),
        ProtocolError,
        "cannot give",
        modern=True,
    ),
    "thousands of input requests": Fault(
        rpc(
            {"resultType": "input_required", "inputRequests": {str(i): {"method": "x"} for i in range(5000)}}
        ),
        ProtocolError,
        "cannot give",
        modern=True,
    ),
    # redirects
    "redirect in circles": Fault(http(307, headers={"Location": "/mcp"}), ConnectError, "in circles"),
    "redirect nowhere": Fault(http(307), ConnectError, "without saying where"),
    "redirect to a malformed URL": Fault(
        http(307, headers={"Location": "http://[::1"}), ConnectError, "redirects", attributes=HTTP_ONLY
    ),
    "redirect to a control character": Fault(
        http(308, headers={"Location": "/mcp\x01"}), ConnectError, "redirects", attributes=HTTP_ONLY
    ),
    "redirect to an endless URL": Fault(
        http(307, headers={"Location": "/" + "a" * 70_000}), ConnectError, "redirects", attributes=HTTP_ONLY
    ),
    # refusals
    "503 with a date beyond all calendars": Fault(
        http(503, headers={"Retry-After": "Fri, 31 Dec 99999999999999 23:59:59 GMT"}), ConnectError, "503"
    ),
    "503 until the end of all calendars": Fault(
        http(503, headers={"Retry-After": "Fri, 31 Dec 9999 23:59:59 GMT"}),
        ConnectError,
        "it asks to wait 25",
    ),
    "503 that wants patience": Fault(
        http(503, headers={"Retry-After": "3600"}), ConnectError, "it asks to wait 3600 s"
    ),
    "429 that wants more patience than the clocks have": Fault(
        http(429, headers={"Retry-After": "3600"}), ConnectError, "it asks to wait 3600 s"
    ),
    "500": Fault(
        http(500, "oops", content_type="text/plain"), ConnectError, "500 Internal Server Error ('oops')"
    ),
    "401 with a challenge that is none": Fault(
        http(401, headers={"WWW-Authenticate": "a" * 8190 + '!"'}), MCPError, "401"
    ),
    "cookie of a far future": Fault(
        lambda r: rpc(text("ok"), headers={"Set-Cookie": "a=b; expires=Mon, 01-Jan-9999999999 00:00:00 GMT"})(
            r
        ),
        None,
        "ok",
    ),
}
#: Every fault in both eras, those that take a clock's time in one; good replies of either form around it.
CASES = [
    (name, way, fault)
    for number, (name, fault) in enumerate(FAULTS.items())
    for way in (WAYS[number % 2], WAYS[3 - number % 2])[
        : 2 if fault.clock is None and not fault.modern else 1
    ]
]


def test_a_fault_is_an_error_of_its_row_alone(subtests):
    for name, way, fault in CASES:
        with subtests.test(name=name, way=way):
            rows, _ = batch(script_for(way, fault.reply), clock=fault.clock, limits=LIMITS)
            assert [row.number for row in rows if not row.good] == list(BAD_ROWS)
            for number in BAD_ROWS:
                check(rows[number], fault)


def test_the_clocks_go_on_while_a_bomb_of_blank_lines_is_unpacked():
    # 300 MB of lines that are no events. Unpacking takes much longer than the clock allows.
    fault = Fault(in_stream(gzipped(b"\n" * 1_000_000, times=300)), TimedOut, "sent nothing", "idle")
    limits = Limits(values=10**9, event_bytes=10**9, result_bytes=10**9)
    script = script_for("modern-json", fault.reply)
    rows, _ = batch(script, clock="idle", rows=1, bad=(0,), in_flight=1, limits=limits)
    check(rows[0], fault)


def check(row: Row, fault: Fault):
    if fault.error is None:
        assert not isinstance(row.outcome, Exception)
        assert row.outcome.text == fault.words
        return
    assert isinstance(row.outcome, fault.error)
    message = str(row.outcome)
    assert any(words in message for words in fault.words.split("|")), message
    assert "tool echo" in message
    assert "http://127.0.0.1" in message
    assert len(message) < 3000
    for name, value in fault.attributes.items():
        assert getattr(row.outcome, name) == value
