"""Login in a person's browser: the authorization request, and the listener for the redirect that answers it.

OAuth 2.1 §4.1, PKCE (RFC 7636), resource indicators (RFC 8707), issuer identification (RFC 9207), loopback
redirects (RFC 8252 §7.3).
"""

import base64
import contextlib
import hashlib
import hmac
import secrets
import socket
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from socketserver import TCPServer, ThreadingMixIn
from typing import Any, Final, Self
from urllib.parse import parse_qs, parse_qsl, urlencode, urlsplit, urlunsplit

from ...system import take_port_again
from ...types.errors import AuthError, Canceled, SettingInvalid
from ...types.texts import in_one_line, origin_and_path
from ..clock import POLL_SECONDS, IsCanceled
from .answers import fix_of
from .discovery import OFFLINE, AuthorizationMetadata, is_issuer, name_it

_PATH: Final = "/callback"
_HANDLER_SECONDS: Final = 5.0
_LONGEST_LINE: Final = 16 * 1024
_MOST_CONNECTIONS: Final = 64
_PAGE: Final = (
    b"<!doctype html><meta charset=utf-8><title>KNIME MCP</title>"
    b"<p style='font:1.2em sans-serif;margin:3em'>%s"
)
_ARRIVED: Final = b"The answer has arrived. Close this page and return to where you started the login."
_ANOTHER_LOGIN: Final = (
    b"This is not the answer to the login that waits here (its state is another one), and was not used. "
    b"Go on with the page that was opened for the login, or start it again."
)
_ANOTHER_HOST: Final = b"This address is only for the login that waits here."
# Google's way to ask for a refresh token: https://developers.google.com/identity/protocols/oauth2/web-server
_OFFLINE_AT: Final = {"https://accounts.google.com": {"access_type": "offline", "prompt": "consent"}}
_NOT_HERE: Final = b"There is nothing here."


@dataclass(frozen=True, slots=True)
class AuthorizationRequest:
    """An authorization request, and the values needed to check and use its answer."""

    url: str = field(repr=False)
    redirect_uri: str
    state: str = field(repr=False)  # a random text that the answer must repeat
    # the code verifier of PKCE, which proves to the token endpoint that the code is ours
    verifier: str = field(repr=False)
    issuer: str  # the one that must answer, see `is_issuer`
    issuer_required: bool  # the answer must contain ``iss``


def new_request(
    server: AuthorizationMetadata,
    *,
    client_id: str,
    redirect_uri: str,
    resource: str | None,
    scope: str | None,
) -> AuthorizationRequest:
    if server.authorization_endpoint is None:
        raise AuthError(
            f"The authorization server {origin_and_path(server.issuer)} has no page to log in at",
            fix="Use client credentials or a token instead",
        )
    verifier = secrets.token_urlsafe(64)  # RFC 7636 §4.1: 43 to 128 characters; this makes 86
    state = secrets.token_urlsafe(32)
    parameters = {
        "response_type": "code",
        "client_id": client_id,
        "redirect_uri": redirect_uri,
        "state": state,
        "code_challenge": s256(verifier),
        "code_challenge_method": "S256",
    }
    if resource is not None:
        parameters["resource"] = resource
    if scope is not None:
        parameters["scope"] = scope
        if OFFLINE in scope.split():
            parameters["prompt"] = "consent"  # OpenID Connect Core §11: else no refresh token
    parameters |= _OFFLINE_AT.get(server.issuer, {})
    parts = urlsplit(server.authorization_endpoint)
    # RFC 6749 §3.1: a query of the endpoint's URL must be kept; no parameter may be repeated.
    kept = [(name, value) for name, value in parse_qsl(parts.query, True) if name not in parameters]
    query = urlencode([*kept, *parameters.items()])
    return AuthorizationRequest(
        url=urlunsplit((parts.scheme, parts.netloc, parts.path, query, "")),
        redirect_uri=redirect_uri,
        state=state,
        verifier=verifier,
        issuer=server.answers_as,
        issuer_required=server.sends_issuer,
    )


def s256(verifier: str) -> str:
    """The code challenge of a verifier (RFC 7636 §4.2)."""
    return base64.urlsafe_b64encode(hashlib.sha256(verifier.encode("ascii")).digest()).rstrip(b"=").decode()


def read_redirect(request: AuthorizationRequest, url: str) -> str:
    """Checks the URL of the redirect and returns its authorization code.

    Raises `AuthError` if it does not answer this request, is of another issuer, or is a refusal. Texts of a
    foreign answer are not shown.
    """
    target = url.partition("?")[0]
    answers = parse_qs(urlsplit(url).query, keep_blank_values=True)
    # RFC 6749 §3.1: no parameter may occur twice; of two codes the attacker's could be taken.
    if target != request.redirect_uri or any(len(values) > 1 for values in answers.values()):
        raise _not_ours("The login came back to another address, or with a parameter twice")
    answer = {name: values[0] for name, values in answers.items()}
    if not _has_state(urlsplit(url).query, request.state):
        raise _not_ours("The login that came back is not the one that was started (wrong state)")
    # RFC 9207 §2.4: compared as strings, without normalization, before the answer is used.
    issuer = answer.get("iss")
    if issuer is not None and not is_issuer(request.issuer, issuer):
        raise AuthError(
            "The login came back from another authorization server (wrong issuer)",
            fix="One server can pose as another in this way, so nothing of it was used. If whoever runs it "
            f"says that both are the same, {name_it(request.issuer)}",
        )
    if issuer is None and request.issuer_required:
        raise _not_ours("The login came back without saying from which authorization server (no issuer)")
    if "error" in answer:
        refusal_text = in_one_line(
            ": ".join(filter(None, (answer["error"], answer.get("error_description")))), 200
        )
        raise AuthError(
            f"The authorization server refused the login: {refusal_text}",
            fix=fix_of(refusal_text) or "Log in again and consent, or ask whoever runs the server for access",
        )
    code = answer.get("code")
    if not code:
        raise _not_ours("The login came back without a code")
    return code


def _has_state(query: str, state: str) -> bool:
    answered = parse_qs(query, keep_blank_values=True).get("state", [""])
    # In constant time: any page in the browser can ask here, and could otherwise find the state bit by bit.
    return len(answered) == 1 and hmac.compare_digest(answered[0].encode(), state.encode())


def _not_ours(what: str) -> AuthError:
    return AuthError(what, fix="This can be an attack, so nothing of it was used. Log in again")


@dataclass(eq=False)
class LoopbackBrowser:
    """Sends a person to the login page and waits for the redirect to a loopback address.

    `open_url` opens a page in a browser, or shows its URL. The person has that many seconds.
    """

    open_url: Callable[[str], None]
    port: int | None = None
    seconds: float = 300
    _listener: "_Listener | None" = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        listener, self._listener = self._listener, None
        if listener is not None:
            listener.server_close()

    def redirect_uri(self, registered: str | None) -> str:
        """See `UserAgent`. Starts to listen, at the registered port if that is free."""
        if self._listener is None:
            self._listener = self._listen(registered)
        # RFC 8252 §8.3: the address and not `localhost`, which may lead to another interface.
        return f"http://127.0.0.1:{self._listener.port}{_PATH}"

    def authorize(self, url: str, is_canceled: IsCanceled | None) -> str:
        """See `UserAgent`."""
        listener = self._listener
        assert listener is not None, "redirect_uri comes first"
        # An answer that came before, to an earlier login, must not count for this one.
        listener.answer = None
        listener.state = dict(parse_qsl(urlsplit(url).query)).get("state", "")
        self.open_url(url)
        until = time.monotonic() + self.seconds
        while listener.answer is None:
            if is_canceled is not None and is_canceled():
                raise Canceled("Canceled")
            if time.monotonic() >= until:
                raise AuthError(f"Nobody logged in within {self.seconds:g} s", fix="Start the login again")
            listener.handle_request()
        return f"http://127.0.0.1:{listener.port}{listener.answer}"

    def _listen(self, registered: str | None) -> "_Listener":
        wanted = self.port
        if wanted is None and registered is not None and urlsplit(registered).path == _PATH:
            try:
                return _Listener(urlsplit(registered).port or 0)
            except OSError:
                pass  # the port is taken: the client must be registered again with another port
        try:
            return _Listener(wanted or 0)
        except OSError:
            raise SettingInvalid(
                f"Port {wanted} of this machine is taken", setting="port", fix="Choose another one, or none"
            ) from None


class _Listener(ThreadingMixIn, TCPServer):
    """Accepts the redirect that repeats the state of the login.

    Any page in the browser and any program of this machine can connect here: what they send must neither end
    the login nor hold it up. Not an `HTTPServer`, which would look up this machine's name first.
    """

    timeout = POLL_SECONDS
    daemon_threads = True
    request_queue_size = _MOST_CONNECTIONS

    def __init__(self, port: int) -> None:
        self.state = ""
        self.answer: str | None = None
        self._open: deque[socket.socket] = deque()
        super().__init__(("127.0.0.1", port), _Handler)
        self.port: int = self.socket.getsockname()[1]

    def server_bind(self) -> None:
        take_port_again(self.socket)
        super().server_bind()

    def process_request(self, request: Any, client_address: Any) -> None:
        """Of too many connections the oldest goes, as a browser sends its request at once."""
        self._open.append(request)
        if len(self._open) > _MOST_CONNECTIONS:
            with contextlib.suppress(OSError):
                self._open.popleft().shutdown(socket.SHUT_RDWR)
        super().process_request(request, client_address)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignores a browser that closes the connection; socketserver would print a traceback."""


class _Handler(BaseHTTPRequestHandler):
    timeout = _HANDLER_SECONDS
    server_version = "knime-mcp"
    sys_version = ""

    def do_GET(self) -> None:
        listener = self.server
        assert isinstance(listener, _Listener)
        path, _, query = self.path.partition("?")
        # A page of another host that resolves to this machine has its own name in Host (DNS rebinding).
        if self.headers.get_all("Host") != [f"127.0.0.1:{listener.port}"]:
            self._reply(403, _ANOTHER_HOST)
        elif path != _PATH or not query or len(self.path) > _LONGEST_LINE:
            self._reply(404, _NOT_HERE)
        elif not _has_state(query, listener.state):
            self._reply(400, _ANOTHER_LOGIN)
        else:
            try:
                self._reply(200, _ARRIVED)
            finally:  # also where the browser no longer reads
                listener.answer = self.path

    def _reply(self, status: int, text: bytes) -> None:
        page = _PAGE % text
        self.send_response(status)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.send_header("Content-Length", str(len(page)))
        self.send_header("Cache-Control", "no-store")
        self.send_header("Referrer-Policy", "no-referrer")  # the URL holds the code
        self.end_headers()
        self.wfile.write(page)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - named by http.server
        """Logs nothing, as the request line holds the authorization code."""
