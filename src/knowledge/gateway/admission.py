"""Admission of requests by key, scope and rate, before their body is read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import anyio

from .errors import invalid_request
from .middleware import gateway_of, record_of

if TYPE_CHECKING:
    from fastapi import Request

    from .errors import MCPError
    from .keys import ApiKey, Scope

KEY_HEADER: Final = "X-API-Key"
_CHALLENGE: Final = {"WWW-Authenticate": f'ApiKey header="{KEY_HEADER}"'}


def admit(request: Request, scope: Scope) -> None:
    """Lets a request in by the key in its header; its body is not touched.

    Raises:
        MCPError: 401: no key, or none that works. 403: it lacks the scope. 429: too many requests.
    """
    sent = request.headers.getlist(KEY_HEADER)
    if len(sent) != 1:
        gateway_of(request).metrics.refused("key")
        what = "Send an API key" if not sent else "Send one API key, not several,"
        raise no_key(f"{what} in the header {KEY_HEADER}.")
    let_in(request, verified(request, sent[0]), scope)


def verified(request: Request, presented: str) -> ApiKey:
    """The key that a client presents.

    Raises:
        MCPError: 401: it does not work.
        KeyStoreError: The keys cannot be read.
    """
    gateway = gateway_of(request)
    key = gateway.keys.verify(presented)
    if key is None:
        gateway.metrics.refused("key")
        raise no_key("This API key is unknown, expired or revoked. Ask for another one.")
    return key


def let_in(request: Request, key: ApiKey, scope: Scope) -> None:
    """Admits a request whose key is known.

    Raises:
        MCPError: 403: it lacks the scope. 429: too many requests.
    """
    gateway, record = gateway_of(request), record_of(request)
    record.client, record.key_id = key.name, key.id
    per_minute = gateway.settings.gateway_rate_limit if key.rate_limit is None else key.rate_limit
    wait = gateway.limiter.wait_for(key.id, per_minute)
    if wait:
        gateway.metrics.refused("rate")
        raise invalid_request(
            f"This key may send {per_minute} requests per minute. Try again in {wait} s.",
            status=429,
            headers={"Retry-After": str(wait)},
            details={"retry_after_seconds": wait},
        )
    if scope not in key.scopes:
        gateway.metrics.refused("scope")
        raise invalid_request(
            f"This key lacks the scope {scope.value}. Ask for a key that has it.",
            status=403,
            details={"missing_scope": scope.value},
        )


def no_key(user_message: str) -> MCPError:
    """The error for a request without a key that works."""
    return invalid_request(user_message, status=401, headers=_CHALLENGE)


def from_elsewhere(request: Request) -> bool:
    """Returns whether a browser sends this because a page of another origin wants it to.

    Browsers say so in ``Sec-Fetch-Site`` (https://www.w3.org/TR/fetch-metadata/); where they do not, on plain
    HTTP, in ``Origin``.
    """
    site = request.headers.get("sec-fetch-site")
    if site is not None:
        return site not in ("same-origin", "none")
    origin = request.headers.get("origin")
    return origin is not None and origin.rpartition("://")[2] != request.headers.get("host")


async def read_body(request: Request, *, kind: str) -> None:
    """Reads the body of a request; `Request.body` gives it afterwards.

    Args:
        request: The request.
        kind: The media type that it must have.

    Raises:
        MCPError: 415: it is not declared as that. 413: it is too large. 408: it comes too slowly.
    """
    settings = gateway_of(request).settings
    most = settings.gateway_max_body_bytes
    declared = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if declared != kind:
        raise invalid_request(f"Send it with the header Content-Type: {kind}.", status=415)
    if request.headers.get("content-encoding", "identity").lower() != "identity":
        raise invalid_request("Send the body uncompressed.", status=415)
    body = bytearray()
    size = 0
    try:
        with anyio.fail_after(settings.gateway_request_timeout):
            async for part in request.stream():
                size += len(part)
                # Most clients read the answer only after they have sent everything: read on, up to a limit.
                if size > 8 * most:
                    break
                if size <= most:
                    body += part
    except TimeoutError:
        raise invalid_request(
            "The body of the request came too slowly.", status=408, headers={"Connection": "close"}
        ) from None
    if size > most:
        raise invalid_request(
            f"The body of the request is larger than {most} bytes. Ask for less at a time.",
            status=413,
            details={"max_bytes": most},
            headers={"Connection": "close"} if size > 8 * most else None,
        )
    request._body = bytes(body)  # pyright: ignore[reportPrivateUsage] - what Request.body() keeps
