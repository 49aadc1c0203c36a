"""Lists an endpoint's models: for the dialog, and to check that the endpoint can be reached."""

from __future__ import annotations

import json
import threading
import time
from concurrent.futures import Future, wait
from typing import TYPE_CHECKING, Any, Final, cast

import httpx

from ...client.clock import POLL_SECONDS
from ...types.errors import Canceled
from .endpoint_errors import login_failed, moved, no_connection
from .model_errors import ModelUnreachable

if TYPE_CHECKING:
    from collections.abc import Callable

    from .endpoint import Endpoint

_LONGEST: Final = 4 * 1024 * 1024


def list_models(
    endpoint: Endpoint, *, seconds: float, is_canceled: Callable[[], bool] | None = None
) -> tuple[str, ...] | None:
    """Requests the names of an endpoint's models; returns None if the endpoint gives no list.

    Args:
        endpoint: The endpoint.
        seconds: The longest wait in total.
        is_canceled: Called about every 0.1 s.

    Raises:
        ModelError: No connection, or the endpoint refused the login.
        Canceled: `is_canceled` returned True.
    """
    future: Future[tuple[str, ...] | None] = Future()

    def ask() -> None:
        try:
            future.set_result(_request_names(endpoint, seconds))
        except Exception as error:
            future.set_exception(error)

    # Looking up a host's name cannot be limited in time, so a thread does the work.
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
            endpoint.client(httpx.Timeout(seconds)) as client,
            client.stream("GET", f"{server}/models") as reply,
        ):
            if reply.status_code in {401, 403}:
                raise login_failed(reply.status_code, "it does not list its models", server)
            if reply.is_redirect:
                raise moved(reply.status_code, server)
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
        raise no_connection(error, server) from None
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
