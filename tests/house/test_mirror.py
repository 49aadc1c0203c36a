"""Tests stand where the code stands: `tests/` has the folders of `src/`."""

from pathlib import Path

ROOT = Path(__file__).parents[2]
#: What belongs to no part of src/: servers and hosts for tests, the house, and tests over everything.
OVER_EVERYTHING = {
    "conformance",
    "evaluation",
    "examples",
    "faults",
    "fuzz",
    "house",
    "packaging",
    "peers",
    "standin",
    "support",
}
GRAPH, NODES = "packages/mcp-graph", "packages/node-knowledge"
#: Folder of tests -> the code that they are of.
CODE = {
    "tests": "src",
    f"{GRAPH}/tests/graph": f"{GRAPH}/src/knime_mcp_graph",
    f"{NODES}/tests/knowledge": f"{NODES}/src/knime_node_knowledge",
}
#: Folders that are tested through their users.
THROUGH_USERS = {
    f"{GRAPH}/src/knime_mcp_graph/commands": f"{GRAPH}/tests/graph/test_document_commands.py",
    f"{NODES}/src/knime_node_knowledge/commands": f"{NODES}/tests/knowledge/test_node_commands.py",
    f"{NODES}/src/knime_node_knowledge/packs": f"{NODES}/tests/knowledge/sources/test_spec_packs.py",
}


def mirrored(folder: Path) -> bool:
    return folder.with_suffix(".py").is_file() or any(folder.glob("*.py"))


def test_folders_of_tests_mirror_the_code():
    wrong = []
    for tests, code in CODE.items():
        folders = {file.parent.relative_to(ROOT / tests) for file in (ROOT / tests).rglob("test_*.py")}
        own = {folder for folder in folders if not folder.parts or folder.parts[0] not in OVER_EVERYTHING}
        wrong += [str(folder) for folder in own - {Path()} if not mirrored(ROOT / code / folder)]
    assert sorted(wrong) == []


def test_every_folder_has_tests():
    without = set()
    for tests, code in CODE.items():
        folders = {file.parent.relative_to(ROOT / code) for file in (ROOT / code).glob("*/**/*.py")}
        without |= {
            f"{code}/{folder}" for folder in folders if not any((ROOT / tests / folder).glob("**/test_*.py"))
        }
    assert without == set(THROUGH_USERS)
    assert all((ROOT / test).is_file() for test in THROUGH_USERS.values())
