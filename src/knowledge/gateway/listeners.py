"""Runs the two listeners of a gateway until a signal arrives."""

from __future__ import annotations

import ssl
from typing import TYPE_CHECKING, Any

from ...types.errors import SettingInvalid
from ...web import listening
from .app import internal_app, public_app
from .observability import LOGGER

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

    from fastapi import FastAPI

    from .gateway import Gateway
    from .settings import GatewaySettings


async def serve(
    gateway: Gateway, *, on_ready: Callable[[str, str | None], None], stop: asyncio.Event | None = None
) -> None:
    """Serves a gateway. Returns after SIGINT or SIGTERM, when all running requests have been answered.

    Args:
        gateway: The gateway.
        on_ready: Called with the URLs of the public and the internal listener.
        stop: An event that also ends serving; for threads, which do not receive signals.

    Raises:
        SettingInvalid: The certificate cannot be used.
        OSError: An address cannot be bound.
    """
    settings = gateway.settings
    if settings.needs_tls_warning:
        LOGGER.warning(
            "Keys travel unencrypted: this gateway listens beyond this machine on plain HTTP. Set"
            " GATEWAY_TLS_CERTIFICATE and GATEWAY_TLS_KEY, or GATEWAY_BEHIND_PROXY behind an HTTPS proxy."
        )
    public, internal = public_app(gateway), internal_app(gateway)
    listeners = [_listener(gateway, public, settings.gateway_host, settings.gateway_port, **_tls(settings))]
    if settings.gateway_internal_port >= 0:
        host, port = settings.gateway_internal_host, settings.gateway_internal_port
        listeners.append(_listener(gateway, internal, host, port))
    await listening.serve(
        listeners, on_ready=lambda urls: on_ready(urls[0], urls[1] if len(urls) > 1 else None), stop=stop
    )


def _listener(gateway: Gateway, app: FastAPI, host: str, port: int, **tls: Any) -> listening.Listener:
    settings = gateway.settings
    return listening.Listener(
        app,
        host,
        port,
        patience=settings.gateway_request_timeout,
        grace=int(settings.gateway_tool_timeout) + 1,
        lifespan="off",
        server_header=False,
        limit_concurrency=settings.gateway_max_connections,
        **tls,
    )


def _tls(settings: GatewaySettings) -> dict[str, Any]:
    chain, key = settings.gateway_tls_certificate, settings.gateway_tls_key
    if chain is None or key is None:
        return {}
    try:
        # Checked here, as the server's own errors do not name the files.
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(chain, key, password="")
    except (OSError, ValueError) as error:
        why = getattr(error, "reason", None) or getattr(error, "strerror", None) or str(error)
        raise SettingInvalid(
            f"The certificate {chain} cannot be used with the key {key}: {why}",
            setting="GATEWAY_TLS_CERTIFICATE",
            fix="Both are PEM files; the key is not encrypted.",
        ) from None
    return {"ssl_certfile": chain, "ssl_keyfile": key}
