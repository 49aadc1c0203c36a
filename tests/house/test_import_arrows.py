"""Imports go one way only: every part of the house may use the parts it stands on, no others."""

import ast
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from tests.house.sources import FILES, PRODUCTS, SRC, nodes

Import = ast.Import | ast.ImportFrom

#: Part -> the parts it may import. A part is a folder of src/.
MAY_IMPORT = {
    "types": set(),
    "client": {"types"},
    "audit": {"types", "client"},
    "runs": {"types", "client", "audit", "yaml_text"},
    "knwf": set(),
    "yaml_text": set(),
    "web": set(),
    "tools": {"types", "client", "audit", "runs", "knwf"},
    "agents": {"types", "client", "audit", "runs", "knwf", "tools"},
    "cli": {
        "types",
        "client",
        "audit",
        "runs",
        "knwf",
        "tools",
        "agents",
        "yaml_text",
        "web",
    },
}
#: Product that stands on the extension -> the parts of src/ that it may import.
PRODUCTS_MAY_IMPORT = {
    "knime_mcp_graph": {"types", "client", "audit", "runs", "yaml_text", "web", "tools", "cli"},
    "knime_node_knowledge": {"types", "yaml_text", "web", "cli"},
}
EVERYBODY = {"version", "system"}
#: Folder of the client -> the folders of `client` that it may import beside itself.
CLIENT_LAYERS = {"protocol": set(), "transports": {"protocol"}, "validation": {"protocol"}}
IO_MODULES = {
    "anyio",
    "asyncio",
    "http.client",
    "http.server",
    "httpcore",
    "os",
    "pathlib",
    "select",
    "socket",
    "ssl",
    "subprocess",
}


def part_of(path: Path) -> str:
    """The part that a file below src/ belongs to."""
    return path.relative_to(SRC).parts[0]


def target(base: Path, module: str) -> Path:
    """The file or folder that a relative import's module text names."""
    path = base.joinpath(*module.split(".")) if module else base
    return path.with_suffix(".py") if path.with_suffix(".py").is_file() else path


def relative_imports(file: Path, found: Sequence[Import]) -> Iterator[tuple[int, Path]]:
    """Yields (line, imported file or folder)."""
    for node in found:
        if isinstance(node, ast.ImportFrom) and node.level:
            base = file.parents[node.level - 1]
            module = target(base, node.module or "")
            names = [module / alias.name for alias in node.names] if module.is_dir() else []
            inner = [n.with_suffix(".py") for n in names if n.with_suffix(".py").is_file()]
            inner += [n for n in names if n.is_dir()]
            yield from ((node.lineno, each) for each in inner or [module])


def absolute_imports(found: Sequence[Import]) -> Iterator[tuple[int, str]]:
    """Yields (line, module)."""
    for node in found:
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif not node.level:
            yield node.lineno, node.module or ""


#: The modules of the parts.
INNER = [file for file in FILES if file.is_relative_to(SRC) and file.parent != SRC]


@pytest.fixture(scope="module")
def imports() -> dict[Path, list[Import]]:
    """The imports of every file, wherever in it they stand."""
    return {file: [node for node in nodes(file) if isinstance(node, Import)] for file in INNER}


def test_imports_follow_the_arrows(imports):
    wrong = []
    for file in INNER:
        own = part_of(file)
        for line, imported in relative_imports(file, imports[file]):
            assert imported.exists(), f"{file}:{line} imports {imported}, which does not exist"
            other = own if imported.stem in EVERYBODY else part_of(imported)
            if other != own and other not in MAY_IMPORT[own]:
                wrong.append(f"{file}:{line}: {own} imports {other} ({imported.relative_to(SRC)})")
    assert wrong == []


@pytest.mark.parametrize("product", PRODUCTS)
def test_products_use_public_names_of_the_extension_and_nothing_of_each_other(product):
    wrong = []
    for file in (file for file in FILES if file.is_relative_to(PRODUCTS[product])):
        for node in (node for node in nodes(file) if isinstance(node, Import)):
            module = (node.module or "") if isinstance(node, ast.ImportFrom) and not node.level else ""
            names = [alias.name for alias in node.names]
            dotted = [module] if module else names if isinstance(node, ast.Import) else []
            for top, *rest in (name.split(".") for name in dotted):
                part = next(iter(rest), names[0])
                allowed = top != "knime_mcp" or part in PRODUCTS_MAY_IMPORT[product] | EVERYBODY
                hidden = any(word.startswith("_") for word in (*rest, *names))
                if not allowed or (top == "knime_mcp" and hidden) or top in PRODUCTS.keys() - {product}:
                    wrong.append(f"{file}:{node.lineno}: {ast.unparse(node)}")
    assert wrong == []


def test_the_extension_knows_no_product():
    named = re.compile("|".join(PRODUCTS))
    assert [str(file) for file in SRC.rglob("*.py") if named.search(file.read_text(encoding="utf-8"))] == []


@pytest.mark.requirement("T31")
@pytest.mark.parametrize("layer", CLIENT_LAYERS)
def test_the_client_has_layers(imports, layer):
    wrong = []
    for file in (SRC / "client" / layer).glob("*.py"):
        for line, imported in relative_imports(file, imports[file]):
            folder = imported.parent if imported.is_file() else imported
            if folder.parent == SRC / "client" and folder.name not in {layer, *CLIENT_LAYERS[layer]}:
                wrong.append(f"{file}:{line} imports {imported.relative_to(SRC)}")
    assert wrong == []


@pytest.mark.requirement("T31")
def test_the_protocol_does_no_io(imports):
    for file in (SRC / "client" / "protocol").glob("*.py"):
        names = {name for _, name in absolute_imports(imports[file])}
        assert not (names | {name.partition(".")[0] for name in names}) & IO_MODULES, file


def test_only_relative_imports_inside(imports):
    """`import tools.x` works by accident when src/ is on the path, and loads a second copy."""
    folders = {f.name for f in SRC.iterdir() if f.is_dir()} - {"types"} | {"knime_mcp"}
    wrong = []
    for file, found in imports.items():
        for line, name in absolute_imports(found):
            if name.split(".")[0] in folders or name.startswith("types."):
                wrong.append(f"{file}:{line}: import {name}")
    assert wrong == []


def test_types_folder_is_no_package():
    """A src/types/__init__.py would hide the standard library's types when src/ is on PYTHONPATH."""
    assert not (SRC / "types" / "__init__.py").exists()


def test_no_command_imports_a_node(imports):
    """Only KNIME has `knime`: what a command may import, however late, must not need it to be imported."""
    reached = set((SRC / "cli").rglob("*.py"))
    waiting = list(reached)
    while waiting:
        file = waiting.pop()
        for _, imported in relative_imports(file, imports.get(file, [])):
            module = imported / "__init__.py" if imported.is_dir() else imported
            if module.is_file() and module not in reached:
                reached.add(module)
                waiting.append(module)
    needing = [
        file
        for file in reached
        for node in ast.parse(file.read_bytes()).body
        if isinstance(node, Import) and any(n.split(".")[0] == "knime" for _, n in absolute_imports([node]))
    ]
    assert needing == []
