"""Errors of catalogues and spec packs. The error for wrong arguments is `ArgumentsInvalid`."""

from ..types.errors import MCPError


class CatalogueError(MCPError):
    """The catalogue cannot be read or built, as it is missing, damaged, or has another version's format."""


class PackError(MCPError):
    """A spec pack cannot be used. The message has the file, line and key of each problem."""
