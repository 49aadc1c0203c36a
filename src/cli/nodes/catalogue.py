"""The catalogue that the commands of ``knime-mcp nodes`` read."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ...types.short_texts import counted
from ..terminal import note

if TYPE_CHECKING:
    from ...knowledge.catalogue_reader import Catalogue
    from ...knowledge.node_model import CatalogueOrigin, NodeSpec

CatalogueOption = Annotated[
    Path | None,
    typer.Option(
        "--catalogue",
        "-c",
        metavar="FILE",
        help="The catalogue, as 'knime-mcp nodes build' writes it. Without it: yours, or else the one that"
        " comes along.",
    ),
]


def open_catalogue(file: Path | None) -> Catalogue:
    """Opens a catalogue: the given one, the person's own, or else the included one.

    Raises:
        CatalogueError: The catalogue is missing, damaged, or of another version.
    """
    from ...knowledge.catalogue_reader import Catalogue
    from ...knowledge.default_catalogue import user_catalogue

    path = file or user_catalogue()
    if file is None and not path.exists():
        path = catalogue_that_comes_along()
    return Catalogue(path)


def catalogue_that_comes_along() -> Path:
    """The file of the included catalogue: this extension's nodes, the packs, and well-known nodes.

    Raises:
        CatalogueError: The catalogue cannot be built.
    """
    from ...knowledge.default_catalogue import default_catalogue
    from ...knowledge.packs import BASICS
    from .extension import own_files, own_nodes

    def extension() -> list[NodeSpec]:
        from ...knowledge.sources.spec_packs import basic_nodes  # not needed once a catalogue is built

        return [*own_nodes(), *basic_nodes()]

    return default_catalogue(extension, made_of=[BASICS, *own_files()])


def tell_origin(origin: CatalogueOrigin) -> None:
    """Writes the source of an answer to standard error."""
    from ...knowledge.node_service import origin_as_json

    facts = origin_as_json(origin)
    nodes = counted(facts["nodes"], "node")
    note(f"Catalogue {facts['version']} of {facts['built_at']}: {nodes}; {facts['origin']}")
