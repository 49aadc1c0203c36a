"""Finds the workflow at a KNIME path, by KNIME's rules.

KNIME stores a workflow as a folder. Beside an exported workflow there are usually archives of other
workflows, so ``../other`` is the folder ``other`` or the file ``other.knwf``.
"""

from __future__ import annotations

import os
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

from .errors import RunError

if TYPE_CHECKING:
    from .node_kinds.node_kind import World

_ENDING = ".knwf"
_FIX = "Use paths relative to the workflow, such as ../other-workflow"


def workflow_at(location: Any, world: World) -> Path:
    """Finds a workflow: a folder with ``workflow.knime`` in it, or an archive.

    Args:
        location: A KNIME path, with ``fs_category``, ``fs_specifier`` and ``path``.
        world: The surroundings of the run, with the folder of the running workflow.

    Raises:
        RunError: There is no workflow, or the path belongs to a file system that only KNIME has.
    """
    place = place_of(location, world)
    is_archive = place.suffix.lower() == _ENDING and place.is_file()
    if (place / "workflow.knime").is_file() or (location.fs_category == "LOCAL" and is_archive):
        return place
    if is_archive:
        raise RunError(
            f"{location.path} is an archive, which KNIME takes for a workflow only in a LOCAL path",
            fix=f"Import it, and leave {_ENDING} out of the path",
        )
    archive = place.with_name(place.name + _ENDING)
    if location.fs_specifier == "knime.workflow" and archive.is_file():
        return archive
    raise RunError(f"No workflow is at {location.path}; looked for {place}")


def place_of(location: Any, world: World) -> Path:
    """The path on this disk for a KNIME path. There may be no file.

    Raises:
        RunError: The path cannot be resolved outside KNIME.
    """
    path = str(location.path)
    match location.fs_category, location.fs_specifier:
        case "RELATIVE", "knime.workflow":
            return _beside(path, world)
        case "RELATIVE", "knime.workflow.data":
            return _in_data_area(path, world)
        case "LOCAL", _:
            return Path(path)
        case category, specifier:
            raise RunError(f"Paths of the kind {specifier or category} are known to KNIME only", fix=_FIX)


def _beside(path: str, world: World) -> Path:
    if world.beside is None:
        raise RunError(f"It is not known where the workflow lies, so {path} is not found")
    if PurePosixPath(path).parts[:1] != ("..",):
        raise RunError(f"{path} does not lead out of the workflow", fix=_FIX)
    # Not resolve(), because "workflow" stands for the workflow's folder, which may not exist.
    return Path(os.path.normpath(world.beside.absolute() / "workflow" / path))


def _in_data_area(path: str, world: World) -> Path:
    area = world.workflow_dir.absolute() / "data"
    found = Path(os.path.normpath(area / path.lstrip("/")))
    if not found.is_relative_to(area):
        raise RunError(f"{path} leads out of the workflow's data area")
    return found
