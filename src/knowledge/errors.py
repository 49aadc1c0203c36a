"""Errors of catalogues and spec packs themselves; wrong arguments are `ArgumentsInvalid`."""

from ..types.errors import MCPError


class CatalogueError(MCPError):
    """The catalogue cannot be read or built: there is none, it is damaged, or another version's."""


class PackError(MCPError):
    """A spec pack cannot be used; the text names file, line and key of everything that is wrong with it."""
