"""Groups 6 to 11: messages, the beginning of a session, lists of tools, results, other servers, and processes."""

import json

from tests.support.scripted_server import Part, http, initialize, rpc, rpc_error, text, tool

from .scenario import SPECIFICATION, TOOLS, Scenario, group, reply_text, result, server

MESSAGES = f"{SPECIFICATION}basic#messages"
LIFECYCLE = f"{SPECIFICATION}basic/lifecycle#initialization"
VERSIONS = f"{SPECIFICATION}basic/lifecycle#version-negotiation"
SESSIONS = f"{SPECIFICATION}basic/transports#session-management"
PAGES = f"{SPECIFICATION}server/utilities/pagination"
TOOL = f"{SPECIFICATION}server/tools"
STDIO = f"{SPECIFICATION}basic/transports#stdio"
SHUTDOWN = f"{SPECIFICATION}basic/lifecycle#shutdown"
LOGIN = f"{SPECIFICATION}basic/authorization"
TOKENS = f"{SPECIFICATION}basic/authorization#token-handling"
ERROR = "An error response is an error of this call, whatever is in it."
OWN = "Responses belong to their requests by id."
LOSS = "A session that the server has lost is begun anew, or ends in an error."
CURSOR = "Cursors are opaque, and pages are read until there is no cursor."
BOUND = "What a server can make a client repeat is bounded."
BLOCK = "Content is a list of blocks of known kinds; what is unknown costs at most itself."
SCHEMA = "Structured content is checked against the declared schema; schemas are data of strangers."
ELSEWHERE = "Credentials, headers and arguments go to the server's own origin only."
LINE = "A message is a line; what a server writes beside messages is noise."
PROCESS = "A process that ends, or says nothing, ends its calls."
ONLY_CONNECT = {"then": False}


def error(value):
    return lambda r: http(200, json.dumps({"jsonrpc": "2.0", "id": r.json["id"], "error": value}))


def messages():
    whole = '{"content": [{"type": "text", "text": "hi"}]}'
    return group(
        6,
        MESSAGES,
        [
            ("an error", ERROR, rpc_error(-32000, "no"), "fails"),
            ("an error with data", ERROR, rpc_error(-32000, "no", {"a": [1, {"b": None}]}), "fails"),
            ("an error of code 0", ERROR, rpc_error(0, ""), "fails"),
            (
                "an error of a code beyond all numbers",
                ERROR,
                reply_text('{"jsonrpc": "2.0", "id": @, "error": {"code": 1e400, "message": "no"}}'),
                "fails",
            ),
            ("an error whose code is text", ERROR, error({"code": "E_NO", "message": "no"}), "fails"),
            ("an error without a message", ERROR, error({"code": -32000}), "fails"),
            ("an error that is text", ERROR, error("no"), "fails"),
            (
                "an error that is null, and a result",
                ERROR,
                reply_text('{"jsonrpc": "2.0", "id": @, "error": null, "result": %s}' % whole),
                "ends",
            ),
            (
                "an error and a result",
                ERROR,
                reply_text(
                    '{"jsonrpc": "2.0", "id": @, "error": {"code": 1, "message": "no"}, "result": %s}' % whole
                ),
                "ends",
            ),
            (
                "an error without an id",
                ERROR,
                reply_text('{"jsonrpc": "2.0", "id": null, "error": {"code": -32700, "message": "no"}}'),
                "fails",
            ),
            ("method not found", ERROR, rpc_error(-32601, "Method not found"), "fails"),
            (
                "the id as text",
                OWN,
                reply_text('{"jsonrpc": "2.0", "id": "@", "result": %s}' % whole),
                "ends",
            ),
            (
                "another id",
                OWN,
                reply_text('{"jsonrpc": "2.0", "id": 987654, "result": %s}' % whole),
                "fails",
            ),
            ("no id", OWN, reply_text('{"jsonrpc": "2.0", "result": %s}' % whole), "ends"),
            (
                "no version of JSON-RPC",
                "Messages name the version 2.0.",
                reply_text('{"id": @, "result": %s}' % whole),
                "ends",
            ),
            (
                "a wrong version of JSON-RPC",
                "Messages name the version 2.0.",
                reply_text('{"jsonrpc": "1.0", "id": @, "result": %s}' % whole),
                "ends",
            ),
            (
                "a list of messages",
                "Revision 2025-06-18 removed lists of messages.",
                reply_text('[{"jsonrpc": "2.0", "id": @, "result": %s}]' % whole),
                "ends",
            ),
            (
                "a request instead of a response",
                OWN,
                reply_text('{"jsonrpc": "2.0", "id": @, "method": "ping"}'),
                "fails",
            ),
            ("a result that is null", "A result of a call is an object.", result("null"), "ends"),
            ("a result that is text", "A result of a call is an object.", result('"hi"'), "ends"),
            ("a result that is a list", "A result of a call is an object.", result("[1]"), "ends"),
            (
                "members that nobody knows",
                "Unknown members are ignored.",
                reply_text(
                    '{"jsonrpc": "2.0", "id": @, "x": 1, "result": {"content": [{"type": "text", "text": "hi", "y": 2}], "z": 3}}'
                ),
                "works:hi",
            ),
        ],
    )


def beginnings():
    def said(**more):
        return server(initialize=initialize(**more))

    def greeting(body):
        return server(initialize=result(body))

    def lost(status):
        def reply(request):
            if once_lost.pop("yes", None):
                return http(status, "no session", content_type="text/plain")
            return rpc(text("hi"))(request)

        once_lost = {"yes": True}
        return reply

    return group(
        7,
        LIFECYCLE,
        [
            (
                "agrees on 2025-11-25",
                "The client takes the revision that both speak.",
                server(rpc(text("hi"))),
                "works:hi",
                {"section": VERSIONS},
            ),
            (
                "answers 2025-06-18",
                "A server may answer an older revision.",
                server(rpc(text("hi")), initialize=initialize("2025-06-18")),
                "works:hi",
                {"section": VERSIONS},
            ),
            (
                "answers 2025-03-26",
                "A server may answer an older revision.",
                server(rpc(text("hi")), initialize=initialize("2025-03-26")),
                "works:hi",
                {"section": VERSIONS},
            ),
            (
                "answers 2024-11-05",
                "A server may answer an older revision.",
                server(rpc(text("hi")), initialize=initialize("2024-11-05")),
                "ends",
                {"section": VERSIONS, "then": False},
            ),
            (
                "answers a revision that does not exist",
                "A client that does not speak the revision disconnects.",
                server(initialize=initialize("1999-01-01")),
                "refuses",
                {"section": VERSIONS, "then": False},
            ),
            (
                "answers a number as revision",
                "A client that does not speak the revision disconnects.",
                greeting(
                    '{"protocolVersion": 7, "capabilities": {"tools": {}}, "serverInfo": {"name": "a", "version": "1"}}'
                ),
                "refuses",
                {"section": VERSIONS, "then": False},
            ),
            (
                "has no description of itself",
                "What is required may be missing; the session may go on.",
                greeting('{"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}}'),
                "ends",
                ONLY_CONNECT,
            ),
            (
                "has no capabilities",
                "Capabilities are required; the session may go on.",
                greeting('{"protocolVersion": "2025-11-25", "serverInfo": {"name": "a", "version": "1"}}'),
                "ends",
                ONLY_CONNECT,
            ),
            ("greets with null", "A greeting is an object.", greeting("null"), "refuses", ONLY_CONNECT),
            (
                "greets with an error",
                "An error ends the beginning.",
                server(initialize=rpc_error(-32603, "broken")),
                "refuses",
                ONLY_CONNECT,
            ),
            (
                "greets with a web page",
                "A greeting is a message.",
                server(initialize=http(200, "<html>hi</html>", content_type="text/html")),
                "refuses",
                ONLY_CONNECT,
            ),
            (
                "greets with silence",
                "The beginning has a clock, too.",
                server(initialize=[Part.STALL], **{"server/discover": [Part.STALL]}),
                "refuses",
                ONLY_CONNECT,
            ),
            (
                "closes instead of a greeting",
                "The beginning has errors, too.",
                server(initialize=[Part.CLOSE], **{"server/discover": [Part.CLOSE]}),
                "refuses",
                ONLY_CONNECT,
            ),
            (
                "greets with 404",
                "There is no server at the address.",
                server(initialize=http(404), **{"server/discover": http(404)}),
                "refuses",
                ONLY_CONNECT,
            ),
            (
                "refuses the notification that all is ready",
                "Notifications have no answer.",
                server(rpc(text("hi")), notifications__initialized=http(200, "{}")),
                "works:hi",
            ),
            (
                "answers that notification with 500",
                "Notifications have no answer.",
                server(rpc(text("hi")), notifications__initialized=http(500)),
                "ends",
                ONLY_CONNECT,
            ),
            (
                "does not answer that notification",
                "Notifications have no answer; a client may stop waiting.",
                server(rpc(text("hi")), notifications__initialized=[Part.STALL]),
                "ends",
                ONLY_CONNECT,
            ),
            (
                "has a session id of 5 KB",
                "Session ids are visible ASCII of any length.",
                server(rpc(text("hi")), initialize=initialize(session="s" * 5000)),
                "works:hi",
                {"section": SESSIONS},
            ),
            (
                "has a session id with blanks",
                "Session ids are visible ASCII.",
                server(rpc(text("hi")), initialize=initialize(session="a b")),
                "ends",
                {"section": SESSIONS, "then": False},
            ),
            ("loses the session with 404", LOSS, lost(404), "ends", {"section": SESSIONS, "then": False}),
            ("refuses every call with 404", LOSS, http(404), "fails", {"section": SESSIONS, "then": False}),
            (
                "refuses the end of the session",
                "405 means that clients cannot end sessions.",
                server(rpc(text("hi")), initialize=initialize(session="s1"), DELETE=http(405)),
                "works:hi",
                {"section": SESSIONS},
            ),
            (
                "does not answer the end of the session",
                "A client that ends does not wait.",
                server(rpc(text("hi")), initialize=initialize(session="s1"), DELETE=[Part.STALL]),
                "works:hi",
                {"section": SESSIONS},
            ),
            (
                "closes its own stream at once",
                "The stream for messages of the server is optional.",
                server(rpc(text("hi")), GET=[Part.CLOSE]),
                "works:hi",
            ),
            (
                "stalls its own stream",
                "The stream for messages of the server is optional.",
                server(rpc(text("hi")), GET=[Part.STALL]),
                "works:hi",
            ),
            (
                "sends a web page as its own stream",
                "The stream for messages of the server is optional.",
                server(rpc(text("hi")), GET=http(200, "<html>", content_type="text/html")),
                "works:hi",
            ),
        ],
    )


def lists():
    def page(tools, **more):
        return server(tools__list=rpc({"tools": tools, **more}))

    def pages(request):
        place = int(request.params.get("cursor", 0))
        more = {"nextCursor": str(place + 1)} if place < 2 else {}
        return rpc({"tools": [tool(f"t{place}")], **more})(request)

    def for_ever(request):
        place = int(request.params.get("cursor", 0))
        return rpc({"tools": [tool(f"t{place}")], "nextCursor": str(place + 1)})(request)

    deep = {"type": "object"}
    for _ in range(150):
        deep = {"type": "object", "properties": {"a": deep}}
    many = [tool(f"t{i}") for i in range(2000)]
    alone = {"then": False}
    return group(
        8,
        TOOL,
        [
            ("two tools", "All tools are listed.", page(TOOLS), "lists:bad,good", alone),
            (
                "three pages",
                CURSOR,
                server(tools__list=pages),
                "lists:t0,t1,t2",
                {"section": PAGES, "then": False},
            ),
            (
                "a cursor that is null",
                CURSOR,
                page(TOOLS, nextCursor=None),
                "lists:bad,good",
                {"section": PAGES, "then": False},
            ),
            (
                "the same cursor for ever",
                BOUND,
                page(TOOLS, nextCursor="1"),
                "ends",
                {"section": PAGES, "then": False},
            ),
            (
                "a new cursor for ever, too fast for a clock of each page",
                BOUND,
                server(tools__list=for_ever),
                "ends",
                {"section": PAGES, "then": False},
            ),
            (
                "2,000 tools",
                "All tools are listed.",
                page(many),
                "lists:" + ",".join(entry["name"] for entry in many),
                alone,
            ),
            ("no list", "A list without tools is malformed.", server(tools__list=rpc({})), "ends", alone),
            (
                "null for a list",
                "A list without tools is malformed.",
                server(tools__list=rpc({"tools": None})),
                "ends",
                alone,
            ),
            ("an error", ERROR, server(tools__list=rpc_error(-32603, "broken")), "refuses", alone),
            ("silence", "Listing has a clock, too.", server(tools__list=[Part.STALL]), "refuses", alone),
            (
                "a tool without a name",
                "A malformed tool costs at most itself.",
                page([*TOOLS, {"inputSchema": {}}]),
                "ends",
                alone,
            ),
            (
                "a tool whose name is a number",
                "A malformed tool costs at most itself.",
                page([*TOOLS, tool(7)]),
                "ends",
                alone,
            ),
            (
                "a tool without a schema",
                "A malformed tool costs at most itself.",
                page([*TOOLS, {"name": "c"}]),
                "ends",
                alone,
            ),
            (
                "a tool whose schema is text",
                "A malformed tool costs at most itself.",
                page([*TOOLS, tool("c", inputSchema="object")]),
                "ends",
                alone,
            ),
            (
                "a tool whose schema is 150 levels deep",
                "Schemas are bounded.",
                page([*TOOLS, tool("c", inputSchema=deep)]),
                "ends",
                alone,
            ),
            (
                "a tool whose schema refers to itself",
                "References are followed with care.",
                page([*TOOLS, tool("c", inputSchema={"type": "object", "properties": {"a": {"$ref": "#"}}})]),
                "ends",
                alone,
            ),
            ("two tools of one name", "Names should be unique.", page([*TOOLS, TOOLS[0]]), "ends", alone),
            (
                "a name of 100 KB",
                "Names are of any length, or refused.",
                page([*TOOLS, tool("n" * 100_000)]),
                "ends",
                alone,
            ),
            (
                "a description with terminal codes",
                "What strangers write is data.",
                page([*TOOLS, tool("c", description="\x1b[2J\x07")]),
                "ends",
                alone,
            ),
            (
                "a tool whose name is on every list of Python's words",
                "What strangers write is data.",
                page([*TOOLS, tool("__class__")]),
                "ends",
                alone,
            ),
        ],
    )


def results():
    def blocks(*content, **more):
        return rpc({"content": list(content), **more})

    hi = {"type": "text", "text": "hi"}

    def typed(schema, value):
        entry = tool("bad", outputSchema=schema, annotations={"readOnlyHint": True})
        return server(
            rpc({**text("hi"), "structuredContent": value}), tools__list=rpc({"tools": [entry, TOOLS[1]]})
        )

    number = {"type": "object", "properties": {"n": {"type": "number"}}, "required": ["n"]}
    power = {"type": "object", "properties": {"s": {"type": "string", "pattern": "^(a+)+$"}}}
    branches = {f"d{i}": {"anyOf": [{"$ref": f"#/$defs/d{i + 1}"}] * 2} for i in range(40)} | {
        "d40": {"type": "null"}
    }
    return group(
        9,
        TOOL,
        [
            ("no content", BLOCK, rpc({}), "ends"),
            ("content that is null", BLOCK, rpc({"content": None}), "ends"),
            ("content that is text", BLOCK, rpc({"content": "hi"}), "ends"),
            ("an empty list of content", BLOCK, blocks(), "works"),
            ("a block that is null", BLOCK, blocks(hi, None), "ends"),
            ("a block without a kind", BLOCK, blocks(hi, {"text": "x"}), "ends"),
            ("a block of an unknown kind", BLOCK, blocks(hi, {"type": "hologram", "x": 1}), "ends"),
            ("a text that is a number", BLOCK, blocks({"type": "text", "text": 7}), "ends"),
            (
                "a text of 5 MB",
                BLOCK,
                blocks({"type": "text", "text": "x" * 5_000_000}),
                "works:" + "x" * 5_000_000,
            ),
            (
                "a picture that is no base64",
                BLOCK,
                blocks(hi, {"type": "image", "data": "%%%", "mimeType": "image/png"}),
                "ends",
            ),
            ("a picture without a type", BLOCK, blocks(hi, {"type": "image", "data": "aGk="}), "ends"),
            (
                "a link to a resource",
                BLOCK,
                blocks(hi, {"type": "resource_link", "uri": "file:///x", "name": "x"}),
                "works:hi",
            ),
            (
                "a link to a resource that is no URL",
                BLOCK,
                blocks(hi, {"type": "resource_link", "uri": "not a url", "name": "x"}),
                "ends",
            ),
            (
                "an embedded resource without content",
                BLOCK,
                blocks(hi, {"type": "resource", "resource": {"uri": "file:///x"}}),
                "ends",
            ),
            ("isError that is text", BLOCK, rpc({**text("hi"), "isError": "yes"}), "ends"),
            (
                "an error of the tool",
                "A tool's own failure is a result that says so.",
                rpc({**text("hi"), "isError": True}),
                "ends",
            ),
            ("structured content that fits", SCHEMA, typed(number, {"n": 1}), "works:hi"),
            ("structured content of another shape", SCHEMA, typed(number, {"n": "one"}), "ends"),
            ("no structured content although there is a schema", SCHEMA, typed(number, None), "ends"),
            ("a schema with a pattern that never ends", SCHEMA, typed(power, {"s": "a" * 40 + "!"}), "ends"),
            (
                "a schema of 2^40 branches",
                SCHEMA,
                typed(
                    {"type": "object", "properties": {"n": {"$ref": "#/$defs/d0"}}, "$defs": branches},
                    {"n": 1},
                ),
                "ends",
            ),
            (
                "a schema with a reference to nowhere",
                SCHEMA,
                typed({"$ref": "#/$defs/none"}, {"n": 1}),
                "ends",
            ),
            (
                "a schema of an unknown dialect",
                SCHEMA,
                typed({"$schema": "https://example.invalid/7", "type": "object"}, {"n": 1}),
                "ends",
            ),
        ],
    )


def elsewhere():
    def redirect(status):
        def script(foreign):
            return server(http(status, headers={"Location": foreign}))(foreign)

        return script

    def metadata(foreign):
        where = f'Bearer resource_metadata="{foreign}/.well-known/oauth-protected-resource"'
        return server(http(401, headers={"WWW-Authenticate": where}))(foreign)

    metadata.__name__ = "script"

    def schema(foreign):
        entry = tool("bad", outputSchema={"$ref": f"{foreign}/schema.json"})
        return server(
            rpc({**text("hi"), "structuredContent": {}}), tools__list=rpc({"tools": [entry, TOOLS[1]]})
        )(foreign)

    schema.__name__ = "script"

    def link(foreign):
        block = {"type": "resource_link", "uri": f"{foreign}/x", "name": "x"}
        return server(rpc({"content": [{"type": "text", "text": "hi"}, block]}))(foreign)

    link.__name__ = "script"

    def icon(foreign):
        entry = tool("c", icons=[{"src": f"{foreign}/icon.png"}])
        return server(rpc(text("hi")), tools__list=rpc({"tools": [*TOOLS, entry]}))(foreign)

    icon.__name__ = "script"
    apart = {"foreign": True}
    return group(
        10,
        LOGIN,
        [
            *[
                (
                    f"{status} to another server",
                    ELSEWHERE,
                    redirect(status),
                    "fails",
                    {**apart, "section": TOKENS},
                )
                for status in (301, 302, 303, 307, 308)
            ],
            ("401 without a challenge", "Without a login, 401 is an error.", http(401), "fails"),
            (
                "401 with a challenge of 8 KB that is none",
                "A challenge that makes no sense is an error.",
                http(401, headers={"WWW-Authenticate": "a" * 8190 + '!"'}),
                "fails",
            ),
            ("401 for ever", BOUND, http(401, headers={"WWW-Authenticate": "Bearer"}), "fails"),
            (
                "403 for a scope",
                "403 says that rights are missing.",
                http(403, headers={"WWW-Authenticate": 'Bearer error="insufficient_scope", scope="a"'}),
                "fails",
            ),
            (
                "401 that names the metadata of another server, to a client without a login",
                ELSEWHERE,
                metadata,
                "fails",
                apart,
            ),
            ("a schema that refers to another server", "Schemas are not fetched.", schema, "ends", apart),
            (
                "a link to another server in a result",
                "Links are not followed unasked.",
                link,
                "works:hi",
                apart,
            ),
            ("an icon on another server", "Pictures are not fetched unasked.", icon, "works:hi", apart),
        ],
    )


def processes():
    rows = [
        ("lines that are no messages", LINE, "noise", "works:hi"),
        ("a greeting before the first message", LINE, "greeting", "works"),
        ("blank lines", LINE, "blank lines", "works:hi"),
        ("carriage returns", LINE, "carriage returns", "works:hi"),
        ("two messages at once", LINE, "two at once", "works:hi"),
        ("a message byte by byte", LINE, "byte by byte", "works:hi"),
        ("2 MB on standard error", "Standard error is a log, and is read.", "standard error", "works:hi"),
        ("bytes that are not UTF-8", LINE, "bytes that are no text", "ends"),
        ("20,000 levels of nesting", LINE, "deep", "fails"),
        ("a line of 200 MB", "A client bounds what it reads.", "endless line", "fails", {"memory": 250}),
        ("a flood of lines that are no messages", PROCESS, "flood of noise", "fails", {"then": False}),
        ("a flood of notifications", PROCESS, "flood of messages", "fails", {"then": False}),
        ("the response of another request first", OWN, "wrong id", "works:hi"),
        ("the id as text", OWN, "id as text", "ends", {"then": False}),
        ("the reply twice", OWN, "reply twice", "works:hi"),
        ("a ping while a call waits", "A ping is answered promptly.", "asks back", "works:hi"),
        ("ends during a call", PROCESS, "ends", "fails", {"then": False}),
        ("ends before it begins", PROCESS, "ends at once", "refuses", {"then": False}),
        (
            "ends after the reply",
            "A reply that has come counts.",
            "ends after the reply",
            "works:hi",
            {"then": False},
        ),
        (
            "ends without the last line end",
            "A message may be taken when the stream ends.",
            "no last line end",
            "ends",
            {"then": False},
        ),
        ("is silent during a call", PROCESS, "silent", "fails", {"then": False}),
        ("is silent from the start", PROCESS, "silent from the start", "refuses", {"then": False}),
        ("closes its output", PROCESS, "closes its output", "fails", {"then": False}),
        (
            "reads no more after the reply",
            "A reply that has come counts.",
            "reads no more",
            "works:hi",
            {"then": False},
        ),
        (
            "leaves a child behind that keeps the pipes",
            "A client that ends does not wait for strangers.",
            "child that stays",
            "works:hi",
            {"section": SHUTDOWN},
        ),
    ]
    return group(11, STDIO, rows)


def scenarios() -> list[Scenario]:
    return [*messages(), *beginnings(), *lists(), *results(), *elsewhere(), *processes()]
