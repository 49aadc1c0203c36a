"""Links between the project's documents lead somewhere, headings included, and to every page."""

import re
from pathlib import Path

import pytest

pytestmark = pytest.mark.quick


ROOT = Path(__file__).parents[2]
MADE = {"build", "dist", "node_modules"}
FOLDERS = [
    path
    for path in ROOT.iterdir()
    if path.is_dir() and not path.name.startswith(".") and path.name not in MADE
]
DOCUMENTS = sorted([*ROOT.glob("*.md"), *(path for folder in FOLDERS for path in folder.rglob("*.md"))])
LINK = re.compile(r"\]\((?!\w+:)([^)#\s]*)(?:#([^)\s]*))?\)")


def headings(path: Path) -> set[str]:
    """The anchors of a document's headings, as GitHub makes them."""
    found = re.findall(r"^#+ (.+)$", path.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in found}


def test_links_lead_somewhere():
    wrong = []
    for document in DOCUMENTS:
        for name, anchor in LINK.findall(document.read_text(encoding="utf-8")):
            target = document.parent / name if name else document
            if not target.exists() or (anchor and anchor not in headings(target)):
                wrong.append(f"{document.relative_to(ROOT)}: {name}#{anchor}")
    assert wrong == []


def test_every_page_is_found_from_the_readme():
    found, next_ones = set(), [ROOT / "README.md"]
    while next_ones:
        page = next_ones.pop()
        if page.suffix == ".md" and page not in found:
            found.add(page)
            links = LINK.findall(page.read_text(encoding="utf-8"))
            next_ones += [(page.parent / name).resolve() for name, _ in links if name]
    assert set(DOCUMENTS) - found == {ROOT / "examples" / "demo" / "files" / "meeting_notes.md"}
