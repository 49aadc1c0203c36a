"""The workflow behind a workflow tool: found in its file store, put into an audit workflow as a metanode."""

from __future__ import annotations

import contextlib
import hashlib
import json
import re
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

from .step import MARK

if TYPE_CHECKING:
    from ...knwf import OtherNode, Position, Workflow
    from ...types.tool import WorkflowTool

_NOT_IN_FOLDER: Final = re.compile("[^a-zA-Z0-9 ]")
_LONGEST_FOLDER: Final = 60


def segment_of(tool: WorkflowTool) -> Workflow | None:
    """Reads the workflow of a tool, see `segment_file`; None where it cannot be resolved."""
    from ...knwf import read_workflow

    path = segment_file(tool)
    try:
        return None if path is None else read_workflow(path)
    except Exception:  # a damaged file can fail in any way; the canvas gets a note then
        return None


def segment_digest(tool: WorkflowTool) -> str | None:
    """The digest of a tool's workflow, as the definition's digest identifies an MCP tool.

    Args:
        tool: The tool, with the keys of its file stores.

    Returns:
        ``sha256:`` and the SHA-256 of the file of its workflow in 64 hexadecimal digits, None where that
        cannot be resolved. KNIME keeps the workflow's data area elsewhere, which the digest does not cover.
    """
    path = segment_file(tool)
    try:
        if path is None:
            return None
        about = path.stat()
        return _digest(path, about.st_mtime_ns, about.st_size)
    except OSError:
        return None


@lru_cache(maxsize=64)
def _digest(path: Path, mtime: int, size: int) -> str:  # noqa: ARG001 - part of the cache key
    with path.open("rb") as file:
        return f"sha256:{hashlib.file_digest(file, 'sha256').hexdigest()}"


def segment_file(tool: WorkflowTool) -> Path | None:
    """Finds the file of a tool's workflow, the first of its file stores.

    Works only in the thread that executes a node: only there does KNIME resolve file stores.

    Args:
        tool: The tool, with the keys of its file stores.

    Returns:
        The file, None where it cannot be resolved.
    """
    if not tool.filestore_keys:
        return None
    from knime.api.types import FileStorePythonValueFactory

    class Segment(FileStorePythonValueFactory):
        # A value factory is the public way to the path of a file store.
        def read(self, file_paths: list[str], table_data: Any) -> Path | None:  # noqa: ARG002
            return Path(file_paths[0]) if file_paths else None

    try:
        path = Segment(str).decode({"0": tool.filestore_keys, "1": None})
    except Exception:  # KNIME raises different exceptions for a missing store
        return None
    return path if path is not None and path.is_file() else None


def with_arguments(segment: Workflow, arguments: str | None) -> Workflow:
    """Sets the arguments of a recorded call as defaults of the Configuration nodes.

    Parameters without a recorded value, such as secrets, or with an unfit one keep their defaults.
    """
    from ...knwf import CONFIGURATION_FACTORIES, KnwfError, NativeNode, read_configuration, with_value

    given = _arguments(arguments)
    nodes = list(segment.nodes)
    for place, node in enumerate(nodes):
        if not isinstance(node, NativeNode) or node.factory not in CONFIGURATION_FACTORIES:
            continue
        with contextlib.suppress(KnwfError):
            configuration = read_configuration(node)
            names = (f"{configuration.parameter}-{node.id}", configuration.parameter)
            value = next((given[name] for name in names if name in given), None)
            if isinstance(value, dict):  # KNIME's own form: {"string": "x"}
                value = cast("dict[str, Any]", value).get(configuration.kind)
            if isinstance(value, str | int | float) and not (isinstance(value, str) and MARK.search(value)):
                nodes[place] = with_value(node, value)
    return replace(segment, nodes=tuple(nodes))


def _arguments(text: str | None) -> dict[str, Any]:
    try:
        parsed = json.loads(text or "{}")
    except (ValueError, RecursionError):
        return {}
    if not isinstance(parsed, dict):
        return {}
    arguments = cast("dict[str, Any]", parsed)
    inner = arguments.get("configuration")
    with_tables = arguments.keys() == {"configuration", "data_inputs"} and isinstance(inner, dict)
    return cast("dict[str, Any]", inner) if with_tables else arguments


def metanode(
    node_id: int, tool: WorkflowTool, segment: Workflow, position: Position
) -> tuple[OtherNode, dict[str, bytes]]:
    """Makes a metanode of a tool's workflow.

    Returns:
        The node, and its files by their path in the folder of the surrounding workflow.

    Raises:
        KnwfError: The workflow cannot be written.
    """
    from ...knwf import OtherNode
    from ...knwf.workflow_file import workflow_files

    name = _NOT_IN_FOLDER.sub("_", tool.name)[:_LONGEST_FOLDER].strip() or "Workflow"
    folder = f"{name} (#{node_id})"
    files = {f"{folder}/{path}": data for path, data in workflow_files(segment).items()}
    return OtherNode(node_id, tool.name, "metanode", f"{folder}/workflow.knime", position), files
