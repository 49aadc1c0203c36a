"""KNIME's Python nodes without KNIME.

- ``standin/``: our own ``knime.extension``, ``knime.api`` and ``knime.types``, which nodes import.
  `use_standin` makes them importable where KNIME is not.
- The modules of this folder are the host, which does what KNIME does around a node. `load_extension` gives an
  `ExtensionHost` (``host``). It runs nodes (``run``, with ``services`` behind their contexts; ``ports``,
  ``tables`` and ``value_types`` for what goes in and out; ``results`` for what it answers), opens their
  dialogs (``dialog``) and says what KNIME would show of them (``describe``).
- ``workflows/`` runs whole workflows on a host.
"""

import importlib
import importlib.util
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from .errors import HeadlessError
from .results import CredentialPort, NodeResult, OutputTable

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
    """Puts the stand-in at the end of ``sys.path``, unless there is a ``knime.extension`` already.

    KNIME's own package is made of namespace folders. The stand-in's ``knime`` is one too, so it could be
    found next to the real one; being last, and added only when there is none, it never is.
    """
    if _extension_origin() is None:
        sys.path.append(str(STANDIN))
        importlib.invalidate_caches()


def _extension_origin() -> Path | None:
    """The file of the ``knime.extension`` that an import would take."""
    try:
        spec = importlib.util.find_spec("knime.extension")
    except ModuleNotFoundError:  # there is no parent package knime
        return None
    return Path(spec.origin) if spec is not None and spec.origin is not None else None


def load_own_extension() -> "ExtensionHost":
    """Loads this project's own extension, from the checkout or from what a wheel installed.

    Raises:
        HeadlessError: As `load_extension`, or the files of the extension are not here.
    """
    package = Path(__file__).resolve().parents[1]
    for root in (package.parent, package):
        if (root / "knime.yml").is_file():
            return load_extension(root / "knime.yml")
    raise HeadlessError("this installation came without the extension's knime.yml")


def load_extension(knime_yml: str | Path) -> "ExtensionHost":
    """Loads an extension as KNIME does; a second call for the same file gives the same host.

    Args:
        knime_yml: the extension's ``knime.yml``, or the folder it is in.

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

    return load(Path(knime_yml))


def make_workflow_tool(
    knwf: "str | os.PathLike[str]", *, name: str | None = None, description: str | None = None
) -> "WorkflowTool":
    """Makes a tool of a workflow archive, which nodes of this project's extension can run.

    See `knime_mcp.headless.workflows.make_workflow_tool`.
    """
    from .workflows.workflow_tool import make_workflow_tool as make

    return make(knwf, name=name, description=description)
