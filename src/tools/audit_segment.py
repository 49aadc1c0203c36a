"""The workflow behind a workflow tool: found in its file store, put into an audit workflow as a metanode."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from ..knwf import OtherNode, Position, Workflow
    from ..types.tool import WorkflowTool

_NOT_IN_FOLDER: Final = re.compile("[^a-zA-Z0-9 ]")
_LONGEST_FOLDER: Final = 60


def segment_of(tool: WorkflowTool) -> Workflow | None:
    """Reads the workflow of a tool. Only while a node executes: KNIME knows then where file stores are.

    Args:
        tool: The tool, with the keys of its file stores.

    Returns:
        The workflow, None where it cannot be resolved.
    """
    if not tool.filestore_keys:
        return None
    from knime.api.types import FileStorePythonValueFactory

    from ..knwf import read_workflow

    class Segment(FileStorePythonValueFactory):
        # A value factory is the public way to the path of a file store.
        def read(self, file_paths: list[str], table_data: Any) -> Path | None:  # noqa: ARG002
            return Path(file_paths[0]) if file_paths else None

    try:
        path = Segment(str).decode({"0": tool.filestore_keys, "1": None})
        return None if path is None else read_workflow(path)
    except Exception:  # whatever KNIME raises for a store that is gone; there is a note instead then
        return None


def metanode(
    node_id: int, tool: WorkflowTool, segment: Workflow, position: Position
) -> tuple[OtherNode, dict[str, bytes]]:
    """Makes a metanode of a workflow.

    Args:
        node_id: Id in the workflow around it.
        tool: The tool.
        segment: Its workflow.
        position: Where on the canvas.

    Returns:
        The node, and its files by their path in the folder of the workflow around it.

    Raises:
        KnwfError: The workflow cannot be written.
    """
    from ..knwf import OtherNode
    from ..knwf.writer import workflow_files

    name = _NOT_IN_FOLDER.sub("_", tool.name)[:_LONGEST_FOLDER].strip() or "Workflow"
    folder = f"{name} (#{node_id})"
    files = {f"{folder}/{path}": data for path, data in workflow_files(segment).items()}
    return OtherNode(node_id, tool.name, "metanode", f"{folder}/workflow.knime", position), files
