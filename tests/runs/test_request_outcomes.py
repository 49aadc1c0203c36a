"""What becomes of a call: whatever happens to it, it is never made twice unless it surely did not run.

A server that counts is called over each transport, by tools that may be called twice and by one that may not;
then the run is resumed. What is expected is written here by hand, and not taken from the table that the
client acts by.
"""

import json
import re
import sys
import threading
from collections import Counter
from dataclasses import dataclass
from itertools import cycle

import pytest

from knime_mcp.client.mcp_client import MCPClient
from knime_mcp.client.protocol.outcomes import MAY_HAVE_RUN
from knime_mcp.runs.call_values import PlannedCall
from knime_mcp.runs.checked_calls import pinned_tool
from knime_mcp.runs.engine import new_run
from knime_mcp.runs.resuming import EarlierRun, to_resume
from knime_mcp.tools import Limits, StdioServer, Timeouts
from knime_mcp.types.routing import ServerRoute
from tests.support.scripted_server import (
    LEGACY,
    MODERN,
    Part,
    ScriptedServer,
    event,
    http,
    legacy,
    modern,
    notification,
    rpc,
    stream,
    text,
)
from tests.support.sse_server import SseServer

ATTEMPTS = 2
UNKNOWN, REFUSED, FAILED, OK, TOOL_ERROR = "outcome unknown", "refused", "failed", "ok", "tool error"
TOOLS = {"creates": None, "reads": {"readOnlyHint": True}, "sets": {"idempotentHint": True}}
LISTED = {
    "tools": [
        {"name": name, "inputSchema": {"type": "object"}} | ({"annotations": hints} if hints else {})
        for name, hints in TOOLS.items()
    ],
    "resultType": "complete",
}
REPEATING = re.compile(r"\btry|\bcall again|\bonce more|\brepeat", re.IGNORECASE)


@dataclass(frozen=True)
class Case:
    """An answer, what the call has become then, and how often it arrives."""

    answer: object
    expected: str
    arrivals: int = 1


def error(code, message, data=None):
    return {"code": code, "message": message} | ({} if data is None else {"data": data})


def is_error(answer):
    return isinstance(answer, dict) and "code" in answer


def no_reply():
    """Errors of others than the tool: gateways, proxies, runtimes, clients made with the SDKs."""
    words = [
        *("Request timed out", "MCP error -32001: Request timed out", "Connection closed", "fetch failed"),
        *("read ECONNRESET", "ECONNRESET", "socket hang up", "upstream request timeout", "Bad Gateway"),
        *("context deadline exceeded", "Server disconnected", "network error", "write EPIPE"),
        *(
            "Client closed",
            "The operation was aborted",
            "terminated",
            "Service Unavailable",
            "unexpected EOF",
        ),
        *("upstream connect error or disconnect/reset before headers", "Gateway Timeout", "Failed to fetch"),
        *("Timeout of 60000ms exceeded", "Proxy error", "getaddrinfo ENOTFOUND shop", "broken pipe"),
    ]
    errors = [error(code, each) for each, code in zip(words, cycle([-32603, -32000, -32001, -32603]))]
    errors += [error(0, "fetch failed"), error(504, "timed out"), error(-32000, "no"), error(-32001, "no")]
    errors += [error(-32603, "Internal error", data) for data in ("ECONNRESET", {"cause": "socket hang up"})]
    return errors


def session_errors():
    """Of a shop, whose tool was carried out or not: nobody's MCP session."""
    return [
        Case(error(-32001, "Session expired"), UNKNOWN),
        Case(error(-32001, "Session not found"), UNKNOWN),
        Case(error(-32005, "Session not found: Invalid or expired session"), FAILED),
        Case(error(-32603, "Your session has expired"), FAILED),
        Case(error(-32002, "Server not initialized"), FAILED),
        Case(error(-32602, "Invalid or expired session"), REFUSED),
        Case(error(440, "Session expired"), FAILED),
    ]


def rpc_cases():
    """By what the message is: over every transport."""
    own = [(-32603, "boom"), (0, "division by zero"), (1, "no such customer"), (-32002, "Resource not found")]
    understood = [
        (-32700, "Parse error"),
        (-32600, "Invalid Request"),
        (-32602, "Bad amount"),
        (-32601, "no"),
    ]
    yield "a result", Case(text("hi", resultType="complete"), OK)
    yield "isError", Case(text("no stock", isError=True, resultType="complete"), TOOL_ERROR)
    yield "no object", Case(7, OK)
    for each in no_reply():
        yield f"error {each}", Case(each, UNKNOWN)
    for code, words in [*own, (404, "no such customer"), (-32010, "sold out")]:
        yield f"error {code} {words}", Case(error(code, words), FAILED)
    for code, words in understood:
        yield f"error {code} {words}", Case(error(code, words), REFUSED)
    for case in session_errors():
        yield f"error {case.answer}", case


def statuses(is_modern, in_session):
    """By the HTTP status, with bodies that are no JSON-RPC message."""
    bodies = {
        "nothing": {"content_type": None},
        "text": {"body": "OK", "content_type": "text/plain"},
        "page": {"body": "<html><title>Created</title></html>", "content_type": "text/html"},
        "JSON": {"body": '{"message": "Endpoint request timed out"}'},
        "bytes": {"body": b"\0\1", "content_type": "application/octet-stream"},
    }
    every = cycle(bodies.items())
    for status in (*[200] * 5, *[202] * 5, 201, 203, 204, 206, 226, 299):
        name, body = next(every)
        yield f"{status} with {name}", Case(http(status, **body), UNKNOWN)
    for status, target in zip((300, 301, 302, 303, 304, 302), cycle(["/done", "https://elsewhere.example"])):
        yield f"{status} to {target}", Case(http(status, headers={"Location": target}), UNKNOWN)
    for status in (307, 308):
        answer = http(status, headers={"Location": "https://elsewhere.example/mcp"})
        yield f"{status} to another server", Case(answer, REFUSED)
    for status in (400, *range(402, 408), *range(409, 418), 421, 422, 423, 424, 425, 426, 428, 431, 451):
        sent = ATTEMPTS if in_session and status in (404, 410) else 1
        name, body = next(every)
        yield f"{status} with {name}", Case(http(status, **body), REFUSED, sent)
    yield "401", Case(http(401, headers={"WWW-Authenticate": "Bearer"}), REFUSED)
    yield "429", Case(http(429, headers={"Retry-After": "0"}), REFUSED, ATTEMPTS)
    for status in (408, 419, 420, 440, 444, 460, 499):
        yield f"{status}", Case(http(status, "no", content_type="text/plain"), UNKNOWN)
    for status in (*[502] * 5, *[504] * 5, 500, 501, 503, 505, 507, 511, 520, 522, 524, 529, 599):
        name, body = next(every)
        yield f"{status} with {name}", Case(http(status, **body), UNKNOWN)
    if in_session:
        answer = http(400, "Bad Request: No valid session ID provided", content_type="text/plain")
        yield "400 about the session", Case(answer, REFUSED, ATTEMPTS)
    if is_modern:
        return
    for code in (-32020, -32021, -32022):
        yield f"{code} before 2026-07-28", Case(rpc_answer(error(code, "mine")), FAILED)


def of_gateways(in_session):
    """JSON-RPC errors under other statuses than 2xx."""
    found = [error(-32603, "Bad Gateway"), error(-32603, "boom"), error(-32000, "no"), error(-32001, "no")]
    for status, each in zip((*[500, 502, 504] * 4, 503, 520, 524), cycle(found)):
        yield f"{status} with {each}", Case(rpc_answer(each, status), UNKNOWN)
    for status in (502, 503, 504):
        yield f"{status} with -32600", Case(rpc_answer(error(-32600, "no"), status), UNKNOWN)
    yield "500 with -32602", Case(rpc_answer(error(-32602, "Bad amount"), 500), REFUSED)
    for status in (400, 409, 422):
        yield f"{status} with -32603", Case(rpc_answer(error(-32603, "sold out"), status), REFUSED)
        for found in (error(-32001, "Request timed out"), error(-32603, "fetch failed")):
            yield f"{status} with {found}", Case(rpc_answer(found, status), UNKNOWN)
    for code in (-32601, -32602):
        yield f"404 with {code}", Case(rpc_answer(error(code, "unknown"), 404), REFUSED)
    sent = ATTEMPTS if in_session else 1
    yield "404 with -32001", Case(rpc_answer(error(-32001, "Session not found"), 404), REFUSED, sent)


def broken():
    """By the moment: the request has arrived, and there is no whole reply."""
    head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
    events = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
    ends = cycle([Part.CLOSE, Part.RESET])
    for name, parts in {
        "no byte": [],
        "a piece of the head": [head[:9]],
        "the head": [head + b"Content-Length: 50\r\n\r\n"],
        "half a body": [head + b'Content-Length: 50\r\n\r\n{"jsonrpc": "2.0", "id": 1'],
        "half a chunk": [head + b'Transfer-Encoding: chunked\r\n\r\n20\r\n{"jsonrpc"'],
        "a stream without events": [events],
        "half an event": [events + b'10\r\ndata: {"jsonrpc"\r\n'],
        "an event id": [events + b"e\r\nid: 1\nretry:1\n\n\r\n"],
        "no HTTP": [b"SSH-2.0-OpenSSH_9.9\r\n"],
        "Early Hints": [b"HTTP/1.1 103 Early Hints\r\n\r\n"],
    }.items():
        yield f"{name}, and no more", Case([*parts, next(ends)], UNKNOWN)
    yield "a stream that ends", Case(stream(event(notification("x"))), UNKNOWN)
    for name, body in {
        "half JSON": "{",
        "a list": "[]",
        "null": "null",
        "text": '"done"',
        "{}": "{}",
    }.items():
        yield f"200 with {name}", Case(http(200, body), UNKNOWN)


def rpc_answer(message, status=200, *, as_events=False):
    """The JSON-RPC message with this error, or with this result, as a reply over HTTP."""
    member = "error" if is_error(message) else "result"

    def reply(request):
        whole = {"jsonrpc": "2.0", "id": request.json["id"], member: message}
        return stream(event(whole))(request) if as_events else http(status, json.dumps(whole))

    return reply


class Counting:
    """What is common to the servers: which call gets which answer, and how often each came."""

    def __init__(self, cases):
        self.cases = cases
        self.arrived = Counter()
        self.lock = threading.Lock()

    def take(self, request):
        """The case of a call, which has arrived."""
        asked = request.params
        with self.lock:
            self.arrived[asked["name"], asked["arguments"]["case"]] += 1
        return self.cases[asked["arguments"]["case"]]

    def arrivals(self):
        with self.lock:
            return self.arrived.copy()

    def over_http(self, request):
        answer = self.take(request).answer
        return answer(request) if callable(answer) else answer


def http_cases(*, is_modern, in_session, as_events):
    cases = {
        name: Case(rpc_answer(case.answer, as_events=as_events), case.expected, case.arrivals)
        for name, case in rpc_cases()
    }
    if not as_events:
        cases |= dict(statuses(is_modern, in_session))
        cases |= dict(of_gateways(in_session))
        cases |= dict(broken())
    if is_modern:
        for code, sent in ((-32020, 2), (-32021, 1), (-32022, ATTEMPTS)):
            answer = rpc_answer(error(code, "no", {"supported": [MODERN]}), 400)
            cases[f"{code} of 2026-07-28"] = Case(answer, REFUSED, sent)
    return cases


def sse_cases():
    cases = {
        name: case
        for name, case in statuses(False, False)
        if not 200 <= int(name[:3]) < 300 and "-32" not in name
    }
    lost = {
        name: Case(case.answer, REFUSED, ATTEMPTS) for name, case in cases.items() if name.startswith("404")
    }
    return cases | lost | dict(rpc_cases()) | {"the stream ends": Case(None, UNKNOWN)}


class CountingSse(SseServer):
    """Answers over the stream, or with the status of the POST."""

    def __init__(self, counting):
        super().__init__({"tools/list": LISTED})
        self._counting = counting

    def _post(self, request):
        if request.rpc != "tools/call":
            return super()._post(request)
        answer = self._counting.take(request).answer
        if answer is None:
            self.push(b"")  # the end of the chunks
            return http(202)
        if isinstance(answer, list):
            return answer
        if not is_error(answer):
            self.answer(request, answer)
        else:
            self.push(event({"jsonrpc": "2.0", "id": request.json["id"], "error": answer}, name="message"))
        return http(202)


def check(tmp_path, connect, url, cases, arrivals):
    """Makes all calls, resumes the run, and lists what is not as expected."""
    wrong = []
    route = ServerRoute(url=url)
    file = tmp_path / "1.jsonl"

    def plans(run):
        listed = run.definitions.listing(route)
        for name in TOOLS:
            tool = pinned_tool(listed[name], route, shown_name=name)
            for case in cases:
                yield name, case, PlannedCall(tool=tool, arguments={"case": case}, input_row=f"{name} {case}")

    def compare(name, label, found, expected, said=""):
        if found != expected:
            wrong.append(f"{name}, {label}: {found}, not {expected}: {said}")

    run = new_run(connect).open_journal(file)
    with run.pool:
        for name, label, plan in plans(run):
            case = cases[label]
            outcome = run.call(plan).record
            said = outcome.error or ""
            harmless = TOOLS[name] is not None
            status = case.expected
            if status == REFUSED or (status == UNKNOWN and harmless):
                status = FAILED
            if status == FAILED and outcome.status == "not found":
                status = "not found"  # in the words of some servers, see `ToolCalls`
            compare(name, label, str(outcome.status), status, said)
            compare(name, f"{label}: what is said", MAY_HAVE_RUN in said, status == UNKNOWN, said)
            if status == UNKNOWN and REPEATING.search(said.replace(MAY_HAVE_RUN, "")):
                wrong.append(f"{name}, {label}: advises to repeat it: {said}")
            often = arrivals()[name, label]
            # A call that crosses the end of a kept connection may be made again, if it is harmless. A session
            # that an earlier call lost counts for that call only.
            crossed = case.expected == UNKNOWN and harmless and often == ATTEMPTS
            lost = case.arrivals == ATTEMPTS and often == ATTEMPTS + 1
            if not crossed and not lost:
                compare(name, f"{label}: arrivals", often, case.arrivals, said)
    run.close("failed")
    before = arrivals()
    again = new_run(connect).open_journal(tmp_path / "2.jsonl")
    earlier = EarlierRun(to_resume(file), again)
    with again.pool:
        made = list(plans(again))
        earlier.take_over(plan for _, _, plan in made)
        for name, label, plan in made:
            if earlier.find(plan) is None:
                again.call(plan)
            expected = cases[label].expected
            is_final = expected == OK or (expected == UNKNOWN and TOOLS[name] is None)
            was = arrivals()[name, label] == before[name, label]
            compare(name, f"{label}: not made again by a resumed run", was, is_final)
    again.close("complete")
    return wrong


WAYS = {
    "JSON in a session": {"is_modern": False, "in_session": True, "as_events": False},
    "JSON without a session": {"is_modern": False, "in_session": False, "as_events": False},
    "JSON of 2026-07-28": {"is_modern": True, "in_session": False, "as_events": False},
    "events in a session": {"is_modern": False, "in_session": True, "as_events": True},
    "events of 2026-07-28": {"is_modern": True, "in_session": False, "as_events": True},
}


def connecting(route):
    limits = Limits(attempts=ATTEMPTS)
    return MCPClient(route.url, limits=limits, timeouts=Timeouts(connect=60, idle=80, total=100))


# Over JSON each is a mixture of the other two.
@pytest.mark.parametrize(
    "way",
    [pytest.param(way, marks=pytest.mark.long) if way == "JSON without a session" else way for way in WAYS],
)
def test_no_call_over_http_is_made_twice_that_may_have_run(way, tmp_path):
    form = WAYS[way]
    counting = Counting(http_cases(**form))
    replies = {"tools__call": counting.over_http, "tools__list": rpc(LISTED)}
    script = (
        modern(**replies)
        if form["is_modern"]
        else legacy(session="s" if form["in_session"] else None, version=LEGACY, **replies)
    )
    with ScriptedServer(script) as server:
        wrong = check(tmp_path, connecting, server.url, counting.cases, counting.arrivals)
    assert not wrong, "\n".join(wrong)


def test_no_call_over_the_old_transport_is_made_twice_that_may_have_run(tmp_path):
    counting = Counting(sse_cases())
    with CountingSse(counting) as server:
        wrong = check(tmp_path, connecting, server.url, counting.cases, counting.arrivals)
    assert not wrong, "\n".join(wrong)


CHILD = """
import json, sys
cases, arrived = json.load(open(sys.argv[1])), open(sys.argv[2], "a")
for line in sys.stdin:
    asked = json.loads(line)
    if "id" not in asked:
        continue
    reply = {"jsonrpc": "2.0", "id": asked["id"]}
    match asked["method"]:
        case "initialize":
            server, offered = {"name": "child", "version": "1"}, {"tools": {}}
            reply["result"] = {"protocolVersion": "2025-11-25", "capabilities": offered, "serverInfo": server}
        case "tools/list":
            reply["result"] = cases["listed"]
        case "tools/call":
            name, case = asked["params"]["name"], asked["params"]["arguments"]["case"]
            print(json.dumps([name, case]), file=arrived, flush=True)
            reply[cases["members"][case]] = cases["answers"][case]
        case _:
            reply["error"] = {"code": -32601, "message": "Method not found"}
    text = json.dumps(reply)
    if reply.get("result") == "half a line":
        sys.stdout.write(text[:20])
    if reply.get("result") in ("dies", "half a line"):
        sys.stdout.flush()
        sys.exit(3)
    print(text, flush=True)
"""


def test_no_call_of_a_process_is_made_twice_that_may_have_run(tmp_path):
    cases = dict(rpc_cases()) | {each: Case(each, UNKNOWN) for each in ("dies", "half a line")}
    members = {name: "error" if is_error(case.answer) else "result" for name, case in cases.items()}
    answers = {name: case.answer for name, case in cases.items()}
    script, arrived = tmp_path / "cases.json", tmp_path / "arrived.txt"
    script.write_text(json.dumps({"listed": LISTED, "members": members, "answers": answers}))
    command = [sys.executable, "-SI", "-c", CHILD, str(script), str(arrived)]

    def connect(_route):
        return MCPClient(stdio=StdioServer("child", command), limits=Limits(attempts=ATTEMPTS))

    def arrivals():
        return Counter(tuple(json.loads(line)) for line in arrived.read_text().splitlines())

    wrong = check(tmp_path, connect, "stdio:child", cases, arrivals)
    assert not wrong, "\n".join(wrong)


def test_a_call_that_is_canceled_after_it_arrived_is_not_made_again(tmp_path):
    """Nobody waits for the clocks here: a call whose clock runs out is one that nobody waits for any more."""
    counting = Counting({"silence": Case([Part.STALL], UNKNOWN)})
    script = modern(tools__call=counting.over_http, tools__list=rpc(LISTED))
    file = tmp_path / "1.jsonl"
    with ScriptedServer(script) as server:
        route = ServerRoute(url=server.url)

        def run_once(run, earlier=None):
            listed = run.definitions.listing(route)
            tool = pinned_tool(listed["creates"], route, shown_name="creates")
            if earlier is not None:
                EarlierRun(to_resume(earlier), run)
            plan = PlannedCall(tool=tool, arguments={"case": "silence"}, input_row="1")
            with run.pool:
                return run.call(plan, is_canceled=lambda: bool(counting.arrivals())).record

        run = new_run(connecting).open_journal(file)
        assert str(run_once(run).status) == "canceled"
        run.close("canceled")
        assert str(run_once(new_run(connecting), file).status) == UNKNOWN
    assert counting.arrivals() == {("creates", "silence"): 1}
