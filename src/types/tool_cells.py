"""The project's own cell type for tools, which the stand-in has beside KNIME's: its value factory.

Other modules read and write whole columns of tools; this wrapper decodes single cells, such as for a table
that shows its content.
"""

from __future__ import annotations

import warnings
from typing import Any, Final

from knime.api.types import PythonValueFactory

from .tool import FIELD_NAMES, MCPTool, Tool, from_fields, to_fields

_DEPRECATED: Final = ("WorkflowToolValueFactory", "MCPToolValueFactory")


class ToolValueFactory(PythonValueFactory):
    """Turns a tool into the struct of nine fields and back."""

    def __init__(self) -> None:
        super().__init__(MCPTool)

    def encode(self, value: Tool | None) -> dict[str, Any] | None:
        if value is None:
            return None
        # KNIME's structs have positions as names.
        return {str(i): part for i, part in enumerate(to_fields(value))}

    def decode(self, storage: dict[str, Any] | None) -> Tool | None:
        if storage is None:
            return None
        return from_fields(*(storage.get(str(i)) for i in range(len(FIELD_NAMES))))


def __getattr__(name: str) -> Any:
    if name in _DEPRECATED:
        warnings.warn(
            f"{name} is deprecated and goes in 2.0; use ToolValueFactory, which is for both kinds of tools",
            DeprecationWarning,
            stacklevel=2,
        )
        return ToolValueFactory
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
