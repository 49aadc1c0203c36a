"""The names that programs may import, as the documentation has them: a name more or less is a decision."""

import ast
import inspect
import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PUBLIC = {
    "knime_mcp.tools": (
        "ABSENT BasicAuth BearerAuth CallToolResult HeaderAuth Limits MCPClient MockTransport NetworkSettings"
        " Progress ServerInfo SessionPool StdioServer Step Timeouts ToolDefinition"
    ),
    "knime_mcp.agents": "langchain_tools",
    "knime_mcp_graph": (
        "Controller DocumentError Graph GraphExecutor GraphRun Hooks McpGraphApi NodeRecord RunError"
        " RunResult RunStatus"
    ),
}
DOCUMENTS = [
    file
    for file in (
        ROOT / "README.md",
        ROOT / "CHANGELOG.md",
        *sorted((ROOT / "docs").glob("*.md")),
        *ROOT.glob("packages/*/docs/*.md"),
    )
    if file.name != "requirements.md"  # quotes the modules of tests
]


def imported(dotted):
    """The object with this dotted name: a module, or an attribute of one."""
    module, attributes = dotted, []
    while True:
        try:
            found = import_module(module)
            break
        except ModuleNotFoundError as error:
            if error.name is None or not module.startswith(error.name) or "." not in module:
                raise
            module, _, attribute = module.rpartition(".")
            attributes.insert(0, attribute)
    for attribute in attributes:
        found = getattr(found, attribute)
    return found


def written_names(text):
    """Dotted names in a document: in its prose, and in the imports of its Python."""
    yield from re.findall(r"`(knime_mcp(?:\.\w+)+)", text)
    for block in re.findall(r"```python\n(.*?)```", text, re.DOTALL):
        for node in ast.walk(ast.parse(block)):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("knime_mcp"):
                yield from (f"{node.module}.{alias.name}" for alias in node.names)


@pytest.mark.parametrize("package", PUBLIC)
def test_the_public_names_are_these_and_no_others(package):
    assert sorted(import_module(package).__all__) == PUBLIC[package].split()


def test_they_can_be_imported_in_a_fresh_interpreter():
    code = "\n".join(f"from {package} import {', '.join(names.split())}" for package, names in PUBLIC.items())
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)


def says_more_than_its_name(public, name):
    if not (inspect.isclass(public) or inspect.isroutine(public)):
        public = type(public)
    text = public.__doc__ or ""
    own = set(re.findall(r"[a-z]+", re.sub(r"([A-Z])", r" \1", name).lower()))
    # Dataclasses make a text of their fields.
    return not text.startswith(f"{name}(") and len(set(re.findall(r"[a-z]+", text.lower())) - own) >= 4


def test_each_says_more_than_its_name():
    said = {
        f"{package}.{name}": says_more_than_its_name(getattr(import_module(package), name), name)
        for package, names in PUBLIC.items()
        for name in names.split()
    }
    assert [name for name, says_more in said.items() if not says_more] == []


def test_documents_name_only_what_there_is():
    for document in DOCUMENTS:
        for name in written_names(document.read_text(encoding="utf-8")):
            assert imported(name) is not None, f"{document.name}: {name}"
