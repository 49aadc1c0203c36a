"""Documents and servers for the tests of graphs that run."""

import sys
from pathlib import Path

from knime_mcp.yaml_text import Severity
from knime_mcp_graph.document_loading import check_text

FIXTURE = Path(__file__).parent / "tools_server.py"
HEAD = 'version: "1.0"\nserver: {name: s, version: "1"}\n'
SERVER = f"mcpServers:\n  fx: {{command: {sys.executable!r}, args: [{str(FIXTURE)!r}]}}\n"
STUBBORN = SERVER.replace("]}", ", --stubborn]}")  # ends neither with its input nor for SIGTERM


def tool(*nodes, name="t", schema="{type: object}", output="{type: object}"):
    """The YAML of a tool with these nodes."""
    lines = "".join(f"      - {node}\n" for node in nodes)
    return (
        f"  - name: {name}\n    description: d\n    inputSchema: {schema}\n    outputSchema: {output}\n"
        f"    nodes:\n{lines}"
    )


def yaml(*tools, more="", servers=SERVER):
    """The YAML of a document with these tools."""
    return f"{HEAD}{more}{servers}tools:\n{''.join(tools)}"


def one_tool(*nodes, more=""):
    """The YAML of a document with one tool, called t, and no servers but those in what else it says."""
    return yaml(tool(*nodes), more=more, servers="")


def texts(checked, severity=Severity.ERROR):
    """What is wrong with a document, in words."""
    return [problem.text("f") for problem in checked.problems if problem.severity is severity]


def load(text):
    """The document; fails with what is wrong with it."""
    checked = check_text(text, environ={})
    assert checked.document is not None, texts(checked)
    return checked.document


def document(*nodes, more="", **options):
    """A document with one tool, called t."""
    return load(yaml(tool(*nodes, **options), more=more))


ENTRY = "{id: entry, type: entry, next: x}"
EXIT = "{id: exit, type: exit}"


def transform(expression, node="x", following="exit", **more):
    """A transform node."""
    rest = "".join(f", {key}: {value}" for key, value in more.items())
    quoted = expression.replace("'", "''")
    return f"{{id: {node}, type: transform, transform: {{expr: '{quoted}'}}, next: {following}{rest}}}"


def call(name, args="{}", node="x", following="exit", more=""):
    """A node that calls a tool of the fixture."""
    return f"{{id: {node}, type: mcp, server: fx, tool: {name}, args: {args}, next: {following}{more}}}"
