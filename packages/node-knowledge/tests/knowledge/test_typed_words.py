"""Queries of a kind: comparisons, formulas, ranks and conditions, whatever they are about."""

import pytest

from knime_node_knowledge.node_search import search
from knime_node_knowledge.typed_words import (
    COMPARED,
    COMPUTED,
    DATED,
    DECIDED,
    OLDER,
    RANKED,
    SHARED,
    typed_words,
)

pytestmark = pytest.mark.quick


def test_what_is_of_a_kind_is_one_word(subtests):
    for text, words in [
        ("Bestellungen über 500 Euro", ("bestellungen", COMPARED)),
        ("age<18", ("age", COMPARED)),
        ("viajes entre 10 y 20 km", ("viajes", COMPARED, "km")),
        ("factures de plus de 2 000,50 €", ("factures", "de", COMPARED)),
        ("5 oder mehr Reklamationen", (COMPARED, "reklamationen")),
        ("title like '%manager%'", ("title", COMPARED, "manager")),
        ("Buchungen vor dem 1. Juli 2021", ("buchungen", DATED)),
        ("deliveries between 2023-01-01 and 2023-03-31", ("deliveries", DATED)),
        ("länger als 10 Jahre", (OLDER,)),
        ("les 5 plus grandes villes", ("les", RANKED, "villes")),
        ("Gewinn geteilt durch Umsatz", ("gewinn", COMPUTED, "umsatz")),
        ("(a + b) / 2", ("a", COMPUTED, "b", COMPUTED)),
        ("50/50 split", (SHARED, "split")),
        ("flag payments over 10000", ("flag", "payments", COMPARED, DECIDED)),
        ("fill gaps with a value below 0", ("fill", "gaps", "with", "a", "value", COMPARED)),
    ]:
        with subtests.test(text=text, words=words):
            assert typed_words(text) == words


def test_other_texts_are_of_no_kind(subtests):
    for text in [
        "moving average over 30 days",
        "Python 3 script",
        "k-Means with 5 cluster",
        "how many times a word occurs",
        "TensorFlow 2 Network Reader",
        "loop 10 times",
        "and / or",
        "3 listen verbinden",
        "put ages into bins 0-18, 19-65",
        "",
        "over 5 " * 100,
    ]:
        with subtests.test(text=text):
            assert typed_words(text) == ()


@pytest.mark.parametrize(
    ("query", "name"),
    [
        ("Bestellungen über 500 Euro", "Row Filter"),
        ("products cheaper than 5 dollars", "Row Filter"),
        ("invoices between 100 and 200", "Row Filter"),
        ("nur Kunden mit mehr als 3 Käufen", "Row Filter"),
        ("los 10 productos más caros", "Top k Row Filter"),
        ("si le montant dépasse 500 alors cher sinon normal", "Rule Engine"),
    ],
)
def test_a_query_of_a_kind_finds_its_node_whatever_it_is_about(reader, query, name):
    assert search(reader, query, limit=1).hits[0].node.name == name
