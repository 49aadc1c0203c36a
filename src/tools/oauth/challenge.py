"""The Bearer challenge of a refusal's ``WWW-Authenticate`` header (RFC 6750 §3)."""

from dataclasses import dataclass

from ..protocol.challenges import parse_challenges


@dataclass(frozen=True, slots=True)
class BearerChallenge:
    """The parameters of a Bearer challenge that a client uses.

    Attributes:
        wants_bearer: False if the server names other schemes only. A refusal without a challenge is legal
            since 2025-11-25 and means Bearer.
        resource_metadata: URL of the protected resource metadata (RFC 9728 §5.1).
        scope: Scopes that the request needs, separated by spaces.
        error: ``invalid_token``, ``insufficient_scope`` or another code.
    """

    wants_bearer: bool = True
    resource_metadata: str | None = None
    scope: str | None = None
    error: str | None = None

    @classmethod
    def read(cls, header: str | None) -> "BearerChallenge":
        """Reads a ``WWW-Authenticate`` value, which may hold several challenges and header lines."""
        challenges = parse_challenges(header)
        if not challenges:
            return cls()
        bearers = [challenge for challenge in challenges if challenge.scheme.lower() == "bearer"]
        if not bearers:
            return cls(wants_bearer=False)
        merged: dict[str, str] = {}
        for challenge in reversed(bearers):  # the first one wins
            merged |= challenge.parameters
        return cls(
            resource_metadata=merged.get("resource_metadata") or None,
            scope=" ".join(merged.get("scope", "").split()) or None,
            error=merged.get("error") or None,
        )
