"""The protocol revisions that this client speaks, in two eras.

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
# JSON-RPC batches exist in revision 2025-03-26 only; servers of the older one may send them, too.
BATCH_VERSIONS: Final = frozenset({"2024-11-05", "2025-03-26"})


class Era(Enum):
    """The two ways in which client and server begin and keep a conversation."""

    LEGACY = "legacy"
    """``initialize``, sessions, requests from the server, resumable streams."""
    MODERN = "modern"
    """No handshake: every request names the client and the revision."""


def era_of(version: str) -> Era:
    """The era of a revision that `ALL_VERSIONS` names."""
    return Era.MODERN if version in MODERN_VERSIONS else Era.LEGACY


def newest(offered: object, known: tuple[str, ...]) -> str | None:
    """The newest known revision that a server offers; None without one, or if `offered` is not a list."""
    if not isinstance(offered, list):
        return None
    return next((version for version in reversed(known) if version in offered), None)
