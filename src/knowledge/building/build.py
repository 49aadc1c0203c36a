"""Builds a catalogue from all of its sources, and reports which nodes were left out and why."""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from ..errors import CatalogueError
from ..packs.included_files import own_packs
from ..packs.reading import Pack, read_pack
from .plugins import PluginNodes, Skipped, read_plugins
from .writing import write_catalogue

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from ..model import CatalogueOrigin, NodeSpec
    from .writing import Step

_MOST_REASONS: Final = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildReport:
    """The result of a build.

    Attributes:
        path: The catalogue's file.
        origin: A summary of the catalogue's content.
        skipped: The nodes that were left out.
        plugins: The nodes that were found in plug-ins.
        seconds: The duration of the build.
        size: The size of the file in bytes.
    """

    path: Path
    origin: CatalogueOrigin
    skipped: tuple[Skipped, ...]
    plugins: PluginNodes
    seconds: float
    size: int

    def reasons(self) -> dict[str, tuple[Skipped, ...]]:
        """The skipped nodes by reason, the most frequent reason first."""
        counts = Counter(entry.reason for entry in self.skipped)
        return {
            reason: tuple(entry for entry in self.skipped if entry.reason == reason)
            for reason, _ in counts.most_common()
        }


def build_catalogue(
    path: Path,
    *,
    plugins: Sequence[Path] = (),
    packs: Sequence[Path] = (),
    with_own_packs: bool = True,
    extensions: Sequence[NodeSpec] = (),
    skipped: Sequence[Skipped] = (),
    on_step: Callable[[Step], None] | None = None,
) -> BuildReport:
    """Builds a catalogue. The file is replaced only once the new catalogue is complete.

    Args:
        path: The catalogue's file. An existing catalogue stays readable until the new one replaces it.
        plugins: Installed KNIMEs, folders of plug-ins, or plug-ins.
        packs: Spec packs. A pack with the name of an included pack replaces that pack.
        with_own_packs: Include the packs that come with this program.
        extensions: Nodes of Python extensions; see `knime_mcp.knowledge.building.introspection`.
        skipped: Nodes that were left out before, for the report.
        on_step: Called with (step, done, total).

    Raises:
        PackError: A pack has problems.
        CatalogueError: There are no nodes, two nodes have the same id (or the same type and subtype), or the
            file cannot be replaced.
        OSError: A source cannot be read, or the file cannot be written.
    """
    begin = time.perf_counter()
    read = _read_packs(packs, with_own_packs)
    found = read_plugins(plugins, on_step=on_step) if plugins else PluginNodes()
    left_out = (*skipped, *found.skipped)
    nodes = [*(node for pack in read for node in pack.nodes), *extensions, *found.nodes]
    if not nodes:
        where = ", ".join(str(root) for root in plugins) or "the sources"
        why = "".join(f". {entry}" for entry in left_out[:_MOST_REASONS])
        raise CatalogueError(
            f"There are no nodes in {where}{why}",
            fix="Name the folder of an installed KNIME (with 'plugins' in it), or a folder of plug-ins."
            if plugins or not left_out
            else "",
        )
    origin = write_catalogue(
        path,
        nodes,
        type_order=tuple(dict.fromkeys(name for pack in read for name in pack.types)),
        old_names=[name for pack in read for name in pack.old_names],
        on_step=on_step,
    )
    return BuildReport(
        path=path,
        origin=origin,
        skipped=left_out,
        plugins=found,
        seconds=time.perf_counter() - begin,
        size=path.stat().st_size,
    )


def _read_packs(packs: Sequence[Path], with_own: bool) -> list[Pack]:
    own = [read_pack(path, shown_as=f"packs/{path.name}") for path in own_packs()] if with_own else []
    given = [read_pack(path) for path in packs]
    names = {pack.name for pack in given}
    return [*(pack for pack in own if pack.name not in names), *given]
