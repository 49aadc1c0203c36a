"""The site that `make docs` builds: what is made from code is whole, and a broken link is found."""

import runpy

import pytest
import yaml

from tests.house.test_links import ROOT
from tests.support.archives import read_workflow
from tests.support.host import get_host

SITE = runpy.run_path(str(ROOT / "docs" / "build_site.py"))


def text(lines):
    return "\n".join(lines)


def test_every_node_is_in_the_reference():
    page = text(SITE["nodes"]())
    assert page.count("\n## ") == len(get_host().host.nodes)


@pytest.mark.parametrize(
    ("made", "word"),
    [("commands", "### knime-mcp audit verify"), ("python", "### tools.MCPClient"), ("columns", "Arguments")],
)
def test_the_reference_is_made_from_code(made, word):
    assert word in text(SITE[made]())


def test_every_example_is_in_the_gallery_with_its_picture(tmp_path):
    page = text(SITE["gallery"](tmp_path))
    for file in (ROOT / "examples").rglob("*.knwf"):
        assert f"images/workflows/{file.name})" in page
        drawn = (tmp_path / "images" / "workflows" / f"{file.stem}.svg").read_text()
        assert drawn.count("<rect") == 1 + len(read_workflow(file).nodes)


def test_every_page_is_in_the_navigation():
    class Loader(yaml.SafeLoader):
        pass

    Loader.add_multi_constructor("tag:yaml.org,2002:python/", lambda *_: None)
    nav = yaml.load((ROOT / "docs" / "mkdocs.yml").read_text(), Loader)["nav"]

    def pages(part):
        if isinstance(part, str):
            return {part}
        values = part.values() if isinstance(part, dict) else part
        return set().union(*map(pages, values))

    assert {path.name for path in SITE["PAGES"]} <= pages(nav)


def test_a_broken_link_is_found(tmp_path):
    (tmp_path / "a.html").write_text(
        '<a href="b.html#there">x</a><a href="b.html#not">y</a><img src="no.png">'
    )
    (tmp_path / "b.html").write_text('<p id="there">z</p><a href="https://elsewhere/">w</a>')
    pages, pictures, broken = SITE["count"](tmp_path)
    assert (pages, pictures) == (2, 1)
    assert broken == ["a.html: b.html#not", "a.html: no.png"]
