"""``knime-mcp nodes build``: builds the catalogue of a person's nodes."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ...types.short_texts import counted
from ..errors import CommandError, ExitCode, reports_errors
from ..files import check_output
from ..progress import steps_progress
from ..terminal import err, note, plain, print_json, say

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ...knowledge.node_model import NodeSpec
    from ...knowledge.sources.catalogue_build import BuildReport
    from ...knowledge.sources.knime_plugins import Skipped

_SHOWN = 3
_NO_NODES = (
    "the module that its knime.yml names as extension_module must define the nodes with @knext.node, or"
    " import the modules that do"
)


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
    extension: Annotated[
        list[Path] | None,
        typer.Option(
            "--extension",
            metavar="KNIME.yml",
            exists=True,
            help="A Python extension. Its code runs: take only what you trust.",
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
        bool, typer.Option("--bare", help="Leave out the nodes and packs that come with knime-mcp.")
    ] = False,
    skipped: Annotated[
        bool, typer.Option("--skipped", help="Name everything that was left out, not only a few of a kind.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the whole report as JSON.")] = False,
) -> ExitCode:
    """Build the catalogue of nodes from an installed KNIME, plug-ins, Python extensions and spec packs.

    Options may be repeated. A catalogue that servers read may be rebuilt while they do: they take the new one
    with their next answer. What could not be read is reported, with the reason, and is no failure.

    Example: knime-mcp nodes build --knime /opt/knime
    """
    from ...knowledge.default_catalogue import user_catalogue
    from ...knowledge.sources.catalogue_build import build_catalogue

    check_output(out)
    path = out if out is not None else user_catalogue()
    with steps_progress() as bar:
        nodes, left_out = _extensions(extension or [], bare)
        report = build_catalogue(
            path,
            plugins=[*(knime or []), *(plugins or [])],
            packs=pack or [],
            with_own_packs=not bare,
            extensions=nodes,
            skipped=left_out,
            on_step=bar,
        )
    if as_json:
        print_json(_report_json(report))
        return ExitCode.OK
    _tell(report, every=skipped)
    return ExitCode.OK


def _extensions(files: Sequence[Path], bare: bool) -> tuple[list[NodeSpec], list[Skipped]]:
    """The nodes of extensions, and the extensions that cannot be imported or register no nodes."""
    from ...knowledge.sources.knime_plugins import Skipped
    from .extension import extension_nodes, own_nodes

    nodes = [] if bare else own_nodes()
    left_out: list[Skipped] = []
    for file in files:
        name = file.resolve().name
        try:
            described = extension_nodes(file)
            known = {node.id for node in nodes}
            nodes += [node for node in described if node.id not in known]
            if not described:
                reason = "is a Python extension that registers no nodes"
                left_out.append(Skipped(what=name, where=str(file), reason=reason, detail=_NO_NODES))
        except CommandError as error:
            reason = "is a Python extension that cannot be imported"
            left_out.append(Skipped(what=name, where=str(file), reason=reason, detail=str(error)))
    return nodes, left_out


def _tell(report: BuildReport, *, every: bool) -> None:
    for reason, entries in report.reasons().items():
        note(f"Left out: {len(entries)} × {reason}")
        for entry in entries if every else entries[:_SHOWN]:
            note(f"  {entry.what} in {entry.where}{': ' + entry.detail if entry.detail else ''}")
        if len(entries) > _SHOWN and not every:
            note(f"  … and {len(entries) - _SHOWN} more; --skipped names them all")
    if report.plugins.from_code:
        note(f"Without options: {report.plugins.from_code} nodes whose description is in compiled code")
    if report.plugins.well_known:
        note(f"In short: {report.plugins.well_known} nodes of KNIME that describe themselves in code")
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
        "plugins": report.plugins.bundles,
        "without_options": report.plugins.from_code,
        "in_short": report.plugins.well_known,
        "bytes": report.size,
        "seconds": round(report.seconds, 3),
        "sources": [asdict(source) for source in origin.sources],
        "skipped": [asdict(entry) for entry in report.skipped],
    }
