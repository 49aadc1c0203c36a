"""``knime-nodes serve``, ``gateway`` and ``keys``: node knowledge over MCP, and over plain HTTP."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from knime_mcp.cli.command_errors import ExitCode, UsageError, needs, reports_errors
from knime_mcp.cli.serving import LogLevel, announce, check_exposure, end_now, log_to_stderr
from knime_mcp.cli.shared_options import HostOption, HttpOption, LogLevelOption, a_number
from knime_mcp.cli.terminal import note, print_json, say, show_table

from .node_catalogue import CatalogueOption, open_catalogue, tell_origin

if TYPE_CHECKING:
    from ..gateway.api_keys import ApiKey, KeyStore

_PACKAGES = ("fastapi", "prometheus_client", "opentelemetry")
_needs_gateway = needs("The gateway needs", "gateway", *_PACKAGES, clone=Path(__file__).parents[3])
_SCOPES = ("tools:read", "tools:execute", "health:check")
KeysFileOption = Annotated[
    Path | None,
    typer.Option("--keys-file", metavar="FILE", help="Where the keys are kept; else GATEWAY_KEYS_FILE."),
]


@reports_errors
def serve(
    http: HttpOption = None,
    host: HostOption = "127.0.0.1",
    unprotected: Annotated[
        bool,
        typer.Option("--unprotected", help="Let everybody read who reaches an address beyond this machine."),
    ] = False,
    log_level: LogLevelOption = LogLevel.WARNING,
    catalogue: CatalogueOption = None,
) -> ExitCode:
    """Serve node knowledge as an MCP server, for agents and for KNIME's MCP Tool Provider.

    Over standard input and output, as programs start it, or over HTTP. It needs no database, no key and no
    network. A catalogue that is built anew while it is served is taken over with the next question.

    Example: knime-nodes serve --http 8080
    """
    import anyio

    from ..mcp_server import serve_http, tool_server
    from ..node_service import NodeKnowledgeMCPService

    log_to_stderr(log_level, "[%(levelname)s] %(name)s: %(message)s")
    if http is not None:
        instead = "'knime-nodes gateway' asks for keys"
        check_exposure(host, "read this catalogue", instead, unprotected=unprotected)
    with open_catalogue(catalogue) as opened:
        service = NodeKnowledgeMCPService(opened)
        if http is None:
            if tool_server(service).run_stdio():
                end_now()
            return ExitCode.OK
        tell_origin(opened.origin)
        anyio.run(lambda: serve_http(service, http, host=host, on_ready=announce))
    return ExitCode.OK


@reports_errors
@_needs_gateway
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
    """Serve node knowledge to a team: over MCP at /mcp, and over plain HTTP.

    Every request needs a key; 'knime-nodes keys create' makes one. Further settings are environment
    variables, listed in docs/gateway.md; an option counts more than its variable.

    Example: knime-nodes gateway --port 8000
    """
    from ..gateway.gateway_app import opened_gateway, serve
    from ..gateway.gateway_settings import read_settings
    from ..gateway.observing import configure_logging

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
        if built.tokens is None and not any(key.works() for key in built.keys.all()):
            note(f"There are no keys in {settings.gateway_keys_file} yet: knime-nodes keys create NAME")
        asyncio.run(serve(built, on_ready=_announce))
    return ExitCode.OK


def _announce(public: str, internal: str | None) -> None:
    announce(public)
    if internal is not None:
        print(f"Serving this machine, without keys, at {internal}", file=sys.stderr, flush=True)


@reports_errors
def create(
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="Who gets the key; the gateway's log names it.")
    ],
    scope: Annotated[
        list[str] | None,
        typer.Option(
            "--scope",
            "-s",
            metavar="SCOPE",
            help=f"What it is good for: {', '.join(_SCOPES)}; may be repeated. All, unless given.",
        ),
    ] = None,
    rate_limit: Annotated[
        int | None,
        typer.Option(
            min=0, metavar="N", help="Requests per minute (0: any number); else GATEWAY_RATE_LIMIT."
        ),
    ] = None,
    days: Annotated[
        float | None,
        typer.Option(min=0.001, max=36500, callback=a_number, help="Refuse it after so many days."),
    ] = None,
    keys_file: KeysFileOption = None,
) -> ExitCode:
    """Make a key. It is shown once, alone on standard output; only a digest of it is kept.

    Example: knime-nodes keys create ci --scope tools:read
    """
    from ..gateway.api_keys import Scope

    wanted = scope or list(_SCOPES)
    unknown = sorted(set(wanted) - set(_SCOPES))
    if unknown:
        raise UsageError(f"--scope {', '.join(unknown)}: scopes are {', '.join(_SCOPES)}.")
    with _store(keys_file) as store:
        secret, key = store.create(name, map(Scope, wanted), rate_limit=rate_limit, days=days)
    note(f"Key {key.id} for {key.name}: {', '.join(sorted(key.scopes))}. Send it in the header X-API-Key.")
    # Alone on standard output, for $(...) in a shell.
    say(secret)
    return ExitCode.OK


@reports_errors
def list_keys(
    as_json: Annotated[bool, typer.Option("--json", help="Print them as JSON.")] = False,
    keys_file: KeysFileOption = None,
) -> ExitCode:
    """List the keys, also those that no longer work; the keys themselves nobody knows.

    Example: knime-nodes keys list
    """
    with _store(keys_file) as store:
        keys = store.all()
    if as_json:
        print_json([_as_json(key) for key in keys])
        return ExitCode.OK
    rows = [
        (
            key.id,
            key.name,
            ", ".join(sorted(key.scopes)),
            "as set" if key.rate_limit is None else str(key.rate_limit or "any"),
            key.created_at.strftime("%Y-%m-%d"),
            key.expires_at.strftime("%Y-%m-%d %H:%M") if key.expires_at else "",
            _state(key),
        )
        for key in keys
    ]
    show_table(None, ("id", "name", "scopes", "per minute", "created", "expires", "state"), rows)
    return ExitCode.OK


@reports_errors
def revoke(
    key: Annotated[str, typer.Argument(metavar="KEY", help="Its id, or its name if only one key has it.")],
    keys_file: KeysFileOption = None,
) -> ExitCode:
    """Revoke a key: a gateway that runs refuses it from the next request on.

    Example: knime-nodes keys revoke ci
    """
    with _store(keys_file) as store:
        revoked = store.revoke(key)
    note(f"Key {revoked.id} for {revoked.name} is revoked.")
    return ExitCode.OK


def _store(file: Path | None) -> KeyStore:
    from ..gateway.api_keys import KeyStore
    from ..gateway.gateway_settings import read_settings

    return KeyStore(read_settings(gateway_keys_file=file).gateway_keys_file)


def _state(key: ApiKey) -> str:
    if key.revoked_at is not None:
        return f"revoked {key.revoked_at:%Y-%m-%d %H:%M}"
    return "works" if key.works() else "expired"


def _as_json(key: ApiKey) -> dict[str, Any]:
    times = ("created_at", "expires_at", "revoked_at")
    return {
        "id": key.id,
        "name": key.name,
        "scopes": sorted(key.scopes),
        "rate_limit": key.rate_limit,
        **{name: at.isoformat() if (at := getattr(key, name)) else None for name in times},
        "works": key.works(),
    }
