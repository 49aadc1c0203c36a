"""The models that an endpoint lists: for the dialog, and to find out whether it can be reached at all."""

from __future__ import annotations

import json
import threading
import time
from concurrent.futures import Future, wait
from typing import TYPE_CHECKING, Any, Final, cast

import httpx

from ...tools.clock import POLL_SECONDS
from ...types.errors import Canceled
from .model_errors import ModelUnreachable
from .raised_errors import login_failed, moved, no_connection

if TYPE_CHECKING:
    from collections.abc import Callable

    from .endpoint import Endpoint

_LONGEST: Final = 4 * 1024 * 1024


def list_models(
    endpoint: Endpoint, *, seconds: float, is_canceled: Callable[[], bool] | None = None
) -> tuple[str, ...] | None:
    """Asks an endpoint for the names of its models; None if it gives no list.

    Args:
        endpoint: The endpoint.
        seconds: How long to wait at most, all in all.
        is_canceled: Asked about every 0.1 s.

    Raises:
        ModelError: No connection, or the endpoint does not let us in.
        Canceled: `is_canceled` said so.
    """
    listed: Future[tuple[str, ...] | None] = Future()

    def ask() -> None:
        try:
            listed.set_result(_listed(endpoint, seconds))
        except Exception as error:
            listed.set_exception(error)

    # Looking up a host's name cannot be limited in time, so a thread does the work.
    threading.Thread(target=ask, name="models", daemon=True).start()
    until = time.monotonic() + seconds
    while (left := until - time.monotonic()) > 0:
        if wait([listed], min(POLL_SECONDS, left)).done:
            return listed.result()
        if is_canceled is not None and is_canceled():
            raise Canceled("The check of the connection was canceled", server=endpoint.base_url)
    raise _silent(seconds, endpoint.base_url)


def _listed(endpoint: Endpoint, seconds: float) -> tuple[str, ...] | None:
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
        raise _silent(seconds, server) from None
    except (httpx.HTTPError, httpx.InvalidURL, OSError) as error:
        raise no_connection(error, server) from None
    return _names(bytes(body))


def _silent(seconds: float, server: str) -> ModelUnreachable:
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
