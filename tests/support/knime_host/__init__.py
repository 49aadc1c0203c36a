"""KNIME's part in running nodes, for their tests.

- ``standin/``: the names of ``knime.extension``, ``knime.api`` and ``knime.types`` that our nodes use, as
  strict as KNIME's. `use_standin` makes them importable if KNIME's own package is not installed.
- The modules of this folder are the host. `load_extension` returns an `ExtensionHost` (``host``), which
  describes nodes as KNIME shows them, runs nodes and opens their dialogs (``node_run``; ``port_values`` and
  ``column_types`` for inputs and outputs, ``node_results`` for results).
"""

import importlib
import importlib.util
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from .node_results import CredentialPort, HostError, NodeResult, OutputTable

if TYPE_CHECKING:
    from .host import ExtensionHost

__all__ = ["CredentialPort", "HostError", "NodeResult", "OutputTable", "load_extension", "use_standin"]

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


def load_extension(knime_yml: str | Path) -> "ExtensionHost":
    """Loads an extension as KNIME does. A second call for the same file returns the same host.

    Args:
        knime_yml: the extension's ``knime.yml``, or the folder of that file.

    Raises:
        HostError: KNIME would not load the extension, or ``knime.extension`` is KNIME's own.
    """
    use_standin()
    origin = _extension_origin()
    if origin is None or STANDIN not in origin.parents:
        raise HostError(f"knime.extension is KNIME's own ({origin}), whose nodes this host does not run")
    from .host import load

    return load(Path(knime_yml))
