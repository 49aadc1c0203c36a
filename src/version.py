"""The version of the extension, the client and the distribution, and the extension's names.

All are as in ``knime.yml``, which only KNIME and its bundler read.
"""

VERSION = "0.1.0"
EXTENSION_ID = "org.knime_mcp.mcp"
EXTENSION_TITLE = "MCP tools in KNIME"
EXTENSION_VENDOR = "knime-mcp"
