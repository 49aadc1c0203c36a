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
    """Admits a request by the key in its header. The body is not read.

    Raises:
        MCPError: 401: no valid key. 403: the key lacks the scope. 429: too many requests.
    """
    sent = request.headers.getlist(KEY_HEADER)
    if len(sent) != 1:
        gateway_of(request).metrics.refused("key")
        what = "Send an API key" if not sent else "Send one API key, not several,"
        raise invalid_key(f"{what} in the header {KEY_HEADER}.")
    admit_key(request, verified_key(request, sent[0]), scope)


def verified_key(request: Request, presented: str) -> ApiKey:
    """The key that a client presents.

    Raises:
        MCPError: 401: the key is not valid.
        KeyStoreError: The keys cannot be read.
    """
    gateway = gateway_of(request)
    key = gateway.keys.verify(presented)
    if key is None:
        gateway.metrics.refused("key")
        raise invalid_key("This API key is unknown, expired or revoked. Ask for another one.")
    return key


def admit_key(request: Request, key: ApiKey, scope: Scope) -> None:
    """Admits a request with a valid key, if its scope and rate allow.

    Raises:
        MCPError: 403: the key lacks the scope. 429: too many requests.
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


def invalid_key(user_message: str) -> MCPError:
    """The error for a request without a valid key."""
    return invalid_request(user_message, status=401, headers=_CHALLENGE)


def from_elsewhere(request: Request) -> bool:
    """Returns whether a browser sends the request on behalf of a page of another origin.

    ``Sec-Fetch-Site`` says how that origin relates to this one (https://www.w3.org/TR/fetch-metadata/). On
    plain HTTP, browsers send only ``Origin``.
    """
    site = request.headers.get("sec-fetch-site")
    if site is not None:
        return site not in ("same-origin", "none")
    origin = request.headers.get("origin")
    return origin is not None and origin.rpartition("://")[2] != request.headers.get("host")


async def read_body(request: Request, *, kind: str) -> None:
    """Reads the body of a request, so that `Request.body` returns it afterwards.

    Args:
        request: The request.
        kind: The required media type.

    Raises:
        MCPError: 415: the media type is another. 413: the body is too large. 408: the body is too slow.
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
                # Most clients read the answer only after sending the whole body: read on, up to a limit.
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
    request._body = bytes(body)  # pyright: ignore[reportPrivateUsage] - the cache of Request.body()
