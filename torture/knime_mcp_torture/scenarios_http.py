"""Groups 1 to 5: connections, HTTP, JSON, event streams, and sizes."""

import gzip
import json

from tests.support.scripted_server import (
    Part,
    event,
    http,
    notification,
    reply_event,
    rpc,
    stream,
    text,
)

from .scenario import (
    EVENTS_HEAD,
    OK_HEAD,
    SPECIFICATION,
    Scenario,
    bomb,
    drip,
    group,
    packed,
    reply_text,
    result,
    server,
)

HTTP = f"{SPECIFICATION}basic/transports#sending-messages-to-the-server"
TIMEOUTS = f"{SPECIFICATION}basic/lifecycle#timeouts"
STREAMS = f"{SPECIFICATION}basic/transports#resumability-and-redelivery"
MESSAGES = f"{SPECIFICATION}basic#messages"
SECURITY = f"{SPECIFICATION}server/tools#security-considerations"
EVENTS = "https://html.spec.whatwg.org/multipage/server-sent-events.html#parsing-an-event-stream"
FRAMING = "https://www.rfc-editor.org/rfc/rfc9112#section-6"
JSON = "https://www.rfc-editor.org/rfc/rfc8259"
LOST = "A connection that is lost before the reply has come is an error of this call alone."
CLOCK = "A request that is not answered must end by the client's own clock."
BROKEN = "What is no valid HTTP message must not be read as one."
NO_REPLY = "An answer that holds no JSON-RPC message is no result."
NO_JSON = "What is not JSON is no result."
EVENT = "Events are read as the HTML standard says, whatever else is in the stream."
STREAM_END = "A stream that ends without the response leaves the call without a result."
SIZE = "A client bounds what it reads, before it is all in memory."
TIDY = {"then": False}


def stream_of(*parts, **options):
    return stream(*parts, **options)


def good_stream(*before, after=()):
    return stream(*before, reply_event(text("hi")), *after)


def connections():
    whole = json.dumps
    return group(
        1,
        HTTP,
        [
            ("closes before the headers", LOST, [Part.CLOSE], "fails"),
            ("resets the connection", LOST, [Part.RESET], "fails"),
            ("half-closes before the headers", LOST, [Part.HALF_CLOSE], "fails"),
            ("closes within the headers", LOST, [b"HTTP/1.1 200 OK\r\nContent-Ty", Part.CLOSE], "fails"),
            ("closes within the body", LOST, [OK_HEAD + b"Content-Length: 90\r\n\r\n{", Part.CLOSE], "fails"),
            (
                "half-closes within the body",
                LOST,
                [OK_HEAD + b"Content-Length: 90\r\n\r\n{", Part.HALF_CLOSE],
                "fails",
            ),
            (
                "closes within a chunk",
                LOST,
                [OK_HEAD + b"Transfer-Encoding: chunked\r\n\r\n50\r\n{", Part.CLOSE],
                "fails",
            ),
            (
                "ends the body with the connection",
                "A body without a length ends with its connection.",
                lambda r: [
                    OK_HEAD
                    + b"\r\n"
                    + whole({"jsonrpc": "2.0", "id": r.json["id"], "result": text("hi")}).encode(),
                    Part.CLOSE,
                ],
                "works:hi",
            ),
            ("accepts and says nothing", CLOCK, [Part.STALL], "fails", {"section": TIMEOUTS}),
            ("stalls within the headers", CLOCK, [OK_HEAD, Part.STALL], "fails", {"section": TIMEOUTS}),
            (
                "stalls within the body",
                CLOCK,
                [OK_HEAD + b"Content-Length: 90\r\n\r\n{", Part.STALL],
                "fails",
                {"section": TIMEOUTS},
            ),
            (
                "stalls within a stream",
                CLOCK,
                stream(b": hi\n\n", Part.STALL),
                "fails",
                {"section": TIMEOUTS},
            ),
            (
                "sends header bytes for ever",
                CLOCK,
                drip(OK_HEAD + b"X: ", b"y"),
                "fails",
                {"section": TIMEOUTS},
            ),
            (
                "sends interim replies for ever",
                CLOCK,
                drip(b"", b"HTTP/1.1 103 Early Hints\r\n\r\n"),
                "fails",
                {"section": TIMEOUTS},
            ),
            (
                "sends comments for ever",
                CLOCK,
                drip(EVENTS_HEAD + b"\r\n", b": alive\n\n"),
                "fails",
                {"section": TIMEOUTS},
            ),
            (
                "sends blanks for ever",
                CLOCK,
                drip(OK_HEAD + b"Content-Length: 99999\r\n\r\n", b" "),
                "fails",
                {"section": TIMEOUTS},
            ),
            (
                "sends notifications for ever",
                "Clients should keep a longest time, whatever else arrives.",
                drip(EVENTS_HEAD + b"\r\n", event(notification("notifications/message", data="still here"))),
                "fails",
                {"section": TIMEOUTS},
            ),
            (
                "speaks SSH",
                BROKEN,
                [b"SSH-2.0-OpenSSH_9.6\r\n\r\n", Part.CLOSE],
                "fails",
                {"section": FRAMING},
            ),
            ("speaks HTTP/0.9", BROKEN, [b"<html>hello</html>\n", Part.CLOSE], "fails", {"section": FRAMING}),
            ("has no status", BROKEN, [b"HTTP/1.1 OK\r\n\r\n", Part.CLOSE], "fails", {"section": FRAMING}),
            (
                "has a negative length",
                BROKEN,
                [OK_HEAD + b"Content-Length: -1\r\n\r\n{}", Part.CLOSE],
                "fails",
                {"section": FRAMING},
            ),
            (
                "has two lengths",
                BROKEN,
                [OK_HEAD + b"Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}", Part.CLOSE],
                "fails",
                {"section": FRAMING},
            ),
            (
                "has no chunk size",
                BROKEN,
                [OK_HEAD + b"Transfer-Encoding: chunked\r\n\r\nxyz\r\n{}\r\n0\r\n\r\n", Part.CLOSE],
                "fails",
                {"section": FRAMING},
            ),
            (
                "has a null byte in a header",
                BROKEN,
                [OK_HEAD + b"X: a\0b\r\nContent-Length: 2\r\n\r\n{}", Part.CLOSE],
                "fails",
                {"section": FRAMING},
            ),
            (
                "sends a header of 5 MB",
                SIZE,
                [OK_HEAD + b"X: " + b"y" * 5_000_000, Part.CLOSE],
                "fails",
                {"section": FRAMING},
            ),
            (
                "switches to another protocol",
                BROKEN,
                [
                    b"HTTP/1.1 101 Switching\r\nUpgrade: websocket\r\nConnection: upgrade\r\n\r\n\x81\x00",
                    Part.STALL,
                ],
                "fails",
                {"section": FRAMING},
            ),
            (
                "sends an interim reply first",
                "Interim replies are skipped.",
                lambda r: [b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n", *rpc(text("hi"))(r)],
                "works:hi",
            ),
            (
                "sends the reply byte by byte",
                "Bytes may arrive in any pieces.",
                lambda r: [rpc(text("hi"))(r)[0][i : i + 1] for i in range(len(rpc(text("hi"))(r)[0]))],
                "works:hi",
            ),
        ],
    )


def statuses():
    def with_status(status):
        return lambda r: rpc(text("hi"), status=status)(r)

    page = "<html><title>Sign in</title><body>Please</body></html>"
    return group(
        2,
        HTTP,
        [
            ("202 for a request", NO_REPLY, http(202, content_type=None), "fails"),
            ("204 for a request", NO_REPLY, [b"HTTP/1.1 204 No\r\n\r\n"], "fails"),
            ("200 with plain text", NO_REPLY, http(200, "hi", content_type="text/plain"), "fails"),
            (
                "200 without a type and without a message",
                NO_REPLY,
                http(200, "{}", content_type=None),
                "fails",
            ),
            ("200 with a web page", NO_REPLY, http(200, page, content_type="text/html"), "fails"),
            ("200 with a web page that claims to be JSON", NO_REPLY, http(200, page), "fails"),
            ("400 without a body", NO_REPLY, http(400), "fails"),
            ("403", NO_REPLY, http(403, "no", content_type="text/plain"), "fails"),
            ("500 with a text", NO_REPLY, http(500, "oops", content_type="text/plain"), "fails"),
            ("502 with a web page", NO_REPLY, http(502, page, content_type="text/html"), "fails"),
            (
                "503 that asks to wait for an hour",
                "A server cannot make a client wait beyond its clock.",
                http(503, headers={"Retry-After": "3600"}),
                "fails",
            ),
            (
                "503 that asks to wait until the year 9999",
                "A server cannot make a client wait beyond its clock.",
                http(503, headers={"Retry-After": "Fri, 31 Dec 9999 23:59:59 GMT"}),
                "fails",
            ),
            (
                "429 that asks to wait for an hour",
                "A server cannot make a client wait beyond its clock.",
                http(429, headers={"Retry-After": "3600"}),
                "fails",
            ),
            ("status 999", NO_REPLY, http(999, "?"), "fails"),
            (
                "a JSON-RPC error with status 400",
                "An error of JSON-RPC is an error under any status.",
                reply_text_status(400),
                "fails",
            ),
            (
                "a media type in capitals",
                "Media types are compared without regard to case.",
                lambda r: http(
                    200,
                    json.dumps({"jsonrpc": "2.0", "id": r.json["id"], "result": text("hi")}),
                    content_type="Application/JSON",
                ),
                "works:hi",
            ),
            (
                "a media type with parameters",
                "Parameters of a media type are no part of its name.",
                lambda r: http(
                    200,
                    json.dumps({"jsonrpc": "2.0", "id": r.json["id"], "result": text("hi")}),
                    content_type="application/json; charset=utf-8; v=1",
                ),
                "works:hi",
            ),
            (
                "a redirect in circles",
                "Redirects are bounded.",
                http(307, headers={"Location": "/mcp"}),
                "fails",
            ),
            ("a redirect without a target", "A redirect without a target leads nowhere.", http(307), "fails"),
            (
                "a redirect to a malformed URL",
                "A redirect without a usable target leads nowhere.",
                http(307, headers={"Location": "http://[::1"}),
                "fails",
            ),
            (
                "a redirect to a URL of 70 KB",
                "A redirect without a usable target leads nowhere.",
                http(308, headers={"Location": "/" + "a" * 70_000}),
                "fails",
            ),
            (
                "a cookie of a far future",
                "Cookies that make no sense do no harm.",
                lambda r: rpc(
                    text("hi"), headers={"Set-Cookie": "a=b; expires=Mon, 01-Jan-9999999999 00:00:00 GMT"}
                )(r),
                "works:hi",
            ),
        ],
    )


def reply_text_status(status):
    return lambda r: http(
        status, json.dumps({"jsonrpc": "2.0", "id": r.json["id"], "error": {"code": -32000, "message": "no"}})
    )


def json_texts():
    block = '{"content": [{"type": "text", "text": %s}]}'
    return group(
        3,
        MESSAGES,
        [
            ("a JSON text that ends too soon", NO_JSON, http(200, "{"), "fails", {"section": JSON}),
            ("an empty body", NO_JSON, http(200, ""), "fails", {"section": JSON}),
            ("blanks", NO_JSON, http(200, "  \n "), "fails", {"section": JSON}),
            (
                "two values, one behind the other",
                NO_JSON,
                lambda r: http(200, rpc(text("hi"))(r)[0].partition(b"\r\n\r\n")[2] + b"{}"),
                "ends",
                {"section": JSON},
            ),
            ("a list of numbers", NO_REPLY, http(200, "[1]"), "fails"),
            ("null", NO_REPLY, http(200, "null"), "fails"),
            ("a text", NO_REPLY, http(200, '"hi"'), "fails"),
            ("neither result nor error", NO_REPLY, reply_text('{"jsonrpc": "2.0", "id": @}'), "fails"),
            (
                "UTF-16",
                "JSON between systems is UTF-8.",
                http(200, "{}".encode("utf-16")),
                "fails",
                {"section": JSON},
            ),
            (
                "a byte order mark",
                "A mark at the beginning may be ignored.",
                lambda r: http(
                    200,
                    b"\xef\xbb\xbf"
                    + json.dumps({"jsonrpc": "2.0", "id": r.json["id"], "result": text("hi")}).encode(),
                ),
                "ends",
                {"section": JSON},
            ),
            (
                "bytes that are not UTF-8, in a text",
                "A damaged text costs at most its own call.",
                lambda r: http(
                    200,
                    json.dumps({"jsonrpc": "2.0", "id": r.json["id"], "result": text("@")})
                    .encode()
                    .replace(b"@", b"\xff"),
                ),
                "ends",
                {"section": JSON},
            ),
            (
                "a lone surrogate as an escape",
                "A text that is no Unicode costs at most its own call.",
                result(block % '"a\\ud800b"'),
                "ends",
                {"section": JSON},
            ),
            (
                "a pair of surrogates as escapes",
                "Escaped pairs are one character.",
                result(block % '"\\ud83d\\ude00"'),
                "works:😀",
                {"section": JSON},
            ),
            (
                "a null character in a text",
                "All characters may stand in a text, escaped.",
                result(block % '"a\\u0000b"'),
                "works:a\0b",
                {"section": JSON},
            ),
            (
                "a number of 9,000 digits",
                "A number beyond all ranges costs at most its own call.",
                result('{"content": [{"type": "text", "text": "hi"}], "n": %s}' % ("9" * 9000)),
                "ends",
                {"section": JSON},
            ),
            (
                "the number 1e999",
                "A number beyond all ranges costs at most its own call.",
                result('{"content": [{"type": "text", "text": "hi"}], "n": 1e999}'),
                "ends",
                {"section": JSON},
            ),
            (
                "NaN",
                "NaN is not JSON; many servers write it.",
                result('{"content": [{"type": "text", "text": "hi"}], "structuredContent": {"n": NaN}}'),
                "ends",
                {"section": JSON},
            ),
            (
                "15,000 levels of nesting",
                "Depth is bounded.",
                result("[" * 15_000 + "]" * 15_000),
                "fails",
                {"section": JSON},
            ),
            (
                "900 levels of nesting",
                "Depth is bounded, or read.",
                result('{"content": [], "x": ' + "[" * 900 + "]" * 900 + "}"),
                "ends",
                {"section": JSON},
            ),
            (
                "a million levels of nesting, in a stream",
                "Depth is bounded.",
                stream(
                    lambda r: (
                        b'data: {"jsonrpc": "2.0", "id": %d, "result": ' % r.json["id"]
                        + b"[" * 1_000_000
                        + b"\n\n"
                    )
                ),
                "fails",
                {"section": JSON},
            ),
            (
                "a member that stands twice",
                "Names of members should be unique; one of them counts.",
                reply_text('{"jsonrpc": "2.0", "id": 0, "id": @, "result": {"content": []}}'),
                "ends",
                {"section": JSON},
            ),
            (
                "line breaks within a text",
                "Control characters in texts are not JSON; servers that write it by hand do so.",
                lambda r: http(
                    200,
                    '{"jsonrpc": "2.0", "id": %d, "result": {"content": [{"type": "text", "text": "a\nb"}]}}'
                    % r.json["id"],
                ),
                "ends",
                {"section": JSON},
            ),
        ],
    )


def streams():
    return group(
        4,
        HTTP,
        [
            ("the reply in a stream", "Clients support JSON and streams.", good_stream(), "works:hi"),
            (
                "an event of a name that nobody knows first",
                EVENT,
                good_stream(event({"a": 1}, name="hello")),
                "works:hi",
                {"section": EVENTS},
            ),
            (
                "comments and blank lines first",
                EVENT,
                good_stream(b": a\n\n\n\n:b\n\n"),
                "works:hi",
                {"section": EVENTS},
            ),
            (
                "an event without data first",
                EVENT,
                good_stream(b"id: 1\n\n", b"event: message\n\n"),
                "works:hi",
                {"section": EVENTS},
            ),
            (
                "an empty data field first",
                "A first event without data primes reconnection.",
                good_stream(b"id: 1\ndata:\n\n"),
                "works:hi",
                {"section": STREAMS},
            ),
            (
                "carriage returns as line ends",
                EVENT,
                stream(lambda r: reply_event(text("hi"))(r).replace(b"\n", b"\r")),
                "works:hi",
                {"section": EVENTS},
            ),
            (
                "both as line ends",
                EVENT,
                stream(lambda r: reply_event(text("hi"))(r).replace(b"\n", b"\r\n")),
                "works:hi",
                {"section": EVENTS},
            ),
            (
                "the data in many lines",
                EVENT,
                stream(
                    lambda r: (
                        b"".join(
                            b"data: %s\n" % line
                            for line in json.dumps(
                                {"jsonrpc": "2.0", "id": r.json["id"], "result": text("hi")}, indent=1
                            )
                            .encode()
                            .splitlines()
                        )
                        + b"\n"
                    )
                ),
                "works:hi",
                {"section": EVENTS},
            ),
            (
                "no blank behind the colon",
                EVENT,
                stream(lambda r: reply_event(text("hi"))(r).replace(b"data: ", b"data:")),
                "works:hi",
                {"section": EVENTS},
            ),
            ("a byte order mark", EVENT, good_stream(b"\xef\xbb\xbf"), "works:hi", {"section": EVENTS}),
            (
                "a chunk per byte",
                EVENT,
                stream(
                    *[lambda r, i=i: reply_event(text("hi"))(r)[i : i + 1] for i in range(2)],
                    lambda r: reply_event(text("hi"))(r)[2:],
                ),
                "works:hi",
                {"section": EVENTS},
            ),
            (
                "notifications first",
                "Messages about the call may come before its response.",
                good_stream(
                    *[event(notification("notifications/message", level="info", data=i)) for i in range(20)]
                ),
                "works:hi",
            ),
            (
                "notifications that nobody knows first",
                "Unknown notifications are ignored.",
                good_stream(event(notification("notifications/surprise", x=1))),
                "works:hi",
            ),
            (
                "a notification with wrong parameters first",
                "A malformed notification costs nothing.",
                good_stream(event({"jsonrpc": "2.0", "method": "notifications/message", "params": [1]})),
                "works:hi",
            ),
            (
                "progress for a token that nobody gave",
                "Progress of unknown tokens is ignored.",
                good_stream(event(notification("notifications/progress", progressToken="x", progress=1))),
                "works:hi",
            ),
            (
                "a ping first",
                "A ping is answered promptly, also while a call waits.",
                good_stream(event({"jsonrpc": "2.0", "id": "p", "method": "ping"})),
                "works:hi",
                {"section": f"{SPECIFICATION}basic/utilities/ping"},
            ),
            (
                "a request of a method that nobody offers",
                "An unknown request is refused, and the call goes on.",
                good_stream(event({"jsonrpc": "2.0", "id": "q", "method": "server/surprise"})),
                "works:hi",
            ),
            (
                "no message in an event first",
                "What is no message costs at most its own call.",
                good_stream(b"data: [DONE]\n\n"),
                "ends",
            ),
            (
                "the reply twice",
                "The first response counts.",
                good_stream(after=(reply_event(text("two")),)),
                "works:hi",
            ),
            (
                "the response of another request first",
                "Responses belong to their ids.",
                good_stream(lambda r: event({"jsonrpc": "2.0", "id": 98765, "result": text("not mine")})),
                "works:hi",
            ),
            (
                "only the response of another request",
                STREAM_END,
                stream(lambda r: event({"jsonrpc": "2.0", "id": 98765, "result": text("not mine")})),
                "fails",
            ),
            ("an empty stream", STREAM_END, stream(), "fails"),
            ("a stream of notifications alone", STREAM_END, stream(event(notification("x"))), "fails"),
            ("a stream that breaks", STREAM_END, stream(event(notification("x")), Part.CLOSE), "fails"),
            (
                "an event that is cut off",
                STREAM_END,
                stream(lambda r: reply_event(text("cut"))(r)[:-20]),
                "fails",
            ),
            ("no JSON in a message event", NO_JSON, stream(b"data: {\n\n"), "fails"),
            (
                "a time to reconnect beyond all numbers",
                "A server cannot make a client wait beyond its clock.",
                stream(event("", id="1", retry=10**400)),
                "fails",
                {"section": STREAMS},
            ),
            (
                "a stream that stays open behind the reply",
                "The response ends the call, whatever the stream does.",
                good_stream(after=(Part.STALL,)),
                "works:hi",
            ),
            (
                "an id of an event with a line break in it",
                "Ids of events are plain text.",
                good_stream(b"id: a\rb\n\n"),
                "works:hi",
                {"section": EVENTS},
            ),
        ],
    )


def sizes():
    zeros = b'{"content": [], "structuredContent": {"v": ['
    tools = b'{"tools": ['
    events = "text/event-stream"
    listing = {"then": False, "memory": 200}
    return group(
        5,
        SECURITY,
        [
            (
                "compressed as nobody asked",
                "Only encodings that were asked for are sent.",
                http(200, b"x", headers={"Content-Encoding": "compress"}),
                "fails",
            ),
            (
                "damaged compression",
                BROKEN,
                http(200, b"nonsense", headers={"Content-Encoding": "gzip"}),
                "fails",
            ),
            (
                "compression cut short",
                BROKEN,
                lambda r: http(
                    200,
                    gzip.compress(rpc(text("hi"))(r)[0].partition(b"\r\n\r\n")[2])[:-12],
                    headers={"Content-Encoding": "gzip"},
                ),
                "ends",
            ),
            (
                "a compressed reply",
                "Accepted encodings are read.",
                lambda r: http(
                    200,
                    gzip.compress(rpc(text("hi"))(r)[0].partition(b"\r\n\r\n")[2]),
                    headers={"Content-Encoding": "gzip"},
                ),
                "works:hi",
            ),
            ("60 MB of small numbers in 92 KB", SIZE, bomb(zeros, b"0,", 300, b"0]}}}"), "fails"),
            ("60 MB of empty objects in 90 KB", SIZE, bomb(zeros, b"{},", 200, b"0]}}}"), "fails"),
            ("60 MB of empty lists in 90 KB", SIZE, bomb(zeros, b"[],", 200, b"0]}}}"), "fails"),
            ("60 MB of small texts in 90 KB", SIZE, bomb(zeros, b'"a",', 150, b"0]}}}"), "fails"),
            ("60 MB of small objects in 90 KB", SIZE, bomb(zeros, b'{"a":0},', 75, b"0]}}}"), "fails"),
            (
                "30 MB of small blocks",
                SIZE,
                bomb(b'{"content": [', b'{"type":"text","text":""},', 12, b'{"type":"text","text":"hi"}]}}'),
                "fails",
            ),
            (
                "a gigabyte of one text in 1 MB",
                SIZE,
                lambda r: http(
                    200, packed(b"", b"0" * 1_000_000, 1000), headers={"Content-Encoding": "gzip"}
                ),
                "fails",
                {"memory": 250},
            ),
            (
                "a gigabyte in one event, compressed",
                SIZE,
                lambda r: http(
                    200,
                    packed(b"data: ", b"0" * 1_000_000, 1000),
                    content_type=events,
                    headers={"Content-Encoding": "gzip"},
                ),
                "fails",
                {"memory": 250},
            ),
            (
                "60 MB of small numbers in one event, compressed",
                SIZE,
                bomb(zeros, b"0,", 300, b"0]}}}\n\n", kind=events),
                "fails",
                {"memory": 250},
            ),
            (
                "300 MB of blank lines, compressed",
                CLOCK,
                lambda r: http(
                    200,
                    packed(b"", b"\n" * 1_000_000, 300),
                    content_type=events,
                    headers={"Content-Encoding": "gzip"},
                ),
                "fails",
            ),
            (
                "an endless text",
                SIZE,
                [
                    OK_HEAD + b"Transfer-Encoding: chunked\r\n\r\n",
                    *[b"f4240\r\n" + b" " * 1_000_000 + b"\r\n"] * 400,
                ],
                "fails",
                {"memory": 250},
            ),
            (
                "an endless event",
                SIZE,
                lambda r: [
                    *stream(end=False)(r),
                    b"6\r\ndata: \r\n",
                    *[b"f4240\r\n" + b"x" * 1_000_000 + b"\r\n"] * 400,
                ],
                "fails",
                {"memory": 250},
            ),
            (
                "a million notifications",
                SIZE,
                stream(*[event(notification("notifications/x")) * 10_000] * 100, end=False),
                "fails",
            ),
            (
                "a list of tools that unpacks to 60 MB of small numbers",
                SIZE,
                server(**{"tools/list": bomb(tools, b"0,", 300, b"0]}}")}),
                "refuses",
                listing,
            ),
            (
                "a greeting that unpacks to 60 MB of small numbers",
                SIZE,
                server(
                    initialize=bomb(
                        b'{"protocolVersion": "2025-11-25", "capabilities": {"x": [', b"0,", 300, b"0]}}}"
                    )
                ),
                "refuses",
                listing,
            ),
            (
                "an error message of 10 MB",
                "Errors reach people in a readable length.",
                lambda r: http(
                    200,
                    json.dumps(
                        {
                            "jsonrpc": "2.0",
                            "id": r.json["id"],
                            "error": {"code": -32000, "message": "m" * 10_000_000},
                        }
                    ),
                ),
                "fails",
            ),
        ],
    )


def scenarios() -> list[Scenario]:
    return [*connections(), *statuses(), *json_texts(), *streams(), *sizes()]
