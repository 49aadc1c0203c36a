"""Runs a KNIME Python extension on KNIME's own Python sources, without KNIME.

Real, and unmodified, are ``knime.extension``, ``knime.api``, the Arrow tables and types, the launcher of node
processes and the Markdown parser, all from the checkout that KNIME_PYTHON_ROOT names. Modelled is what is
behind py4j: sinks and sources of tables (Arrow files), file stores, credentials, flow variables, progress,
cancel, tools. What Java would do with a result is checked, not done.

KNIME_LLM_ROOT, a checkout of knime-python-llm, brings ``knime.types.message``; KNIME_JSON_GIT, a git
directory of knime-json, JSON cells; KNIME_CORE_GIT, one of knime-core, the schema of node descriptions.
RIG_MCP_TOOLS=1 takes ``knime.types.tool`` from knime-python's branch mcp-tools.
"""

from .archives import check_knwf
from .callbacks import ExecuteCallback
from .contexts import JavaContext
from .descriptions import default_settings, describe_extension
from .java_side import CredentialPort, JavaSource, RigError
from .loading import any_host, load_extension
from .running import ViewService, get_dialog, run_node
from .settings_xml import escape, from_settings_xml, to_settings_xml, unescape
from .sources import bootstrap, register_value_factory
from .tables import column_of, table_from_pyarrow, tables_usable

__all__ = [
    "CredentialPort",
    "ExecuteCallback",
    "JavaContext",
    "JavaSource",
    "RigError",
    "ViewService",
    "any_host",
    "bootstrap",
    "check_knwf",
    "column_of",
    "default_settings",
    "describe_extension",
    "escape",
    "from_settings_xml",
    "get_dialog",
    "load_extension",
    "register_value_factory",
    "run_node",
    "table_from_pyarrow",
    "tables_usable",
    "to_settings_xml",
    "unescape",
]
