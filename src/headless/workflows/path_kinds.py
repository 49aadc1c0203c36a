"""Runs *String to Path* and *Workflow to Tool*, which find workflows at KNIME's paths.

KNIME stores a workflow as a folder. Beside an exported workflow are usually archives of other workflows,
so ``../other`` is the folder ``other`` or the file ``other.knwf``.
"""

from __future__ import annotations

import os
import tempfile
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

from ...knwf import KnwfError, read_string_to_path, read_workflow_to_tool
from ...knwf.knwf_archive import write_archive
from .native_kinds import arriving_table
from .node_kind import Done, Ports, Ready, WorkflowError

if TYPE_CHECKING:
    from collections.abc import Callable

    from ...knwf import NativeNode
    from ...types.tool import WorkflowTool
    from ..node_results import OutputTable
    from .node_kind import Job, World


_PATHS = "org.knime.filehandling.core.data.location.FSLocationValueFactory"


class StringToPath:
    """Runs String to Path nodes, which convert texts to paths."""

    def ready(self, node: NativeNode) -> Ready:
        return _ready(node, read_string_to_path, "Input table", "Output table")

    def run(self, job: Job) -> Done:
        from knime.types.builtin import FSLocationValue

        settings = read_string_to_path(job.node)
        table = arriving_table(job.inputs[0])
        texts = _cells(table, settings.column)
        if not all(text is None or isinstance(text, str) for text in texts):
            raise WorkflowError(f"The column '{settings.column}' does not hold texts")
        if settings.fail_on_missing and None in texts:
            raise WorkflowError(f"The column '{settings.column}' has missing cells")
        if any(text is not None and not text.strip() for text in texts):
            raise WorkflowError(f"The column '{settings.column}' has empty texts")
        paths = [
            None if text is None else FSLocationValue(settings.category, settings.specifier, text)
            for text in texts
        ]
        if settings.must_exist:
            gone = [p.path for p in paths if p is not None and not place_of(p, job.world).exists()]
            if gone:
                raise WorkflowError(f"Nothing is at {gone[0]}")
        column = job.world.host.column_of(paths, FSLocationValue)
        if settings.new_column is None:
            return Done(outputs=(_replaced(table, settings.column, settings.column, column),))
        return Done(outputs=(_appended(table, settings.new_column, column),))


class WorkflowToTool:
    """Runs Workflow to Tool nodes, which make tools from the workflows at paths."""

    def ready(self, node: NativeNode) -> Ready:
        return _ready(node, read_workflow_to_tool, "Paths", "Tools")

    def run(self, job: Job) -> Done:
        """See `NodeKind`. As in KNIME, a workflow without a tool leads to a missing cell and a warning."""
        from knime.types.tool import WorkflowTool as KnimeTool

        from ...types.columns import knime_value

        settings = read_workflow_to_tool(job.node)
        table, world = arriving_table(job.inputs[0]), job.world
        paths = _cells(table, settings.path_column)
        if table.logical_types[settings.path_column] != _PATHS:
            raise WorkflowError(
                f"The column '{settings.path_column}' does not hold paths",
                fix="Put a String to Path node before this one",
            )
        tools: list[Any] = []
        warnings: list[str] = []
        for row_id, path in zip(table.row_ids, paths, strict=True):
            try:
                tools.append(None if path is None else knime_value(_tool(path, world)))
            except (WorkflowError, KnwfError, OSError) as error:
                tools.append(None)
                warnings.append(f"{row_id} is no tool: {error}")
        column = world.host.column_of(tools, KnimeTool)
        if settings.policy == "APPEND":
            whole = _appended(table, settings.name, column)
        else:
            name = settings.path_column if settings.policy == "REPLACE" else settings.name
            whole = _replaced(table, settings.path_column, name, column)
        return Done(outputs=(whole,), warnings=tuple(warnings))


def _ready(node: NativeNode, read: Callable[[NativeNode], object], inlet: str, outlet: str) -> Ready:
    if any(group.count for group in node.port_groups):
        raise WorkflowError("It has a file system connection, which is not run here")
    read(node)
    return Ready(Ports((inlet,), (True,), (outlet,)))


def _cells(table: OutputTable, column: str) -> list[Any]:
    if column not in table.column_names:
        known = ", ".join(table.column_names) or "none"
        raise WorkflowError(f"The table that arrives has no column '{column}'; it has: {known}")
    return table.column(column)


def _tool(location: Any, world: World) -> WorkflowTool:
    make = world.host.workflow_tools().make_workflow_tool
    place = workflow_at(location, world)
    name = str(location.path).rstrip("/").rpartition("/")[2]
    if place.is_file():
        return make(place, world.host, name=name)
    with tempfile.TemporaryDirectory(prefix="knime-mcp-tool-") as folder:
        archive = Path(folder) / "tool.knwf"
        files = {f.relative_to(place).as_posix(): f.read_bytes() for f in place.rglob("*") if f.is_file()}
        write_archive(archive, place.name, files)
        return make(archive, world.host, name=name)


def _appended(table: OutputTable, name: str, column: Any) -> OutputTable:
    """The table with another column. As in KNIME, a name that exists already gets a number."""
    count, free = 0, name
    while free in table.column_names:
        count += 1
        free = f"{name} (#{count})"
    return replace(table, arrow=table.arrow.append_column(free, column))


def _replaced(table: OutputTable, old: str, name: str, column: Any) -> OutputTable:
    if name != old and name in table.column_names:
        raise WorkflowError(
            f"The table has a column '{name}' already", fix="Choose another name for the column"
        )
    index = table.column_names.index(old) + 1
    return replace(table, arrow=table.arrow.set_column(index, name, column))


_ENDING = ".knwf"
_FIX = "Use paths relative to the workflow, such as ../other-workflow"


def workflow_at(location: Any, world: World) -> Path:
    """Finds the workflow at a KNIME path, a folder or an archive; `WorkflowError` if there is none."""
    place = place_of(location, world)
    is_archive = place.suffix.lower() == _ENDING and place.is_file()
    if (place / "workflow.knime").is_file() or (location.fs_category == "LOCAL" and is_archive):
        return place
    if is_archive:
        raise WorkflowError(
            f"{location.path} is an archive, which KNIME takes for a workflow only in a LOCAL path",
            fix=f"Import it, and leave {_ENDING} out of the path",
        )
    archive = place.with_name(place.name + _ENDING)
    if location.fs_specifier == "knime.workflow" and archive.is_file():
        return archive
    raise WorkflowError(f"No workflow is at {location.path}; looked for {place}")


def place_of(location: Any, world: World) -> Path:
    """The path on this disk for a KNIME path, of those that exist outside KNIME. There may be no file."""
    path = str(location.path)
    match location.fs_category, location.fs_specifier:
        case "RELATIVE", "knime.workflow":
            return _beside(path, world)
        case "RELATIVE", "knime.workflow.data":
            return _in_data_area(path, world)
        case "LOCAL", _:
            return Path(path)
        case category, specifier:
            raise WorkflowError(
                f"Paths of the kind {specifier or category} are known to KNIME only", fix=_FIX
            )


def _beside(path: str, world: World) -> Path:
    if world.beside is None:
        raise WorkflowError(f"It is not known where the workflow lies, so {path} is not found")
    if PurePosixPath(path).parts[:1] != ("..",):
        raise WorkflowError(f"{path} does not lead out of the workflow", fix=_FIX)
    # Not resolve(), because "workflow" stands for the workflow's folder, which may not exist.
    return Path(os.path.normpath(world.beside.absolute() / "workflow" / path))


def _in_data_area(path: str, world: World) -> Path:
    area = world.workflow_dir.absolute() / "data"
    found = Path(os.path.normpath(area / path.lstrip("/")))
    # The workflow may come from somebody else, and must not read what is not its own.
    if not found.is_relative_to(area):
        raise WorkflowError(f"{path} leads out of the workflow's data area")
    return found
