"""The revisions of the protocol that this client speaks, in their two eras.

https://modelcontextprotocol.io/specification/2026-07-28/basic/versioning. Revisions are an enumerated set,
not an ordered string. The era belongs to the server, not to a request.
"""

from enum import Enum
from typing import Final

HANDSHAKE_VERSIONS: Final = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
MODERN_VERSIONS: Final = ("2026-07-28",)
ALL_VERSIONS: Final = HANDSHAKE_VERSIONS + MODERN_VERSIONS
LATEST_HANDSHAKE: Final = HANDSHAKE_VERSIONS[-1]
LATEST_MODERN: Final = MODERN_VERSIONS[-1]
# JSON-RPC batches exist in one revision only; older servers may not know better either.
BATCH_VERSIONS: Final = frozenset({"2024-11-05", "2025-03-26"})


class Era(Enum):
    """The ways in which a conversation is begun and kept."""

    LEGACY = "legacy"
    """``initialize``, sessions, requests from the server, resumable streams."""
    MODERN = "modern"
    """No handshake: every request says who speaks which revision."""


def era_of(version: str) -> Era:
    """The era of a revision that `ALL_VERSIONS` names."""
    return Era.MODERN if version in MODERN_VERSIONS else Era.LEGACY


def newest(offered: object, known: tuple[str, ...]) -> str | None:
    """The newest of our revisions that a server offers, None if there is none or it sent no list."""
    if not isinstance(offered, list):
        return None
    return next((version for version in reversed(known) if version in offered), None)
