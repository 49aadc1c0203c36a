"""The catalogue of nodes: the one that commands read, and ``knime-nodes build``."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from knime_mcp.cli.command_errors import CommandError, ExitCode, reports_errors
from knime_mcp.cli.terminal import err, note, plain, print_json, say
from knime_mcp.types.errors import MCPError
from knime_mcp.types.texts import counted

if TYPE_CHECKING:
    from ..catalogue_reader import Catalogue
    from ..node_model import CatalogueOrigin, NodeSpec
    from ..sources.catalogue_build import BuildReport

CatalogueOption = Annotated[
    Path | None,
    typer.Option(
        "--catalogue",
        "-c",
        metavar="FILE",
        help="The catalogue, as 'knime-nodes build' writes it. Without it: yours, or else the one that"
        " comes along.",
    ),
]

_SHOWN = 3


def open_catalogue(file: Path | None) -> Catalogue:
    """Opens a catalogue: the given one, the person's own, or else the included one."""
    from ..catalogue_reader import Catalogue
    from ..default_catalogue import user_catalogue

    path = file or user_catalogue()
    if file is None and not path.exists():
        path = catalogue_that_comes_along()
    return Catalogue(path)


def catalogue_that_comes_along() -> Path:
    """The file of the included catalogue: this extension's nodes, the packs, and nodes of KNIME."""
    from ..default_catalogue import default_catalogue
    from ..packs import BASICS, FACTS, OWN_NODES, WORDS

    def nodes() -> list[NodeSpec]:
        from ..sources.shipped_nodes import own_nodes, shipped_nodes  # only for a build

        return [*own_nodes(), *shipped_nodes()]

    return default_catalogue(nodes, made_of=[BASICS, FACTS, OWN_NODES, WORDS])


def tell_origin(origin: CatalogueOrigin) -> None:
    from ..node_service import origin_as_json

    facts = origin_as_json(origin)
    nodes = counted(facts["nodes"], "node")
    note(f"Catalogue {facts['version']} of {facts['built_at']}: {nodes}; {facts['origin']}")


@reports_errors
def build(
    knime: Annotated[
        list[Path] | None,
        typer.Option(
            "--knime",
            metavar="DIR",
            exists=True,
            file_okay=False,
            help="An installed KNIME: its active plug-ins.",
        ),
    ] = None,
    plugins: Annotated[
        list[Path] | None,
        typer.Option(
            "--plugins", metavar="DIR", exists=True, help="A folder of plug-ins, jars or not, or one plug-in."
        ),
    ] = None,
    pack: Annotated[
        list[Path] | None,
        typer.Option(
            "--pack", metavar="F.yaml", exists=True, dir_okay=False, help="A pack of node specifications."
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            "-o",
            metavar="FILE",
            dir_okay=False,
            help="The catalogue; else where all commands look for it.",
        ),
    ] = None,
    bare: Annotated[
        bool,
        typer.Option(
            "--bare",
            help="Only what is named here: without what the catalogue had, and what comes with knime-mcp.",
        ),
    ] = False,
    skipped: Annotated[
        bool, typer.Option("--skipped", help="Name everything that was left out, not only a few of a kind.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the whole report as JSON.")] = False,
) -> ExitCode:
    """Build the catalogue of nodes from an installed KNIME, plug-ins and spec packs.

    Options may be repeated. What is in the catalogue stays, unless its source is read anew. A catalogue that
    servers read may be rebuilt while they do: they take the new one with their next answer. A node that
    cannot be read is reported, with the reason. A source without nodes is an error, and the catalogue stays
    as it was.

    Example: knime-nodes build --knime /opt/knime
    """
    from knime_mcp.cli.files import check_output
    from knime_mcp.cli.terminal import steps_progress

    from ..default_catalogue import user_catalogue
    from ..sources.catalogue_build import build_catalogue
    from ..sources.shipped_nodes import own_nodes, shipped_nodes

    check_output(out)
    path = out if out is not None else user_catalogue()
    earlier = None if bare else _earlier(path)
    try:
        with steps_progress() as bar:
            report = build_catalogue(
                path,
                plugins=[*(knime or []), *(plugins or [])],
                packs=pack or [],
                with_own_packs=not bare,
                further=[] if bare else own_nodes(),
                stand_ins=() if bare else shipped_nodes(),
                earlier=earlier,
                on_step=bar,
            )
    except (MCPError, CommandError):
        if earlier is not None:
            note(f"{path} is as it was:")
            tell_origin(earlier.origin)
        raise
    finally:
        if earlier is not None:
            earlier.close()
    if as_json:
        print_json(_report_json(report))
        return ExitCode.OK
    _tell(report, every=skipped)
    return ExitCode.OK


def _earlier(path: Path) -> Catalogue | None:
    """The catalogue to add to; None if there is none that can be read."""
    from ..catalogue_reader import Catalogue

    try:
        return Catalogue(path) if path.exists() else None
    except MCPError as error:
        note(f"{error.what}. Nothing is taken over from it.")
        return None


def _tell(report: BuildReport, *, every: bool) -> None:
    for reason, entries in report.reasons().items():
        note(f"Left out: {len(entries)} × {reason}")
        for entry in entries if every else entries[:_SHOWN]:
            note(f"  {entry.what} in {entry.where}{': ' + entry.detail if entry.detail else ''}")
        if len(entries) > _SHOWN and not every:
            note(f"  … and {len(entries) - _SHOWN} more; --skipped names them all")
    if report.plugins.well_known:
        note(f"In short: {report.plugins.well_known} nodes of KNIME that describe themselves in code")
    if report.kept:
        note(f"As before: {counted(report.kept, 'node')} of sources that were not read now")
    for source in report.origin.sources:
        err().print(plain(f"{source.nodes:6} nodes from {source.text}"))
    say(
        f"{report.path}: {counted(report.origin.nodes, 'node')} from"
        f" {counted(report.plugins.bundles, 'plug-in')} and {counted(len(report.origin.sources), 'source')},"
        f" {report.size / 1e6:.1f} MB, {report.seconds:.1f} s,"
        f" version {report.origin.version}",
        "bold green",
    )


def _report_json(report: BuildReport) -> dict[str, Any]:
    origin = report.origin
    return {
        "file": str(report.path),
        "version": origin.version,
        "built_at": origin.built_at,
        "nodes": origin.nodes,
        "kept": report.kept,
        "plugins": report.plugins.bundles,
        "in_short": report.plugins.well_known,
        "bytes": report.size,
        "seconds": round(report.seconds, 3),
        "sources": [asdict(source) for source in origin.sources],
        "skipped": [asdict(entry) for entry in report.plugins.skipped],
    }
