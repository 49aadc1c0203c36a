"""KNIME's Python nodes without KNIME.

- ``standin/``: our own ``knime.extension``, ``knime.api`` and ``knime.types``, which nodes import.
  `use_standin` makes them importable if KNIME's own package is not installed.
- The modules of this folder are the host, which has KNIME's part in running a node. `load_extension` returns
  an `ExtensionHost` (``host``), which describes nodes as KNIME shows them, runs nodes and opens their dialogs
  (``node_run``; ``port_values`` and ``column_types`` for inputs and outputs, ``node_results`` for results).
- ``workflows/`` runs whole workflows on a host.
"""

import importlib
import importlib.util
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .node_results import CredentialPort, HeadlessError, NodeResult, OutputTable

if TYPE_CHECKING:
    import os

    from ..types.tool import WorkflowTool
    from .host import ExtensionHost

__all__ = [
    "CredentialPort",
    "HeadlessError",
    "NodeResult",
    "OutputTable",
    "load_extension",
    "load_own_extension",
    "make_workflow_tool",
    "use_standin",
]

STANDIN = Path(__file__).parent / "standin"


def use_standin() -> None:
    """Adds the stand-in at the end of ``sys.path``, unless a ``knime.extension`` can be imported already.

    KNIME's own ``knime`` is a namespace package, and so is the stand-in's; Python would join the two. The
    stand-in is never found beside KNIME's own, as it is the last entry and is added only without KNIME.
    """
    if _extension_origin() is None:
        sys.path.append(str(STANDIN))
        importlib.invalidate_caches()


def _extension_origin() -> Path | None:
    """The file of the ``knime.extension`` that an import would load; None if there is none."""
    try:
        spec = importlib.util.find_spec("knime.extension")
    except ModuleNotFoundError:  # there is no parent package knime
        return None
    return Path(spec.origin) if spec is not None and spec.origin is not None else None


def load_own_extension() -> "ExtensionHost":
    """Loads this project's own extension, from the checkout or from an installed wheel.

    Raises:
        HeadlessError: As for `load_extension`, or the files of the extension are missing.
    """
    return load_extension(extension_folder() / "knime.yml")


def extension_folder() -> Path:
    """The folder of this project's ``knime.yml``; `HeadlessError` if that file is missing."""
    package = Path(__file__).resolve().parents[1]
    for root in (package.parent, package):
        if (root / "knime.yml").is_file():
            return root
    raise HeadlessError("this installation came without the extension's knime.yml")


def load_extension(knime_yml: str | Path) -> "ExtensionHost":
    """Loads an extension as KNIME does. A second call for the same file returns the same host.

    Args:
        knime_yml: the extension's ``knime.yml``, or the folder of that file.

    Raises:
        HeadlessError: KNIME would not load the extension, or ``knime.extension`` is KNIME's own.
    """
    use_standin()
    origin = _extension_origin()
    if origin is None or STANDIN not in origin.parents:
        raise HeadlessError(
            f"knime.extension is KNIME's own ({origin}); nodes on it are run by KNIME. Outside KNIME, use a"
            " Python environment without the package knime-extension"
        )
    from .host import load

    return load(Path(knime_yml), _workflow_tools)


def _workflow_tools() -> "Any":
    from .workflows import workflow_tools

    return workflow_tools


def make_workflow_tool(
    knwf: "str | os.PathLike[str]", *, name: str | None = None, description: str | None = None
) -> "WorkflowTool":
    """Makes a tool from a workflow archive; nodes of this project's extension can run the tool.

    See `knime_mcp.headless.workflows.make_workflow_tool`.
    """
    host = load_own_extension()
    return _workflow_tools().make_workflow_tool(knwf, host, name=name, description=description)
