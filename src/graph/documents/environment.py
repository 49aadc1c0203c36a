"""Fills in ``${NAME}`` in the settings of servers, so that secrets need not stand in a document.

The syntax is that of other programs' ``mcp.json``: ``${NAME}``, ``${NAME:-default}``; ``$${`` is a literal
``${``.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

_REFERENCE: Final = re.compile(r"\$(\$\{)|\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}")


def substitute(text: str, environ: Mapping[str, str]) -> tuple[str, tuple[str, ...]]:
    """Fills in environment variables.

    Args:
        text: Text with references.
        environ: The variables.

    Returns:
        The text with values, and the names of variables that are not set (their references stay).
    """
    missing: list[str] = []

    def value(match: re.Match[str]) -> str:
        if match[1]:
            return match[1]
        if match[2] in environ:
            return environ[match[2]]
        if match[3] is not None:
            return match[3]
        missing.append(match[2])
        return match[0]

    return _REFERENCE.sub(value, text), tuple(dict.fromkeys(missing))
