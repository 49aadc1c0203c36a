"""The catalogue that commands read where nobody has built one, and sources that make none."""

import os
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

import pytest

from knime_node_knowledge import default_catalogue
from knime_node_knowledge.catalogue_file import CatalogueError
from knime_node_knowledge.catalogue_reader import Catalogue, fingerprint
from knime_node_knowledge.sources.catalogue_build import build_catalogue
from knime_node_knowledge.sources.shipped_nodes import own_nodes
from tests.knowledge.sources.plugin_files import node as described
from tests.knowledge.sources.plugin_files import plugin_xml, write_jar
from tests.support import commands


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    return tmp_path / "cache" / "knime-mcp"


def test_the_default_catalogue_needs_no_build_and_is_built_once(cache):
    asked = []

    def nodes():
        asked.append(1)
        return own_nodes()

    path = default_catalogue.default_catalogue(nodes)
    assert path.parent == cache
    assert default_catalogue.default_catalogue(nodes) == path
    assert len(asked) == 1
    with Catalogue(path) as catalogue:
        assert len(catalogue.nodes()) == 39 + len(own_nodes())
        assert catalogue.types()["TRIGGER"][0] == "MANUAL"


def test_the_default_catalogue_is_built_anew_when_what_it_is_made_of_changes(cache, tmp_path):
    source = tmp_path / "node.py"
    source.write_text("one")
    first = default_catalogue.default_catalogue(list, made_of=[source])
    source.write_text("other")
    second = default_catalogue.default_catalogue(list, made_of=[source, tmp_path / "gone.py"])
    assert first != second
    assert first.is_file()


def test_the_default_catalogue_is_also_made_of_what_writes_it():
    names = {file.name for file in default_catalogue.made_by()}
    assert {"phrase_tables.py", "meanings.toml", "catalogue_file.py", "word_meanings.py"} <= names


def test_without_a_place_for_a_cache_the_default_catalogue_is_still_there(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file" / "cache"))
    path = default_catalogue.default_catalogue(list)
    with Catalogue(path) as catalogue:
        assert len(catalogue.nodes()) == 39


DEFAULT = """
import sys
from pathlib import Path
from knime_node_knowledge import default_catalogue
print(default_catalogue.default_catalogue(list, made_of=[Path(sys.argv[1])]), flush=True)
sys.stdin.read()
"""


def test_of_old_default_catalogues_the_last_used_are_kept_and_those_that_processes_read(cache, tmp_path):
    """A server that runs on would answer every question with an error if its file were gone."""
    sources = [tmp_path / name for name in ("served", "unused", "older", "old", "new")]
    for file in sources:
        file.write_text(file.name)

    @contextmanager
    def process(source):
        arguments = [sys.executable, "-c", DEFAULT, source]
        with commands.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as started:
            yield Path(started.stdout.readline().strip())

    def made(source):
        with process(source) as path:
            return path

    with process(sources[0]) as served:
        unused, older, old = map(made, sources[1:4])
        for age, path in enumerate((old, older, unused, served)):
            os.utime(path, ns=(0, time.time_ns() - (age + 1) * 10**9))
        before = fingerprint(unused)
        assert made(sources[1]) == unused  # now it is the last used
        assert fingerprint(unused) == before
        new = made(sources[4])
        assert set(cache.iterdir()) == {served, unused, old, new}
    assert made(tmp_path / "another") in (left := set(cache.iterdir()))
    assert served not in left


def test_a_source_without_nodes_is_an_error_that_says_what_to_name(tmp_path):
    (tmp_path / "empty").mkdir()
    with pytest.raises(CatalogueError, match=r"in .*empty\. empty has no plug-ins in it\. Name the f"):
        build_catalogue(tmp_path / "o.sqlite", plugins=[tmp_path / "empty"], with_own_packs=False)
    assert not (tmp_path / "o.sqlite").exists()


def test_a_source_without_nodes_beside_others_is_an_error_too(tmp_path):
    (tmp_path / "empty").mkdir()
    write_jar(tmp_path / "library" / "org.l_1.0.0.jar", {"plugin.xml": plugin_xml()})
    registered = plugin_xml('factory-class="org.a.ANodeFactory" category-path="/"')
    write_jar(tmp_path / "a.jar", {"plugin.xml": registered, "org/a/ANodeFactory.xml": described("A")})
    sources = [tmp_path / name for name in ("empty", "a.jar", "library")]
    with pytest.raises(CatalogueError) as caught:
        build_catalogue(tmp_path / "o.sqlite", plugins=sources, with_own_packs=False)
    assert str(caught.value).startswith(
        f"There are no nodes in {tmp_path / 'empty'}, {tmp_path / 'library'}. empty has no plug-ins in it."
        " library has only plug-ins that register no nodes."
    )
    assert not (tmp_path / "o.sqlite").exists()


def test_where_nothing_can_be_read_it_is_said_why(tmp_path):
    (tmp_path / "a.jar").write_text("no jar")
    with pytest.raises(CatalogueError, match=r"in .*a\.jar\. a\.jar is no readable plug-in: "):
        build_catalogue(tmp_path / "o.sqlite", plugins=[tmp_path / "a.jar"], with_own_packs=False)
