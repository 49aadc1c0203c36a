"""Login in a person's browser, with a listener on this machine for the redirect (RFC 8252 §7.3)."""

import sys
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler
from socketserver import TCPServer
from types import TracebackType
from typing import Any, Final, Self
from urllib.parse import urlsplit

from ...types.errors import AuthError, Canceled, SettingInvalid
from ..clock import POLL_SECONDS, IsCanceled

_PATH: Final = "/callback"
_HANDLER_SECONDS: Final = 5.0
_LONGEST_LINE: Final = 16 * 1024
_PAGE: Final = (
    b"<!doctype html><meta charset=utf-8><title>KNIME MCP</title>"
    b"<p style='font:1.2em sans-serif;margin:3em'>The answer has arrived. Close this page and return to "
    b"where you started the login."
)


class LoopbackBrowser:
    """Sends a person to the login page and waits for the redirect to a loopback address.

    Args:
        open_url: Opens a page in a browser, or shows its URL.
        port: The port to listen at; None for any free port.
        seconds: The time that the person has.
    """

    def __init__(
        self, open_url: Callable[[str], None], *, port: int | None = None, seconds: float = 300
    ) -> None:
        self._open_url = open_url
        self._port = port
        self._seconds = seconds
        self._listener: _Listener | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Stops listening."""
        listener, self._listener = self._listener, None
        if listener is not None:
            listener.server_close()

    def redirect_uri(self, registered: str | None) -> str:
        """See `UserAgent`. Starts to listen, at the registered port if that is free.

        Raises:
            SettingInvalid: The port that the person chose is taken.
        """
        if self._listener is None:
            self._listener = self._listen(registered)
        return f"http://127.0.0.1:{self._listener.port}{_PATH}"

    def authorize(self, url: str, is_canceled: IsCanceled | None) -> str:
        """See `UserAgent`.

        Raises:
            AuthError: The person did not log in in time.
            Canceled: `is_canceled` returned True.
        """
        listener = self._listener
        assert listener is not None, "redirect_uri comes first"
        listener.answer = None
        self._open_url(url)
        until = time.monotonic() + self._seconds
        while listener.answer is None:
            if is_canceled is not None and is_canceled():
                raise Canceled("Canceled")
            if time.monotonic() >= until:
                raise AuthError(
                    f"Nobody logged in within {self._seconds:g} s", status=401, fix="Start the login again"
                )
            listener.handle_request()
        return f"http://127.0.0.1:{listener.port}{listener.answer}"

    def _listen(self, registered: str | None) -> "_Listener":
        wanted = self._port
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


class _Listener(TCPServer):
    """Accepts the first redirect. Not an `HTTPServer`, which would look up this machine's name first."""

    timeout = POLL_SECONDS
    # The port of the last login may still be in TIME_WAIT. On Windows this option would let other programs
    # listen at the same port.
    allow_reuse_address = sys.platform != "win32"

    def __init__(self, port: int) -> None:
        self.answer: str | None = None
        super().__init__(("127.0.0.1", port), _Handler)
        self.port: int = self.socket.getsockname()[1]

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignores a browser that closes the connection; socketserver would print a traceback."""


class _Handler(BaseHTTPRequestHandler):
    timeout = _HANDLER_SECONDS
    server_version = "knime-mcp"
    sys_version = ""

    def do_GET(self) -> None:
        assert isinstance(self.server, _Listener)
        path, _, query = self.path.partition("?")
        if path != _PATH or not query or len(self.path) > _LONGEST_LINE:
            self.send_error(404)
            return
        self.server.answer = self.path
        self.send_response(200)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.send_header("Content-Length", str(len(_PAGE)))
        self.send_header("Cache-Control", "no-store")
        self.send_header("Referrer-Policy", "no-referrer")  # the URL holds the code
        self.end_headers()
        self.wfile.write(_PAGE)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - named by http.server
        """Logs nothing, as the request line holds the authorization code."""
