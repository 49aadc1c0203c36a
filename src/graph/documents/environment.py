"""Fills in ``${NAME}`` in the settings of servers, so that secrets need not stand in a document.

The syntax is that of other programs' ``mcp.json``: ``${NAME}``, ``${NAME:-default}``, and ``${env:NAME}``, as
Cursor, Windsurf and VS Code write it; ``$${`` is a literal ``${``. VS Code's ``${input:id}``, which asks the
person, counts as not set.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

_REFERENCE: Final = re.compile(
    r"\$(\$\{)|\$\{(?:env:)?([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}|\$\{(input:[^}]*)\}"
)


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
        name = match[2] or match[4]
        if name in environ:
            return environ[name]
        if match[3] is not None:
            return match[3]
        missing.append(name)
        return match[0]

    return _REFERENCE.sub(value, text), tuple(dict.fromkeys(missing))
