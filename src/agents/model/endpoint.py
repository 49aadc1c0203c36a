"""Connections to a model's endpoint: the credential and headers of every request, proxy and certificates.

Secrets are kept only here. They are added to a request below the HTTP client, which logs addresses and keeps
headers, and below the model, whose fields appear in traces. Of the headers that the libraries above set, only
those that the protocol needs are sent: an OpenAI organization from an environment variable must not reach
another provider.
"""

from __future__ import annotations

import asyncio
import json
import threading
import time
import weakref
from concurrent.futures import Future, wait
from typing import TYPE_CHECKING, Any, Final, cast
from urllib.parse import parse_qsl, urlsplit

import httpx

from ...client.clock import POLL_SECONDS
from ...client.network import NetworkSettings
from ...tools.node_settings.connection import fill
from ...types.errors import Canceled
from ...types.secret_rules import looks_secret
from .model_errors import ModelUnreachable, no_connection, status_error

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ...client.authorization import Authorization
    from ...tools.node_settings.connection import Credential
    from ...types.routing import ServerRoute
    from .model_errors import ModelError


CONNECT_SECONDS: Final = 10.0
_KEPT_HEADERS: Final = frozenset(
    {
        *("accept", "accept-encoding", "connection", "content-encoding", "content-length", "content-type"),
        *("host", "transfer-encoding", "user-agent"),
    }
)

_LONGEST: Final = 4 * 1024 * 1024


class Throttle:
    """Until when an endpoint takes no more requests, for all prompts of a run. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._until = 0.0
        self._problem: ModelError | None = None

    def hold(self, seconds: float, problem: ModelError) -> None:
        """Nobody is to send a request for so many seconds, which is what the endpoint answered."""
        with self._lock:
            # A short wait that one prompt was told does not end the long one of another.
            self._until = max(self._until, time.monotonic() + seconds)
            self._problem = problem

    def held(self) -> tuple[float, ModelError] | None:
        """The seconds that are left, and the answer; None if requests may be sent."""
        with self._lock:
            left = self._until - time.monotonic()
            return (left, self._problem) if self._problem is not None and left > 0 else None


class Endpoint:
    """An endpoint with the headers, query and credentials of its requests.

    An `authorization` replaces the credential, and is read before every request. Further headers may hold
    secrets. Raises `SettingInvalid` for a template without a credential, or a credential that cannot be sent.
    """

    def __init__(
        self,
        route: ServerRoute,
        credential: Credential | None,
        *,
        authorization: Authorization | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        filled = fill(route, credential)
        self.throttle = Throttle()
        self._headers = {**(headers or {}), **filled.headers}
        self._auth = authorization or filled.auth
        parts = urlsplit(filled.url)
        self._query = dict(parse_qsl(parts.query, keep_blank_values=True))
        self.base_url = route.url.partition("?")[0].rstrip("/")
        secret_headers = {name: value for name, value in (headers or {}).items() if looks_secret(name, value)}
        self._fixed_secrets = (
            *(() if credential is None else (credential.password,)),
            *secret_headers.values(),
        )

    @property
    def secrets(self) -> tuple[str, ...]:
        return (*self._fixed_secrets, *(self._auth.secrets() if self._auth is not None else ()))

    def __repr__(self) -> str:
        return f"Endpoint({self.base_url!r})"

    def prepared(self, request: httpx.Request) -> httpx.Request:
        """A copy of the request with the credentials added; the original, which is logged, has none."""
        headers = {name: value for name, value in request.headers.items() if name.lower() in _KEPT_HEADERS}
        login_headers = self._auth.headers() if self._auth is not None else {}
        url = request.url.copy_merge_params(self._query) if self._query else request.url
        return httpx.Request(
            request.method,
            url,
            headers={**headers, **self._headers, **login_headers},
            stream=request.stream,
            extensions=request.extensions,
        )

    def connection_options(self) -> dict[str, Any]:
        network = NetworkSettings()
        proxy = network.proxy_for(self.base_url)
        secure = self.base_url.startswith("https:")
        # Proxy and certificates are those of `NetworkSettings`: httpx would look for others in the
        # environment.
        options: dict[str, Any] = {"verify": network.ssl_context() if secure else False, "trust_env": False}
        if proxy is not None:
            trusted = network.ssl_context() if proxy.scheme == "https" else None
            options["proxy"] = httpx.Proxy(proxy.url, ssl_context=trusted)
        return options


class AsyncTransport(httpx.AsyncBaseTransport):
    """Keeps connections per event loop: each run has its own loop, and a connection works only there."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self._pools: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, httpx.AsyncHTTPTransport] = (
            weakref.WeakKeyDictionary()
        )
        self._lock = threading.Lock()

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        with self._lock:
            loop = asyncio.get_running_loop()
            pool = self._pools.get(loop)
            if pool is None:
                # Connections belong to the event loop that opened them,
                # and each prompt has a loop of its own.
                pool = self._pools[loop] = httpx.AsyncHTTPTransport(**self._endpoint.connection_options())
        return await pool.handle_async_request(self._endpoint.prepared(request))

    async def release(self) -> None:
        """Closes the connections of the running event loop; other loops keep theirs."""
        with self._lock:
            pool = self._pools.pop(asyncio.get_running_loop(), None)
        if pool is not None:
            await pool.aclose()

    async def aclose(self) -> None:
        await self.release()


class _Transport(httpx.HTTPTransport):
    def __init__(self, endpoint: Endpoint) -> None:
        super().__init__(**endpoint.connection_options())
        self._endpoint = endpoint

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        return super().handle_request(self._endpoint.prepared(request))


def list_models(
    endpoint: Endpoint, *, seconds: float, is_canceled: Callable[[], bool] | None = None
) -> tuple[str, ...] | None:
    """Requests the names of an endpoint's models; None if the endpoint gives no list.

    Waits `seconds` in total; `is_canceled` is called about every 0.1 s. Raises `ModelError` without a
    connection, or if the endpoint refused the login.
    """
    future: Future[tuple[str, ...] | None] = Future()

    def ask() -> None:
        try:
            future.set_result(_request_names(endpoint, seconds))
        except Exception as error:
            future.set_exception(error)

    # Looking up a host's name cannot be limited in time, so a thread does the work. It has no event loop,
    # whose own threads would hold the process until the name service answers.
    threading.Thread(target=ask, name="models", daemon=True).start()
    until = time.monotonic() + seconds
    while (remaining := until - time.monotonic()) > 0:
        if wait([future], min(POLL_SECONDS, remaining)).done:
            return future.result()
        if is_canceled is not None and is_canceled():
            raise Canceled("The check of the connection was canceled", server=endpoint.base_url)
    raise _timed_out(seconds, endpoint.base_url)


def _request_names(endpoint: Endpoint, seconds: float) -> tuple[str, ...] | None:
    server = endpoint.base_url
    try:
        with (
            httpx.Client(transport=_Transport(endpoint), timeout=seconds, trust_env=False) as client,
            client.stream("GET", f"{server}/models") as reply,
        ):
            if reply.status_code in {401, 403} or reply.is_redirect:
                raise status_error(reply.status_code, "it does not list its models", server=server)
            if not reply.is_success:
                return None
            body = bytearray()
            for piece in reply.iter_bytes():
                body += piece
                if len(body) > _LONGEST:
                    return None
    except httpx.TimeoutException:
        raise _timed_out(seconds, server) from None
    except (httpx.HTTPError, httpx.InvalidURL, OSError) as error:
        raise no_connection(error, server, endpoint.secrets) from None
    return _names(bytes(body))


def _timed_out(seconds: float, server: str) -> ModelUnreachable:
    return ModelUnreachable(
        f"The model's endpoint did not answer within {seconds:g} seconds",
        server=server,
        fix="Check the base URL, and that the endpoint runs",
    )


def _names(body: bytes) -> tuple[str, ...] | None:
    try:
        document: Any = json.loads(body)
    except (ValueError, RecursionError):
        return None
    entries: Any = cast("dict[str, Any]", document).get("data") if isinstance(document, dict) else document
    if not isinstance(entries, list):
        return None
    names = {
        str(cast("dict[str, Any]", entry).get("id") or "").strip()
        for entry in cast("list[Any]", entries)
        if isinstance(entry, dict)
    }
    return tuple(sorted(names - {""}))
