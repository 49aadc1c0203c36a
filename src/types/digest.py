"""The digest of a tool's definition, which pins the tool in a tool cell.

A person reads a tool's description and schema once and trusts the tool from then on. The digest covers all
parts of the definition that a server may change later, so that a call can check that they are still the same.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

from .canonical import canonical_json

if TYPE_CHECKING:
    from collections.abc import Mapping


def definition_digest(
    *,
    name: str,
    title: str | None,
    description: str | None,
    input_schema: Mapping[str, Any],
    output_schema: Mapping[str, Any] | None,
    annotations: Mapping[str, Any] | None,
) -> str:
    """Computes the digest of a tool's definition as a server gives it in ``tools/list``.

    The order of keys does not count. An absent part (None) differs from an empty part.

    Returns:
        ``sha256:`` and 64 hexadecimal digits: SHA-256 over canonical JSON.

    Raises:
        ValueError: A number that JSON does not have.
    """
    definition = {
        "annotations": None if annotations is None else dict(annotations),
        "description": description,
        "inputSchema": dict(input_schema),
        "name": name,
        "outputSchema": None if output_schema is None else dict(output_schema),
        "title": title,
    }
    return "sha256:" + hashlib.sha256(canonical_json(definition).encode()).hexdigest()
