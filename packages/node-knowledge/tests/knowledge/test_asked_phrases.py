"""Phrases by which people ask for nodes: the file of our words, and how queries are compared with them."""

import pytest

from knime_node_knowledge.asked_phrases import asked_for
from knime_node_knowledge.catalogue_reader import Catalogue
from knime_node_knowledge.sources.catalogue_build import write_catalogue
from knime_node_knowledge.sources.phrase_tables import words_of
from knime_node_knowledge.sources.shipped_nodes import shipped_nodes
from knime_node_knowledge.word_meanings import compound, meanings, root

from .conftest import spec

pytestmark = pytest.mark.quick


NODES = [
    spec("CLEAN", node_type="T", keywords=("remove duplicate rows", "doppelte Zeilen entfernen")),
    spec("COUNT", node_type="T", keywords=("count rows of each group", "Anzahl je Gruppe")),
    spec("WEEK", node_type="T", keywords=("Kalenderwoche ermitteln", "Woche im Kalender")),
]


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    file = tmp_path_factory.mktemp("phrases") / "nodes.sqlite"
    write_catalogue(file, NODES)
    with Catalogue(file) as catalogue, catalogue.reading() as reader:
        yield reader


def best(reader, query):
    found = asked_for(reader, query.split())
    return reader.at(max(found, key=lambda row: found[row].points)).subtype if found else None


def test_every_node_of_knime_in_use_has_a_summary_and_phrases():
    for node in shipped_nodes():
        if not node.deprecated and not node.hidden:
            assert node.short_description, node.name
            assert words_of(node).phrases, node.name


def test_nodes_that_are_called_alike_have_words_of_their_own():
    named = [node for node in shipped_nodes() if node.name == "Case Converter" and not node.deprecated]
    found = {node.category[0]: words_of(node).phrases for node in named}
    assert "lower case documents" in found["Other Data Types"]
    assert "upper case" in found["Manipulation"]


@pytest.mark.parametrize(
    ("one", "other"),
    [("Zeilen", "Zeile"), ("rows", "row"), ("grouping", "groups"), ("celdas", "celda"), ("lignes", "ligne")],
)
def test_forms_of_a_word_have_the_same_root(one, other):
    assert root(one.lower()) == root(other.lower())


def test_a_translation_means_what_its_english_word_means():
    assert meanings("zeile") == {"zeil": 1.0, "row": 0.9}
    assert meanings("delete")["remov"] == pytest.approx(0.7)


def test_compounds_are_of_words_that_are_known():
    assert compound("kalenderwoche", frozenset(("kalend", "woch"))) == ("kalender", "woche")
    assert compound("kalenderwoche", frozenset(("woch",))) == ()


def test_words_count_in_any_order_form_and_language(subtests, small):
    for query, subtype in [
        ("remove duplicate rows", "CLEAN"),
        ("deleting the duplicated records", "CLEAN"),
        ("zeilen die doppelt sind", "CLEAN"),
        ("how many rows per group", "COUNT"),
        ("anzahl pro gruppe", "COUNT"),
        ("kalenderwoche", "WEEK"),
        ("welche kalenderwochen", "WEEK"),
        ("wochen", "WEEK"),
        ("xyzzy", None),
        ("the of", None),
    ]:
        with subtests.test(query=query, subtype=subtype):
            assert best(small, query) == subtype


def test_a_query_that_is_a_phrase_fits_wholly(small):
    found = asked_for(small, ["rows", "remove", "duplicate"])
    assert found[1].fit == pytest.approx(1, abs=0.01)
    assert found[1].together == pytest.approx(1)
    assert found[2].fit < 0.6
