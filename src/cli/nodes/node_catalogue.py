"""The catalogue of nodes: the one that commands read, and ``knime-mcp nodes build``.

Extensions are imported to describe their nodes: others in a process of their own, ours in this one.
"""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ...types.errors import MCPError
from ...types.texts import counted
from ..command_errors import CommandError, ExitCode, reports_errors
from ..terminal import err, note, plain, print_json, say

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from ...headless.host import ExtensionHost
    from ...knowledge.catalogue_reader import Catalogue
    from ...knowledge.node_model import CatalogueOrigin, NodeSpec
    from ...knowledge.sources.catalogue_build import BuildReport

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

_PARTS = ("agents", "audit", "client", "headless", "runs", "tools", "types")
_ENDED = "its code ends the process that imports it"
_STRANGER = "<no such choice>"
_SHOWN = 3
_NO_NODES = (
    "the module that its knime.yml names as extension_module must define the nodes with @knext.node, or"
    " import the modules that do"
)


def open_catalogue(file: Path | None) -> Catalogue:
    """Opens a catalogue: the given one, the person's own, or else the included one."""
    from ...knowledge.catalogue_reader import Catalogue
    from ...knowledge.default_catalogue import user_catalogue

    path = file or user_catalogue()
    if file is None and not path.exists():
        path = catalogue_that_comes_along()
    return Catalogue(path)


def catalogue_that_comes_along() -> Path:
    """The file of the included catalogue: this extension's nodes, the packs, and well-known nodes."""
    from ...knowledge.default_catalogue import default_catalogue
    from ...knowledge.packs import BASICS, FACTS, WORDS

    def extension() -> list[NodeSpec]:
        from ...knowledge.sources.shipped_nodes import shipped_nodes  # only for a build

        return [*own_nodes(), *shipped_nodes()]

    return default_catalogue(extension, made_of=[BASICS, FACTS, WORDS, *own_files()])


def tell_origin(origin: CatalogueOrigin) -> None:
    from ...knowledge.node_service import origin_as_json

    facts = origin_as_json(origin)
    nodes = counted(facts["nodes"], "node")
    note(f"Catalogue {facts['version']} of {facts['built_at']}: {nodes}; {facts['origin']}")


def extension_nodes(knime_yml: Path) -> list[NodeSpec]:
    """Imports an extension, by its ``knime.yml`` or the folder of that, and describes its nodes.

    The import runs in a separate process, as in KNIME, because extensions may have modules of the same name.
    """
    # Imported here, as loading them takes time that most commands need not spend.
    from concurrent.futures import ProcessPoolExecutor
    from concurrent.futures.process import BrokenProcessPool
    from multiprocessing import get_context

    with ProcessPoolExecutor(1, mp_context=get_context("spawn"), initializer=_print_to_stderr) as process:
        try:
            return process.submit(_imported_nodes, knime_yml).result()
        except BrokenProcessPool:
            raise _unreadable(knime_yml, _ENDED) from None


def _imported_nodes(knime_yml: Path) -> list[NodeSpec]:
    from ...headless import HeadlessError, load_extension

    try:
        return nodes_of(load_extension(knime_yml), str(knime_yml))
    except HeadlessError as error:
        # The other lines are a traceback in the extension's code.
        raise _unreadable(knime_yml, str(error).partition("\n")[0]) from None
    except SystemExit:
        raise _unreadable(knime_yml, _ENDED) from None


def _print_to_stderr() -> None:
    """Redirects an extension's prints to standard error, as standard output is the command's."""
    os.dup2(2, 1)


def _unreadable(knime_yml: Path, why: str) -> CommandError:
    return CommandError(f"The extension {knime_yml} cannot be read: {why}")


def own_nodes() -> list[NodeSpec]:
    from ...headless import HeadlessError, load_own_extension

    try:
        return nodes_of(load_own_extension(), "knime.yml")
    except HeadlessError as error:
        raise CommandError(f"The nodes of knime-mcp itself cannot be read: {error}") from None


def own_files() -> list[Path]:
    package = Path(__file__).resolve().parents[2]
    return sorted(file for folder in _PARTS for file in (package / folder).rglob("*.py"))


def nodes_of(host: ExtensionHost, file: str) -> list[NodeSpec]:
    """Describes the nodes of a loaded extension, in their order. `file` is its ``knime.yml`` as given."""
    from ...headless import HeadlessError
    from ...knowledge.sources.python_extensions import read_extension

    description = host.describe()
    dialogs: dict[str, Mapping[str, Any]] = {}
    for node_id in host.nodes:
        # Some dialogs open only with connected inputs; such nodes are described without settings.
        with suppress(HeadlessError):
            dialogs[node_id] = host.get_dialog(node_id)
    closed = {node_id: _closed(host, node_id, dialog) for node_id, dialog in dialogs.items()}
    return read_extension(description, dialogs, closed=closed, file=file)


def _closed(host: ExtensionHost, node_id: str, dialog: Mapping[str, Any]) -> set[str]:
    """The parameters with a fixed set of choices, which refuse any other value.

    Documents do not distinguish them from choices that depend on inputs, so a value is tried on the node.
    """
    data = dialog["data"]
    # A check that refuses the defaults says nothing by refusing another value.
    if not _accepts(host, node_id, data):
        return set()
    choices = _with_choices(dialog["schema"]["properties"]["model"], ())
    return {
        ".".join(keys) for keys in choices if not _accepts(host, node_id, _replaced(data, ("model", *keys)))
    }


def _accepts(host: ExtensionHost, node_id: str, document: Mapping[str, Any]) -> bool:
    try:
        host.load_parameters(node_id, document, host.version)
    except Exception:  # an extension's own check may raise anything
        return False
    return True


def _with_choices(schema: Mapping[str, Any], keys: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    for key, inner in schema.get("properties", {}).items():
        if "oneOf" in inner:
            yield (*keys, key)
        elif inner.get("type") == "object":
            yield from _with_choices(inner, (*keys, key))


def _replaced(data: Any, keys: tuple[str, ...]) -> Any:
    if not keys:
        return _STRANGER
    # A copy, as the document stays that of the dialog.
    return {**data, keys[0]: _replaced(data[keys[0]], keys[1:])}


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
    """Build the catalogue of nodes from an installed KNIME, plug-ins, Python extensions and spec packs.

    Options may be repeated. What is in the catalogue stays, unless its source is read anew. A catalogue that
    servers read may be rebuilt while they do: they take the new one with their next answer. A node that
    cannot be read is reported, with the reason. A source without nodes is an error, and the catalogue stays
    as it was.

    Example: knime-mcp nodes build --knime /opt/knime
    """
    from ...knowledge.default_catalogue import user_catalogue
    from ...knowledge.sources.catalogue_build import build_catalogue
    from ...knowledge.sources.shipped_nodes import shipped_nodes
    from ..files import check_output
    from ..terminal import steps_progress

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
                extensions=_extensions(extension or [], bare),
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
    from ...knowledge.catalogue_reader import Catalogue

    try:
        return Catalogue(path) if path.exists() else None
    except MCPError as error:
        note(f"{error.what}. Nothing is taken over from it.")
        return None


def _extensions(files: Sequence[Path], bare: bool) -> list[NodeSpec]:
    nodes = [] if bare else own_nodes()
    for file in files:
        described = extension_nodes(file)
        if not described:
            raise _unreadable(file, f"it registers no nodes: {_NO_NODES}")
        # An extension that is this one itself, or is named twice, has its nodes once.
        known = {node.id for node in nodes}
        nodes += [node for node in described if node.id not in known]
    return nodes


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
        "without_options": report.plugins.from_code,
        "in_short": report.plugins.well_known,
        "bytes": report.size,
        "seconds": round(report.seconds, 3),
        "sources": [asdict(source) for source in origin.sources],
        "skipped": [asdict(entry) for entry in report.plugins.skipped],
    }
