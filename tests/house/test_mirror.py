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
#: Folders that are tested through their users.
THROUGH_USERS = {
    "stdio": "graph/test_live_pipes.py",
    "cli/nodes": "cli/test_nodes.py",
    "knowledge/packs": "knowledge/sources/test_spec_packs.py",
}


def mirrored(folder: Path) -> bool:
    source = ROOT / "src" / folder
    return source.with_suffix(".py").is_file() or any(source.glob("*.py"))


def test_folders_of_tests_mirror_the_code():
    folders = {file.parent.relative_to(ROOT / "tests") for file in (ROOT / "tests").rglob("test_*.py")}
    own = {folder for folder in folders if folder.parts and folder.parts[0] not in OVER_EVERYTHING}
    assert sorted(str(folder) for folder in own if not mirrored(folder)) == []


def test_every_folder_has_tests():
    folders = {str(file.parent.relative_to(ROOT / "src")) for file in (ROOT / "src").glob("*/**/*.py")}
    assert {folder for folder in folders if not any((ROOT / "tests" / folder).glob("**/test_*.py"))} == set(
        THROUGH_USERS
    )
    assert all((ROOT / "tests" / test).is_file() for test in THROUGH_USERS.values())
