"""The catalogue's file: read as it was written, by many at once, while it is replaced, and when damaged."""

import dataclasses
import os
import sqlite3
import subprocess
import sys
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from knime_node_knowledge.catalogue_file import SCHEMA_VERSION, CatalogueError, packed, unpacked
from knime_node_knowledge.catalogue_reader import Catalogue
from knime_node_knowledge.node_model import (
    DataFormat,
    NodeParameter,
    NodeSpec,
    OldName,
    Option,
    Port,
    ViewSpec,
)
from knime_node_knowledge.query_words import folded, spellings, words_in
from knime_node_knowledge.sources.catalogue_build import write_catalogue
from tests.support import commands

from .conftest import ORIGIN, spec

FULL = NodeSpec(
    id="TRIGGER.WEBHOOK",
    node_type="TRIGGER",
    subtype="WEBHOOK",
    name="Wéb Hook",
    version="1.0.0",
    category=("A", "B"),
    short_description="Short.",
    description="Long.",
    aliases=("Callback",),
    keywords=("endpoint",),
    parameters=(
        NodeParameter(
            name="mode",
            type="enum",
            required=True,
            default_value=None,
            has_default=True,
            options=(
                Option(value="a", label="A", description="The first."),
                *(Option(value=value) for value in (2, None, False)),
            ),
            min=0,
            max=1.5,
            validation_pattern="^a",
            secret=True,
            tab="T",
        ),
    ),
    settings_known=True,
    input_ports=(
        Port(
            name="in",
            type="Table",
            type_id="x.Table",
            optional=True,
            required=False,
            group=True,
            max_connections=-1,
            data_format=DataFormat(mime_type="application/json", schema="{}", examples=("1",)),
            validation_schema={"type": "object"},
        ),
    ),
    output_ports=(Port(name="out"),),
    views=(ViewSpec(name="v", description="d"),),
    input_params=(NodeParameter(name="i"),),
    output_params=(NodeParameter(name="o", default_value=False, has_default=True),),
    tags=("t",),
    attached_nodes=(),
    examples=({"name": "e", "configurations": {"mode": [1, {"x": None}]}},),
    deprecated=True,
    successor="TRIGGER.NEW",
    hidden=True,
    origin=ORIGIN,
)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "nodes.sqlite"


def test_a_node_comes_back_as_it_was_written(path):
    origin = write_catalogue(path, [FULL, spec("ONE")])
    with Catalogue(path) as catalogue:
        assert catalogue.node("TRIGGER.WEBHOOK") == FULL
        assert catalogue.node("trigger.webhook") is None
        assert catalogue.origin == origin
        with catalogue.reading() as reader:
            assert reader.find("TRIGGER", "WEBHOOK") == FULL
            assert [node.id for node in reader.nodes()] == [entry.id for entry in reader.summaries()]
            assert len(reader) == 2
            entry = next(found for found in reader.summaries() if found.node_type == "TRIGGER")
            assert reader.at(entry.row) == FULL
            assert (entry.category, entry.deprecated, entry.successor) == ("A / B", True, "TRIGGER.NEW")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**60), 2**60) | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)


@given(
    default=JSON,
    values=st.lists(JSON, max_size=3),
    text=st.text(),
    low=st.none() | st.integers() | st.floats(allow_nan=False),
)
def test_every_value_survives_packing(default, values, text, low):
    parameter = NodeParameter(
        name=text,
        description=text,
        default_value=default,
        has_default=True,
        options=tuple(Option(value=value, label=text) for value in values),
        min=low,
    )
    node = dataclasses.replace(FULL, description=text, parameters=(parameter,), examples=({text: default},))
    assert unpacked(packed(node)) == node


def test_what_is_no_unicode_is_replaced(path):
    setting = NodeParameter(name="a", description="half \ud83d", default_value="\ud800", has_default=True)
    write_catalogue(path, [spec("ONE", description="\udfff.", parameters=(setting,))])
    with Catalogue(path) as catalogue:
        found = catalogue.node("ACTION.ONE")
    (read,) = found.parameters
    assert (found.description, read.description, read.default_value) == ("\ufffd.", "half \ufffd", "\ufffd")


def test_types_and_nodes_keep_the_order_of_packs_and_are_sorted_otherwise(path):
    nodes = [
        spec("Z", "LATER", name="zeta"),
        spec("Y", "LATER", name="Älpha"),
        spec("X", "LATER", name="beta", deprecated=True),
        spec("TWO"),
        spec("ONE"),
        spec("M", "EARLIER"),
    ]
    write_catalogue(path, nodes, type_order=["ACTION", "EMPTY"])
    with Catalogue(path) as catalogue:
        assert catalogue.types() == {
            "ACTION": ("TWO", "ONE"),
            "EARLIER": ("M",),
            "LATER": ("Y", "Z", "X"),
        }
        with catalogue.reading() as reader:
            everything = [entry.id for entry in reader.summaries()]
            assert [node.id for node in catalogue.nodes()] == everything


def test_the_same_nodes_make_the_same_version_and_others_another(path, tmp_path):
    first = write_catalogue(path, [FULL, spec("ONE")])
    again = write_catalogue(tmp_path / "again.sqlite", [spec("ONE"), FULL])
    other = write_catalogue(path, [FULL, spec("ONE", description="changed")])
    assert first.version == again.version != other.version


def test_old_names_are_kept(path):
    old = [
        OldName(node_type="ACTION_NODE", subtype=None, instead=("ACTION",)),
        OldName(node_type="ACTION_NODE", subtype="RUN", instead=(), exact=False, note="gone"),
    ]
    write_catalogue(path, [spec("ONE")], old_names=old)
    with Catalogue(path) as catalogue, catalogue.reading() as reader:
        assert reader.old_names() == old


def test_two_nodes_with_one_id_are_refused_and_nothing_is_written(path):
    write_catalogue(path, [spec("OLD")])
    with pytest.raises(CatalogueError, match=r"ACTION\.ONE: in p\.yaml:3 and in p\.yaml:3"):
        write_catalogue(path, [spec("ONE"), spec("ONE")])
    with Catalogue(path) as catalogue:
        assert [node.subtype for node in catalogue.nodes()] == ["OLD"]
    assert list(path.parent.iterdir()) == [path]


@pytest.mark.requirement("V5")
def test_the_search_table_is_filled_by_field(path):
    write_catalogue(path, [FULL, spec("ROW_FILTER", name="RowFilter")])
    with Catalogue(path) as catalogue, catalogue.reading() as reader:

        def hits(query):
            return [row for (row,) in reader.rows("SELECT rowid FROM search WHERE search MATCH ?", query)]

        rows = {entry.node_type: entry.row for entry in reader.summaries()}
        first, second = rows["ACTION"], rows["TRIGGER"]
        assert hits("name:filter") == hits("row*") == [first]
        assert hits("name:web") == hits("aliases:callback") == hits("aliases:endpoint") == [second]
        assert hits("category:b") == hits("parameters:mode") == hits("description:long") == [second]
        assert hits("name:callback") == []
        terms = {term for (term,) in reader.rows("SELECT term FROM terms")}
        assert {"rowfilter", "row", "filter", "web"} <= terms
        near = reader.rows("SELECT DISTINCT term FROM spelling WHERE key IN ('fiter', 'flter')")
        assert near == [("filter",)]


def test_words():
    assert words_in("RowFilter Crème HTTPRequest") == [
        *("rowfilter", "row", "filter", "creme"),
        *("httprequest", "http", "request"),
    ]
    assert folded("  Straße_Ünï-Code ") == "strasse uni code"
    assert spellings("abc") == {"abc", "bc", "ac", "ab"}


@pytest.mark.parametrize(
    ("content", "what"),
    [
        (None, "does not exist"),
        (b"", "is a database, but no node catalogue"),
        (b"no database at all, but long enough to look like one " * 20, "damaged"),
        ("other", "is a database, but no node catalogue"),
        ("newer", "newer knime-mcp.*Update knime-mcp"),
        ("older", "older knime-mcp"),
        ("cut", "damaged"),
        ("zeroed", "damaged"),
        ("no meta", "damaged"),
    ],
)
def test_a_file_that_is_no_usable_catalogue_says_so(path, content, what):
    if isinstance(content, bytes):
        path.write_bytes(content)
    elif content is not None:
        write_catalogue(path, [FULL])
        _break(path, content)
    with pytest.raises(CatalogueError, match=f"(?s){what}.*nodes build") as caught:
        Catalogue(path)
    assert str(path) in str(caught.value)


def _break(path, how):
    changes = {
        "other": "PRAGMA application_id = 7",
        "newer": f"PRAGMA user_version = {SCHEMA_VERSION + 1}",
        "older": f"PRAGMA user_version = {SCHEMA_VERSION - 1}",
        "no meta": "DELETE FROM meta",
    }
    if how in changes:
        db = sqlite3.connect(path)
        db.execute(changes[how])
        db.commit()
        db.close()
        return
    data = path.read_bytes()
    path.write_bytes(data[: len(data) // 2 + 1] if how == "cut" else data[:100] + b"\0" * (len(data) - 100))


def test_damage_anywhere_is_an_error_and_never_another_answer(path):
    write_catalogue(path, [FULL, spec("ONE")])
    data = path.read_bytes()
    with Catalogue(path) as catalogue:
        for place in range(100, len(data), 997):
            path.write_bytes(data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :])
            with pytest.raises(CatalogueError, match="damaged"):
                catalogue.node("ACTION.ONE")
        path.write_bytes(data)
        assert catalogue.node("ACTION.ONE") == spec("ONE")


def test_a_new_file_is_taken_with_the_next_question_and_not_within_one(path):
    write_catalogue(path, [spec("OLD")])
    with Catalogue(path) as catalogue:
        with catalogue.reading() as reader:
            write_catalogue(path, [spec("NEW")])
            assert [node.subtype for node in reader.nodes()] == ["OLD"]
            assert [node.subtype for node in catalogue.nodes()] == ["NEW"]
            assert reader.origin != catalogue.origin
        assert [node.subtype for node in catalogue.nodes()] == ["NEW"]
        path.unlink()
        with pytest.raises(CatalogueError, match="does not exist"):
            catalogue.nodes()
        write_catalogue(path, [spec("BACK")])
        assert [node.subtype for node in catalogue.nodes()] == ["BACK"]


@pytest.mark.long
def test_threads_read_whole_catalogues_while_it_is_replaced_again_and_again(path):
    def version(number):
        return [spec(f"N{index}", description=f"version {number}") for index in range(40)]

    write_catalogue(path, version(0))
    stop = threading.Event()
    problems, seen = [], set()
    with Catalogue(path) as catalogue:

        def read():
            while not stop.is_set():
                try:
                    with catalogue.reading() as reader:
                        found = {node.description for node in reader.nodes()}
                        assert len(found) == 1, found
                        assert len(reader.types()["ACTION"]) == 40
                        seen.update(found)
                except Exception as error:
                    problems.append(error)
                    return

        threads = [threading.Thread(target=read) for _ in range(6)]
        for thread in threads:
            thread.start()
        for number in range(1, 9):
            write_catalogue(path, version(number))
        stop.set()
        for thread in threads:
            thread.join(30)
            assert not thread.is_alive()
    assert not problems
    assert len(seen) > 1


READER = """
import sys
from pathlib import Path
from knime_node_knowledge.catalogue_reader import Catalogue
with Catalogue(Path(sys.argv[1])) as catalogue:
    for line in sys.stdin:
        print(catalogue.origin.version, [node.subtype for node in catalogue.nodes()], flush=True)
"""


def test_two_processes_read_one_file_while_a_third_replaces_it(path):
    first = write_catalogue(path, [spec("OLD")])
    readers = [
        subprocess.Popen(
            [sys.executable, "-c", READER, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        for _ in range(2)
    ]
    try:

        def ask(reader):
            reader.stdin.write("?\n")
            reader.stdin.flush()
            return reader.stdout.readline().strip()

        assert [ask(reader) for reader in readers] == [f"{first.version} ['OLD']"] * 2
        second = write_catalogue(path, [spec("NEW")])
        assert [ask(reader) for reader in readers] == [f"{second.version} ['NEW']"] * 2
    finally:
        for reader in readers:
            reader.stdin.close()
            assert reader.wait(30) == 0
            reader.stdout.close()


def test_a_catalogue_is_readable_where_nothing_can_be_written(path):
    write_catalogue(path, [FULL])
    path.chmod(0o444)
    path.parent.chmod(0o555)
    try:
        with Catalogue(path) as catalogue:
            assert catalogue.node(FULL.id) == FULL
        assert [entry.name for entry in path.parent.iterdir()] == [path.name]
    finally:
        path.parent.chmod(0o755)


SMALL = """
import resource, signal, sys
from pathlib import Path
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
from knime_node_knowledge.sources.catalogue_build import build_catalogue
try:
    build_catalogue(Path(sys.argv[1]))
except OSError as error:
    print(error.strerror, error.filename, sep="|")
"""


def test_a_disk_that_is_too_small_is_said_and_the_old_catalogue_stays(path):
    write_catalogue(path, [FULL])
    done = subprocess.run(
        [sys.executable, "-c", SMALL, path], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.stderr, done.stdout) == ("", f"disk I/O error|{path}\n")
    assert [entry.name for entry in path.parent.iterdir()] == [path.name]
    with Catalogue(path) as catalogue:
        assert catalogue.node(FULL.id) == FULL


KILLED = """
import os, signal, sys
from pathlib import Path
from knime_node_knowledge.sources.catalogue_build import build_catalogue
build_catalogue(Path(sys.argv[1]), on_step=lambda step: os.kill(os.getpid(), signal.SIGKILL))
"""


def test_what_a_killed_build_leaves_goes_with_a_later_one(path):
    for _ in range(2):
        commands.run([sys.executable, "-c", KILLED, path], timeout=60)
    abandoned, running = path.parent.iterdir()
    os.utime(abandoned, (0, 0))
    write_catalogue(path, [FULL])
    assert set(path.parent.iterdir()) == {path, running}


def test_odd_names_of_files(tmp_path):
    path = tmp_path / "a b?c#d%20é.sqlite"
    write_catalogue(path, [FULL])
    with Catalogue(path) as catalogue:
        assert catalogue.node(FULL.id) == FULL
