"""The digest of a tool's definition, which makes a tool cell a pin.

A person reads a tool's description and schema once and trusts it from then on. The digest covers everything
that a server may change behind a tool's back, so that a later call can be compared with what the person saw.
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

    The order of keys does not count; whether a part is absent, which None says, or empty does.

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
