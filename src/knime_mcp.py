"""The package ``knime_mcp`` when ``src/`` itself is on the path, as KNIME puts it.

KNIME adds the folder of the extension module to PYTHONPATH and imports modules from there by
their bare names. This module turns that folder into one package, so that all code can use
relative imports and no folder name (``types``, ``tools``) is ever imported on its own. An
installed wheel maps the same folder to ``knime_mcp`` directly and does not contain this file.
"""

from pathlib import Path

__path__ = [str(Path(__file__).parent)]
