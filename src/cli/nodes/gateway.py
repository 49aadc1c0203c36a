"""``knime-mcp nodes gateway``: serves node knowledge over plain HTTP, with keys, scopes and limits."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Annotated

import typer

from ..errors import ExitCode, reports_errors
from ..extras import needs_gateway
from ..serving import announce
from ..terminal import note
from .catalogue import CatalogueOption, open_catalogue, tell_origin


@reports_errors
@needs_gateway
def gateway(
    port: Annotated[
        int | None, typer.Option(min=0, max=65535, help="Port of the public listener (0: any).")
    ] = None,
    host: Annotated[str | None, typer.Option(help="Address of the public listener.")] = None,
    internal_port: Annotated[
        int | None,
        typer.Option(
            min=-1, max=65535, help="Port of the listener for this machine, without keys (-1: none)."
        ),
    ] = None,
    keys_file: Annotated[Path | None, typer.Option(metavar="FILE", help="Where the keys are kept.")] = None,
    tls_certificate: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Speak HTTPS with this certificate (PEM).")
    ] = None,
    tls_key: Annotated[
        Path | None, typer.Option(metavar="FILE", help="The certificate's private key (PEM).")
    ] = None,
    catalogue: CatalogueOption = None,
) -> ExitCode:
    """Serve node knowledge over plain HTTP: for programs that do not speak MCP, and as a web page.

    Every request needs a key; 'knime-mcp nodes keys create' makes one. Further settings are environment
    variables, listed in docs/gateway.md; an option counts more than its variable.

    Example: knime-mcp nodes gateway --port 8000
    """
    from ...knowledge.gateway.gateway_app import opened_gateway, serve
    from ...knowledge.gateway.gateway_settings import read_settings
    from ...knowledge.gateway.observing import configure_logging

    settings = read_settings(
        gateway_port=port,
        gateway_host=host,
        gateway_internal_port=internal_port,
        gateway_keys_file=keys_file,
        gateway_tls_certificate=tls_certificate,
        gateway_tls_key=tls_key,
    )
    configure_logging(settings)
    with open_catalogue(catalogue) as opened, opened_gateway(settings, opened) as built:
        tell_origin(opened.origin)
        if not any(key.works() for key in built.keys.all()):
            note(f"There are no keys in {settings.gateway_keys_file} yet: knime-mcp nodes keys create NAME")
        asyncio.run(serve(built, on_ready=_announce))
    return ExitCode.OK


def _announce(public: str, internal: str | None) -> None:
    announce(public)
    if internal is not None:
        print(f"Serving this machine, without keys, at {internal}", file=sys.stderr, flush=True)
