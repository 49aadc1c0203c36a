"""``knime-mcp nodes keys``: manages the gateway's keys."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..errors import ExitCode, UsageError, reports_errors
from ..terminal import note, print_json, say, show, table

if TYPE_CHECKING:
    from ...knowledge.gateway.api_keys import ApiKey, KeyStore

_SCOPES = ("tools:read", "tools:execute", "health:check")
KeysFileOption = Annotated[
    Path | None,
    typer.Option("--keys-file", metavar="FILE", help="Where the keys are kept; else GATEWAY_KEYS_FILE."),
]


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
        float | None, typer.Option(min=0.001, max=36500, help="Refuse it after so many days.")
    ] = None,
    keys_file: KeysFileOption = None,
) -> ExitCode:
    """Make a key. It is shown once, alone on standard output; only a digest of it is kept.

    Example: knime-mcp nodes keys create ci --scope tools:read
    """
    from ...knowledge.gateway.api_keys import Scope

    wanted = scope or list(_SCOPES)
    unknown = sorted(set(wanted) - set(_SCOPES))
    if unknown:
        raise UsageError(f"--scope {', '.join(unknown)}: scopes are {', '.join(_SCOPES)}.")
    with _store(keys_file) as store:
        secret, key = store.create(name, map(Scope, wanted), rate_limit=rate_limit, days=days)
    note(f"Key {key.id} for {key.name}: {', '.join(sorted(key.scopes))}. Send it in the header X-API-Key.")
    say(secret)
    return ExitCode.OK


@reports_errors
def list_keys(
    as_json: Annotated[bool, typer.Option("--json", help="Print them as JSON.")] = False,
    keys_file: KeysFileOption = None,
) -> ExitCode:
    """List the keys, also those that no longer work; the keys themselves nobody knows.

    Example: knime-mcp nodes keys list
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
    show(table(None, ("id", "name", "scopes", "per minute", "created", "expires", "state"), rows))
    return ExitCode.OK


@reports_errors
def revoke(
    key: Annotated[str, typer.Argument(metavar="KEY", help="Its id, or its name if only one key has it.")],
    keys_file: KeysFileOption = None,
) -> ExitCode:
    """Revoke a key: a gateway that runs refuses it from the next request on.

    Example: knime-mcp nodes keys revoke ci
    """
    with _store(keys_file) as store:
        revoked = store.revoke(key)
    note(f"Key {revoked.id} for {revoked.name} is revoked.")
    return ExitCode.OK


def _store(file: Path | None) -> KeyStore:
    from ...knowledge.gateway.api_keys import KeyStore
    from ...knowledge.gateway.gateway_settings import read_settings

    return KeyStore(read_settings(gateway_keys_file=file).gateway_keys_file)


def _state(key: ApiKey) -> str:
    if key.revoked_at is not None:
        return f"revoked {key.revoked_at:%Y-%m-%d %H:%M}"
    return "works" if key.works() else "expired"


def _as_json(key: ApiKey) -> dict[str, Any]:
    return {
        "id": key.id,
        "name": key.name,
        "scopes": sorted(key.scopes),
        "rate_limit": key.rate_limit,
        "created_at": key.created_at.isoformat(),
        "expires_at": key.expires_at.isoformat() if key.expires_at else None,
        "revoked_at": key.revoked_at.isoformat() if key.revoked_at else None,
        "works": key.works(),
    }
