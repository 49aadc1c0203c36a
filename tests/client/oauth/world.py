"""A protected MCP server and its authorization servers on loopback, scripted as data.

Tests change what the servers say before or between requests; `Origin.canned` replaces the answer of any path.
Everything that arrives is kept in `Origin.seen`.
"""

import base64
import hashlib
import io
import json
import secrets
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, parse_qsl, unquote, urlencode, urlsplit

import httpx
import jwt

PRM = "/.well-known/oauth-protected-resource"
ASM = "/.well-known/oauth-authorization-server"
OIDC = "/.well-known/openid-configuration"
CANARY = "canary-4be1f0"  # part of every secret that is made here


@dataclass
class Seen:
    """A request that arrived."""

    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    fields: dict[str, Any]
    body: bytes = b""
    raw: bytes = b""  # as it came from the socket
    at: float = field(default_factory=time.monotonic)


@dataclass
class Canned:
    """An answer that replaces the usual one.

    `drip` sends the body byte by byte with pauses, until the client goes away.
    """

    status: int = 200
    body: bytes | dict[str, Any] = b""
    headers: dict[str, str] = field(default_factory=dict)
    drip: float = 0.0


def in_trouble(status: int, body: bytes | dict[str, Any] = b"") -> Canned:
    """A server that is in trouble, and may be asked again at once."""
    return Canned(status, body, {"Retry-After": "0"})


class _Kept(socket.SocketIO):
    """Keeps what is read."""

    def __init__(self, sock: socket.socket) -> None:
        super().__init__(sock, "r")
        self.raw = b""

    def readinto(self, buffer: Any) -> int | None:
        count = super().readinto(buffer)
        self.raw += bytes(buffer[: count or 0])
        return count


class Origin:
    """One HTTP server; `answer` says what it does."""

    def __init__(self, answer: Callable[["Origin", Seen], Canned]) -> None:
        self.seen: list[Seen] = []
        self.canned: dict[str, Canned] = {}
        self._answer = answer
        origin = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            timeout = 10

            def setup(self) -> None:
                super().setup()
                self.kept = _Kept(self.connection)
                self.rfile = io.BufferedReader(self.kept)

            def handle_any(self) -> None:
                length = int(self.headers.get("content-length") or 0)
                body = self.rfile.read(length)
                parts = urlsplit(self.path)
                seen = Seen(
                    self.command,
                    parts.path,
                    {name: values[0] for name, values in parse_qs(parts.query).items()},
                    {name.lower(): value for name, value in self.headers.items()},
                    read_body(self.headers.get("content-type", ""), body),
                    body,
                    self.kept.raw,
                )
                self.kept.raw = b""
                origin.seen.append(seen)
                canned = origin.canned.get(parts.path) or origin._answer(origin, seen)
                self.send_canned(canned)

            def send_canned(self, canned: Canned) -> None:
                body = canned.body if isinstance(canned.body, bytes) else json.dumps(canned.body).encode()
                self.send_response(canned.status)
                headers = {
                    "Content-Type": "application/json",
                    "Content-Length": str(len(body)),
                } | canned.headers
                for name, value in headers.items():
                    for each in value.split("\n"):  # several lines of one header
                        self.send_header(name, each)
                self.end_headers()
                try:
                    if not canned.drip:
                        self.wfile.write(body)
                        return
                    for number in range(len(body)):
                        self.wfile.write(body[number : number + 1])
                        self.wfile.flush()
                        time.sleep(canned.drip)
                except OSError:
                    self.close_connection = True

            do_GET = do_POST = do_DELETE = handle_any  # noqa: N815

            def log_message(self, *args: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._server.block_on_close = False
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,))
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def paths(self, method: str | None = None) -> list[str]:
        return [seen.path for seen in self.seen if method in (None, seen.method)]

    def at(self, path: str) -> list[Seen]:
        return [seen for seen in self.seen if seen.path == path]


def read_body(kind: str, body: bytes) -> dict[str, Any]:
    if not body:
        return {}
    if "json" in kind:
        return json.loads(body)
    return dict(parse_qsl(body.decode(), keep_blank_values=True))


class AuthorizationServer:
    """Registration, login page without a person, and tokens; refresh tokens work once."""

    def __init__(self, world: "World", path: str = "") -> None:
        self.world = world
        self.http = Origin(self._answer)
        self.path = path
        self.issuer = self.http.url + path
        self.metadata: dict[str, Any] = {
            "issuer": self.issuer,
            "authorization_endpoint": f"{self.issuer}/authorize",
            "token_endpoint": f"{self.issuer}/token",
            "registration_endpoint": f"{self.issuer}/register",
            "code_challenge_methods_supported": ["S256"],
            "token_endpoint_auth_methods_supported": ["none", "client_secret_basic", "client_secret_post"],
        }
        self.metadata_paths = {ASM + path}
        self.redirect_extra: dict[str, str | None] = {}
        self.token_extra: dict[str, Any] = {}
        self.token_status = 200
        self.shape: Callable[[dict[str, Any]], Any] = lambda body: body  # of answers with tokens
        self.expires_in: Any = 3600
        self.refuse_refresh = False
        self.gone: Canned | None = None  # what is said of a refused refresh token
        self.says_scope = False
        self.objection: Callable[[dict[str, Any]], dict[str, str] | None] = lambda asked: None
        self.binds = False  # tokens to the key of the request's proof
        self.nonce: str | None = None
        self.registers_scopes = True
        self.refresh_delay = 0.0
        self.refresh_gate = threading.Event()
        self.refresh_gate.set()
        self.secret = f"client-secret-{CANARY}"
        self.make_token: Callable[[str, dict[str, Any]], str] = lambda *_: (
            f"access-{CANARY}-{secrets.token_hex(4)}"
        )
        self.codes: dict[str, dict[str, str]] = {}
        self.refresh_tokens: set[str] = set()
        self.grants: list[str] = []
        self._lock = threading.Lock()

    def _answer(self, origin: Origin, seen: Seen) -> Canned:
        if seen.path in self.metadata_paths:
            return Canned(body={k: v for k, v in self.metadata.items() if v is not None})
        match self._endpoint(seen.path):
            case "registration_endpoint":
                if "scope" in seen.fields and not self.registers_scopes:
                    return Canned(400, {"error": "invalid_client_metadata", "error_description": "scope"})
                method = seen.fields.get("token_endpoint_auth_method", "none")
                body = seen.fields | {
                    "client_id": f"client-of-{origin.url}",
                    "token_endpoint_auth_method": method,
                }
                return Canned(201, body | ({} if method == "none" else {"client_secret": self.secret}))
            case "authorization_endpoint":
                return self._authorize(seen)
            case "token_endpoint":
                return self._token(seen)
            case _:
                return Canned(404)

    def _endpoint(self, path: str) -> str | None:
        """The member of the metadata with the URL of a path."""
        names = ("registration_endpoint", "authorization_endpoint", "token_endpoint")
        return next((name for name in names if urlsplit(self.metadata.get(name) or "").path == path), None)

    def _authorize(self, seen: Seen) -> Canned:
        code = f"code-{CANARY}-{secrets.token_hex(4)}"
        self.codes[code] = seen.query
        outcome = self.objection(seen.query) or {"code": code}
        answer: dict[str, str | None] = {**outcome, "state": seen.query["state"]} | self.redirect_extra
        query = urlencode({k: v for k, v in answer.items() if v is not None})
        return Canned(302, headers={"Location": f"{seen.query['redirect_uri']}?{query}"})

    def _token(self, seen: Seen) -> Canned:
        fields = seen.fields
        grant = fields.get("grant_type", "")
        scope = fields.get("scope")
        if (objection := self.objection(fields)) is not None:
            return Canned(400, objection)
        key = None
        if self.binds:
            key, problem = check_proof(seen, self.metadata["token_endpoint"], self.nonce)
            if problem is not None:
                return Canned(400, {"error": problem}, {"DPoP-Nonce": self.nonce or "none"})
        with self._lock:
            self.grants.append(grant)
            if grant == "authorization_code":
                asked = self.codes.pop(fields["code"], None)
                if asked is None or s256(fields["code_verifier"]) != asked["code_challenge"]:
                    return Canned(400, {"error": "invalid_grant"})
                scope = asked.get("scope")
            elif grant == "refresh_token":
                time.sleep(self.refresh_delay)
                self.refresh_gate.wait(30)
                known = fields["refresh_token"] in self.refresh_tokens and not self.refuse_refresh
                self.refresh_tokens.discard(fields["refresh_token"])
                if not known and self.gone is not None:
                    return self.gone
                if not known:
                    said = f"{fields['refresh_token']} is not known"  # echoes the secret
                    return Canned(400, {"error": "invalid_grant", "error_description": said})
            elif grant == "urn:ietf:params:oauth:grant-type:token-exchange":
                made = f"jag-{CANARY}-{secrets.token_hex(4)}"
                kind = "urn:ietf:params:oauth:token-type:id-jag"
                body = {"access_token": made, "issued_token_type": kind, "token_type": "N_A"}
                return Canned(self.token_status, body | self.token_extra)
            token = self.make_token(scope or "", fields)
            if key is not None:
                self.world.bound[token] = key
            refresh = f"refresh-{CANARY}-{secrets.token_hex(4)}"
            self.world.valid[token] = set((scope or "").split())
            self.refresh_tokens.add(refresh)
            kind = "Bearer" if key is None else "DPoP"
            body = {"access_token": token, "token_type": kind, "expires_in": self.expires_in}
            if grant in {"authorization_code", "refresh_token"}:
                body["refresh_token"] = refresh
            if self.says_scope and scope is not None:
                body["scope"] = scope
            said = {k: v for k, v in (body | self.token_extra).items() if v is not None}
            return Canned(self.token_status, self.shape(said))


class World:
    """An MCP server at `url`, guarded by the authorization server `auth`."""

    def __init__(self, path: str = "/mcp", issuer_path: str = "") -> None:
        self.valid: dict[str, set[str]] = {}
        self.bound: dict[str, str] = {}  # token -> thumbprint of its key
        self.nonce: str | None = None  # that proofs must hold
        self.proofs: set[str] = set()
        self.auth = AuthorizationServer(self, issuer_path)
        self.mcp = Origin(self._answer)
        self.path = path
        self.url = self.mcp.url + path
        self.resource_metadata: dict[str, Any] | None = {
            "resource": self.url,
            "authorization_servers": [self.auth.issuer],
        }
        self.metadata_path = PRM + path
        self.challenge: str | None = f'Bearer resource_metadata="{self.mcp.url}{self.metadata_path}"'
        self.needed: dict[str, str] = {}  # method -> scope
        self.forbidden_challenge: str | None = None
        self.forbidden_scheme: str | None = None  # that of the request
        self.others: list[AuthorizationServer] = []
        self.speak = speak_mcp

    def another(self) -> AuthorizationServer:
        """A second authorization server."""
        self.others.append(AuthorizationServer(self))
        return self.others[-1]

    def close(self) -> None:
        for each in (self.mcp, self.auth.http, *(other.http for other in self.others)):
            each.close()

    def expire_all(self) -> None:
        """No token that was given so far works any more."""
        self.valid.clear()

    def _answer(self, origin: Origin, seen: Seen) -> Canned:
        if seen.path == self.metadata_path and self.resource_metadata is not None:
            return Canned(body=self.resource_metadata)
        if seen.path != self.path or seen.method != "POST":
            return Canned(405 if seen.path == self.path else 404)
        scheme, _, token = seen.headers.get("authorization", "").partition(" ")
        scopes = self.valid.get(token)
        if token in self.bound and scopes is not None:
            key, problem = check_proof(seen, self.url, self.nonce, token)
            if scheme != "DPoP" or key != self.bound[token] or seen.headers["dpop"] in self.proofs:
                problem = problem or "invalid_dpop_proof"
            self.proofs.add(seen.headers.get("dpop", ""))
            if problem is not None:
                headers = {"WWW-Authenticate": f'DPoP error="{problem}"'}
                return Canned(401, headers=headers | ({"DPoP-Nonce": self.nonce} if self.nonce else {}))
        elif scheme not in {"", "Bearer"}:
            scopes = None
        if scopes is None:
            return Canned(401, headers={"WWW-Authenticate": self.challenge} if self.challenge else {})
        method = seen.fields["method"]
        missing = set(self.needed.get(method, "").split()) - scopes
        if missing or self.forbidden_challenge:
            scope = self.needed.get(method, "")
            default = f'{self.forbidden_scheme or scheme} error="insufficient_scope", scope="{scope}"'
            return Canned(403, headers={"WWW-Authenticate": self.forbidden_challenge or default})
        return self.speak(seen.fields)

    def posts(self) -> list[str]:
        return [seen.fields.get("method", "") for seen in self.mcp.seen if seen.method == "POST"]


def speak_mcp(message: dict[str, Any]) -> Canned:
    """As little MCP as a client needs."""
    if "id" not in message:
        return Canned(202)
    match message["method"]:
        case "initialize":
            result: dict[str, Any] = {
                "protocolVersion": "2025-11-25",
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "protected", "version": "1"},
            }
        case "tools/list":
            result = {"tools": [{"name": "ask", "inputSchema": {"type": "object"}}]}
        case "tools/call":
            result = {"content": [{"type": "text", "text": "answer"}]}
        case _:
            error = {"code": -32601, "message": "unknown"}
            return Canned(400, {"jsonrpc": "2.0", "id": message["id"], "error": error})
    return Canned(body={"jsonrpc": "2.0", "id": message["id"], "result": result})


def check_proof(
    seen: Seen, url: str, nonce: str | None, token: str | None = None
) -> tuple[str | None, str | None]:
    """The thumbprint of a proof's key, and what is wrong with the proof (RFC 9449 §4.3)."""
    text = seen.headers.get("dpop", "")
    try:
        header = jwt.get_unverified_header(text)
        key = jwt.PyJWK(header["jwk"])
        claims = jwt.decode(text, key, algorithms=["ES256"], options={"require": ["jti", "iat"]})
    except (jwt.PyJWTError, KeyError):
        return None, "invalid_dpop_proof"
    wanted = {"htm": seen.method, "htu": url}
    if token is not None:
        digest = base64.b64encode(hashlib.sha256(seen.body).digest()).decode()
        wanted |= {"ath": s256(token), "content_digest": f"sha-256=:{digest}:"}
    kind = header["typ"] == "dpop+jwt" and "d" not in header["jwk"]
    if not kind or {name: claims.get(name) for name in wanted} != wanted:
        return None, "invalid_dpop_proof"
    thumbprint = s256(json.dumps(header["jwk"], sort_keys=True, separators=(",", ":")))
    return thumbprint, None if claims.get("nonce") == nonce else "use_dpop_nonce"


def s256(verifier: str) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).rstrip(b"=").decode()


def basic(header: str) -> tuple[str, str]:
    name, _, password = base64.b64decode(header.removeprefix("Basic ")).decode().partition(":")
    return unquote(name), unquote(password)


class Person:
    """Logs in at once, as somebody with an open session at the login page would."""

    def __init__(self) -> None:
        self.pages: list[str] = []

    def redirect_uri(self, registered: str | None) -> str:
        return registered or "http://127.0.0.1:1/callback"

    def authorize(self, url: str, is_canceled: Callable[[], bool] | None) -> str:
        self.pages.append(url)
        return httpx.get(url, trust_env=False).headers["location"]

    def scopes(self) -> list[str | None]:
        return [parse_qs(urlsplit(page).query).get("scope", [None])[0] for page in self.pages]


@contextmanager
def open_world(**options: Any) -> Iterator[World]:
    world = World(**options)
    try:
        yield world
    finally:
        world.close()
