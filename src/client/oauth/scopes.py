"""The scopes to ask for.

https://modelcontextprotocol.io/specification/2026-07-28/basic/authorization#scope-selection-strategy and
#scope-challenge-handling.
"""

from collections.abc import Iterable

OFFLINE = "offline_access"


def choose_scope(
    *,
    wanted: str | None,
    challenged: str | None,
    resource_scopes: Iterable[str] | None,
    server_scopes: Iterable[str] | None,
    refreshable: bool,
) -> str | None:
    """Chooses the scope of a first authorization.

    Args:
        wanted: The person's setting, which takes precedence.
        challenged: The scope in the server's challenge, which takes precedence over metadata.
        resource_scopes: ``scopes_supported`` of the protected resource.
        server_scopes: ``scopes_supported`` of the authorization server.
        refreshable: True if the grant can use a refresh token; see `with_offline`.

    Returns:
        Scopes separated by spaces; None to leave the parameter out.
    """
    chosen = wanted or challenged or " ".join(resource_scopes or ()) or None
    return with_offline(chosen, server_scopes, refreshable=refreshable)


def with_offline(scope: str | None, server_scopes: Iterable[str] | None, *, refreshable: bool) -> str | None:
    """Adds ``offline_access`` for a grant with refresh tokens if the server lists it, else removes it.

    https://modelcontextprotocol.io/specification/2026-07-28/basic/authorization#refresh-tokens
    """
    scopes = [each for each in (scope or "").split() if each != OFFLINE]
    if scopes and refreshable and OFFLINE in (server_scopes or ()):
        scopes.append(OFFLINE)
    return " ".join(dict.fromkeys(scopes)) or None


def union(*scopes: str | None) -> str | None:
    """All scopes, in order of first appearance, so that a step-up keeps the scopes granted before."""
    return " ".join(dict.fromkeys(each for scope in scopes for each in (scope or "").split())) or None


def covers(have: str | None, needed: str) -> bool:
    """Returns whether `have` contains all needed scopes."""
    return set(needed.split()) <= set((have or "").split())
