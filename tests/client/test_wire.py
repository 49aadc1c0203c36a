"""All that the client writes on the wire is what `wire.txt` says, byte for byte.

What differs from run to run (ports, ids, tokens, our version) has a name in ``<>`` there. After a change
that is meant, ``python -m tests.client.test_wire`` writes the file anew, and the commit shows what is sent.
"""

import base64
import contextlib
import difflib
import functools
import json
import re
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from knime_mcp.client.authorization import BearerAuth
from knime_mcp.client.conversation import memory
from knime_mcp.client.mcp_client import MCPClient, StdioServer
from knime_mcp.client.oauth.grants import AuthorizationCode, ClientCredentials, Grant
from knime_mcp.client.oauth.logins import RegisteredClient
from knime_mcp.client.oauth.oauth import OAuth
from knime_mcp.client.protocol.negotiation import ALL_VERSIONS, MODERN_VERSIONS
from knime_mcp.types.errors import MCPError
from knime_mcp.version import VERSION
from tests.client import wire_child
from tests.client.oauth.world import CANARY, Canned, Person, World, open_world
from tests.client.wire_child import Replies, replies_to
from tests.support.scripted_server import (
    ACCEPTED,
    Part,
    Request,
    ScriptedServer,
    event,
    http,
    reply_event,
    stream,
    text,
)

WIRE = Path(__file__).with_name("wire.txt")
_HANG_SECONDS = 30  # for what is due; if it never comes, the recording shows that
_QUESTION: dict[str, Any] = {
    "method": "elicitation/create",
    "params": {
        "message": "Who?",
        "requestedSchema": {"type": "object", "properties": {"name": {"type": "string", "default": "Ö"}}},
    },
}
_ASKED = [{"method": "ping"}, _QUESTION, {"method": "roots/list"}]  # the client has no roots
_MIRRORED = {
    "region": {"type": "string", "x-mcp-header": "Region"},
    "deep": {"type": "object", "properties": {"n": {"type": "integer", "x-mcp-header": "Deep-N"}}},
    "flag": {"type": "boolean", "x-mcp-header": "Flag"},
}
_ARGUMENTS = {
    "region": "Zürich",
    "deep": {"n": 42},
    "flag": False,
    "rate": 1e-7,
    "text": 'a"\\\n\u2028é',
    "no": None,
}
# What OAuth proves with is random or a time.
_RANDOM_CLAIMS = {"iat", "exp", "nbf", "jti", "ath", "content_digest", "x", "y"}
_CHANGING = (
    r'(?P<id>(?<="id":)\d+|(?<="requestId":)\d+|(?<="progressToken":)\d+)'
    r"|(?P<port>(?<=127\.0\.0\.1:)\d{5}|(?<=127\.0\.0\.1%3A)\d{5})"
    + "".join(f"|(?P<{kind}>{kind}-{CANARY}-[0-9a-f]{{8}})" for kind in ("code", "access", "refresh"))
)
Arrived = Callable[[], list[bytes]]
Step = tuple[str, int, Callable[[], object]]
"""A name, the number of messages that are due, and what makes the client send them."""


def table_of(version: str) -> Replies:
    """What servers of a revision say, by method and the name, cursor or state in it."""
    is_modern = version in MODERN_VERSIONS
    capabilities: dict[str, Any] = {"tools": {"listChanged": True}, "resources": {}, "prompts": {}}
    if version == "2025-11-25":
        capabilities["tasks"] = {"requests": {"tools": {"call": {}}}}
    tools: list[dict[str, Any]] = [
        {"name": "größe/get", "inputSchema": {"type": "object", "properties": _MIRRORED}},
        {"name": "long", "inputSchema": {"type": "object"}, "execution": {"taskSupport": "required"}},
    ]
    task = {"taskId": "t/1", "pollInterval": 50, "pollIntervalMs": 50}

    def result(**members: Any) -> list[dict[str, Any]]:
        return [{"jsonrpc": "2.0", "result": members}]

    both = {
        "tools/list": result(tools=tools[:1], nextCursor="2/ä", ttlMs=60_000),
        "tools/list 2/ä": result(tools=tools[1:], ttlMs=60_000),
        "tools/call größe/get": result(**text("done")),
        "resources/list": result(resources=[]),
        "resources/templates/list": result(resourceTemplates=[]),
        "resources/read": result(contents=[]),
        "prompts/list": result(prompts=[]),
        "prompts/get greet": result(messages=[]),
    }
    if is_modern:
        return both | {
            "server/discover": result(supportedVersions=[version], capabilities=capabilities),
            "tools/call elicitation/create": result(
                resultType="input_required", requestState="s/1", inputRequests={"who": _QUESTION}
            ),
            "tools/call elicitation/create s/1": result(**text("done")),
            "tools/call long": result(**task, status="working", resultType="task"),
            "tasks/get": result(**task, status="completed", result=text("done")),
        }
    unknown = {"jsonrpc": "2.0", "error": {"code": -32601, "message": "no"}}
    asked = {
        f"tools/call {each['method']}": [{"jsonrpc": "2.0", "id": "s-1", **each}, *result(**text("done"))]
        for each in _ASKED
    }
    return (
        both
        | asked
        | {
            "server/discover": [unknown],
            "initialize": result(protocolVersion=version, capabilities=capabilities),
            "tools/call long": result(task={**task, "status": "working"}),
            "tasks/get": result(**task, status="completed"),
            "tasks/result": result(**text("done")),
        }
    )


def steps_of(client: MCPClient, version: str, arrived: Arrived, *, kind: str) -> Iterator[Step]:
    """Everything that a client can be asked for."""
    is_modern = version in MODERN_VERSIONS

    def call_and_cancel() -> None:
        before = len(arrived())
        client.call_tool("hang", is_canceled=lambda: len(arrived()) > before)

    yield "connect", 1 if is_modern else 3, client.connect
    if is_modern or kind == "http":
        yield "listen", 1, client.watch_tools
    yield "list two pages of tools", 2, client.list_tools
    yield (
        "call with arguments, metadata and progress",
        1,
        lambda: client.call_tool(
            "größe/get", _ARGUMENTS, on_progress=lambda _: None, meta={"com.example/trace": "t-1"}
        ),
    )
    yield "cancel a call", 1 if is_modern and kind == "http" else 2, call_and_cancel
    if kind == "http" and not is_modern:
        yield "resume a call", 2, lambda: client.call_tool("break")
    for each in [_QUESTION] if is_modern else _ASKED:
        yield f"answer {each['method']}", 2, functools.partial(client.call_tool, each["method"])
    if version >= "2025-11-25":
        yield "call as a task", 2 if is_modern else 3, lambda: client.call_tool("long")
    yield "list resources", 2, client.list_resources
    yield "read a resource", 1, lambda: client.read_resource("file:///a b")
    yield "list prompts", 1, client.list_prompts
    yield "get a prompt", 1, lambda: client.get_prompt("greet", {"who": "Ö"})
    # Over stdio, the modern subscription is canceled.
    yield "close", int({"http": not is_modern, "sse": False, "stdio": is_modern}[kind]), client.close


def recorded(title: str, client: MCPClient, steps: Iterable[Step], arrived: Arrived) -> str:
    """The messages of each step; those that come from another thread are waited for."""
    memory.clear()
    lines = [f"######## {title}"]
    with contextlib.closing(client):
        for name, due, step in steps:
            before = len(arrived())
            error = ""
            try:
                step()
            except MCPError as raised:
                error = f" ({type(raised).__name__})"
            deadline = time.monotonic() + _HANG_SECONDS
            while len(arrived()) < before + due and time.monotonic() < deadline:
                time.sleep(0.002)
            lines += [f"==== {name}{error}", *map(readable, arrived()[before:])]
    return stable("\n".join(lines))


def readable(raw: bytes) -> str:
    head, blank, body = raw.partition(b"\r\n\r\n")
    if not blank:
        return raw.decode()
    assert head.count(b"\n") == head.count(b"\r\n")
    head = re.sub(rb"(?<=Content-Length: )%d(?=\r|$)" % len(body), b"<of the body>", head)
    return (head.replace(b"\r\n", b"\n") + (b"\n\n" + body if body else b"") + b"\n").decode()


def stable(sent: str) -> str:
    """Gives names to what differs from run to run: the same name to what is the same."""
    sent = sent.replace(f"knime-mcp/{VERSION}", "knime-mcp/<version>")
    sent = sent.replace(f'"version":"{VERSION}"', '"version":"<version>"')
    sent = re.sub(r"\b(state|code_challenge|code_verifier)=[\w.~-]{32,}", r"\1=<random>", sent)
    sent = re.sub(r"\bey[\w-]+\.ey[\w-]+\.[\w-]+", _claims, sent)
    names: dict[str, dict[str, str]] = {}

    def name(match: re.Match[str]) -> str:
        kind = match.lastgroup or ""
        known = names.setdefault(kind, {})
        return known.setdefault(match[0], f"<{kind} {len(known) + 1}>")

    return re.sub(_CHANGING, name, sent)


def _claims(match: re.Match[str]) -> str:
    """What a JWT says, without what is random in it or a time."""
    parts = [json.loads(base64.urlsafe_b64decode(part + "==")) for part in match[0].split(".")[:2]]
    jwk = parts[0].get("jwk", {})
    for claims in (*parts, jwk):
        claims.update(dict.fromkeys(_RANDOM_CLAIMS & claims.keys(), "<>"))
    return "<{} {}>".format(*map(json.dumps, parts))


def over_http(version: str) -> str:
    table = table_of(version)
    session = {} if version in MODERN_VERSIONS else {"Mcp-Session-Id": "session-1"}
    held = stream(Part.EVENTS, end=False)

    def reply(request: Request) -> Any:
        match replies_to(request.json, table):
            case [message]:
                headers = session if request.rpc == "initialize" else {}
                return http(200, json.dumps(message), headers=headers)
            case [_, *_] as messages:
                return stream(*map(event, messages))(request)
            case _ if "id" not in request.json or request.rpc == "response":
                return ACCEPTED
        if request.params["name"] == "break":
            return stream(event("", id="e/1", retry=20))(request)
        return [Part.STALL]

    def listen(request: Request) -> Any:
        if "last-event-id" not in request.headers:
            return held(request)
        return stream(reply_event(text("resumed"))(server.named("tools/call")[-1]))(request)

    script = {"GET": listen, "subscriptions/listen": held, "DELETE": http(200), "*": reply}
    with ScriptedServer(script) as server:
        client, arrived = MCPClient(server.url, elicitation="defaults"), arrived_at(server)
        steps = steps_of(client, version, arrived, kind="http")
        return recorded(f"{version} over HTTP", client, steps, arrived)


def arrived_at(server: ScriptedServer) -> Arrived:
    return lambda: [request.raw for request in server.requests]


def over_sse(version: str) -> str:
    table = table_of(version)

    def reply(request: Request) -> Any:
        if request.method == "GET":
            return stream(event("/messages?session=1", name="endpoint"), Part.EVENTS, end=False)(request)
        for each in replies_to(request.json, table):
            server.push(event(each, name="message"))
        return ACCEPTED

    with ScriptedServer({"*": reply}, path="/sse") as server:
        client, arrived = MCPClient(server.url, elicitation="defaults"), arrived_at(server)
        steps = steps_of(client, version, arrived, kind="sse")
        return recorded(f"{version} over HTTP+SSE", client, steps, arrived)


def over_stdio(version: str) -> str:
    with tempfile.TemporaryDirectory() as folder:
        kept = Path(folder, "lines")
        kept.touch()
        table = json.dumps(table_of(version))
        command = [sys.executable, "-ISs", wire_child.__file__, str(kept), table]
        # The child may take longer to start than a client waits before it tries another era.
        wanted = version if version in MODERN_VERSIONS else None
        server = StdioServer("child", command)
        client = MCPClient(stdio=server, elicitation="defaults", protocol_version=wanted)

        def arrived() -> list[bytes]:
            return kept.read_bytes().split(b"\n")[:-1]

        steps = steps_of(client, version, arrived, kind="stdio")
        return recorded(f"{version} over stdio", client, steps, arrived)


def pinned(version: str) -> str:
    """The first request says which revision is wanted, if only one is."""
    with ScriptedServer({"*": http(400)}) as server:
        client = MCPClient(server.url, protocol_version=version, transport="http")
        return recorded(f"{version} pinned", client, [("connect", 1, client.connect)], arrived_at(server))


def with_headers(version: str) -> str:
    """A caller's token and headers, and a server's cookie."""
    table = table_of(version)

    def reply(request: Request) -> Any:
        replies = replies_to(request.json, table)
        cookie = {"Set-Cookie": "machine=7; Path=/"}
        return http(200, json.dumps(replies[0]), headers=cookie) if replies else ACCEPTED

    with ScriptedServer({"*": reply}) as server:
        client = MCPClient(server.url, auth=BearerAuth("token-of-mine"), headers={"x-TEAM": "blue"})
        call = functools.partial(client.call_tool, "größe/get")
        steps = [("connect", 1, client.connect), ("call", 1, call)]
        return recorded(f"{version} with a token, a header and a cookie", client, steps, arrived_at(server))


def login(
    title: str,
    version: str,
    *,
    grant: Grant | None = None,
    change: Callable[[World], object] = lambda _: None,
) -> str:
    """A login, the renewal of a token that is refused, and a call that needs more rights."""
    table = table_of(version)

    def speak(message: dict[str, Any]) -> Canned:
        replies = replies_to(message, table)
        return Canned(body=replies[0]) if replies else Canned(202)

    with open_world() as world:
        world.speak = speak
        change(world)
        authorization = OAuth(world.url, grant or AuthorizationCode(Person()), issuer=world.auth.issuer)
        client = MCPClient(world.url, auth=authorization, protocol_version=version)

        def arrived() -> list[bytes]:
            seen = sorted([*world.mcp.seen, *world.auth.http.seen], key=lambda each: each.at)
            # A browser opens the page of the login; its headers are not ours.
            return [
                each.raw.partition(b"\r\n")[0] + b"\n" if "authorize" in each.path else each.raw
                for each in seen
            ]

        call = functools.partial(client.call_tool, "größe/get")

        def renew() -> None:
            world.expire_all()
            call()

        def step_up() -> None:
            world.needed["tools/call"] = "write"
            call()

        steps = [("log in", 1, client.connect), ("renew", 1, renew), ("get more rights", 1, step_up)]
        # A refused login is not tried again at once.
        return recorded(title, client, steps if world.resource_metadata else steps[:1], arrived)


def _bind_tokens(world: World) -> None:
    world.auth.binds = True
    world.nonce = world.auth.nonce = "nonce-1"
    world.auth.metadata["dpop_signing_alg_values_supported"] = ["ES256"]
    world.challenge = f'DPoP resource_metadata="{world.mcp.url}{world.metadata_path}"'


def _publish_nothing(world: World) -> None:
    world.challenge = world.resource_metadata = None
    world.auth.metadata_paths = set()


def wire() -> str:
    """All that is sent. The dialogs run side by side, so that what never comes is waited for only once."""
    secret = ClientCredentials(RegisteredClient("robot", "s3cr3t"))
    old, new = ALL_VERSIONS[1], ALL_VERSIONS[-1]
    dialogs = [
        *(functools.partial(over_http, version) for version in ALL_VERSIONS),
        functools.partial(over_sse, ALL_VERSIONS[0]),
        *(functools.partial(over_stdio, version) for version in ALL_VERSIONS),
        *(functools.partial(pinned, version) for version in ALL_VERSIONS),
        *(functools.partial(with_headers, version) for version in ALL_VERSIONS[-2:]),
        *(functools.partial(login, f"{version} with a login", version) for version in ALL_VERSIONS),
        functools.partial(login, "Tokens that are bound to a key", new, change=_bind_tokens),
        functools.partial(login, "Nothing says where to log in", old, change=_publish_nothing),
        functools.partial(login, "A program logs in by its secret", new, grant=secret),
    ]
    with ThreadPoolExecutor(len(dialogs)) as threads:
        return "\n\n".join(threads.map(lambda dialog: dialog(), dialogs))


def test_what_is_sent_is_what_was_written_down():
    was, now = WIRE.read_bytes().decode().split("\n"), wire().split("\n")
    changes = "\n".join(difflib.unified_diff(was, now, WIRE.name, "sent now", lineterm="", n=6))
    assert not changes, f"If all of it is intended: python -m {__spec__.name}\n{changes}"


if __name__ == "__main__":
    WIRE.write_bytes(wire().encode())
