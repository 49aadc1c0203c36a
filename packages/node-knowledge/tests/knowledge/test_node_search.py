"""What search promises whatever the catalogue: order, typing errors, foreign words, and any text at all."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from knime_node_knowledge.catalogue_reader import Catalogue
from knime_node_knowledge.node_model import NodeParameter
from knime_node_knowledge.node_search import Tier, search
from knime_node_knowledge.query_words import parse_query, stem, within_one_edit
from knime_node_knowledge.sources.catalogue_build import write_catalogue
from knime_node_knowledge.vocabulary import vocabulary

from .conftest import spec


def node(name, **fields):
    values = {"subtype": name.upper().replace(" ", "_"), "name": name, "short_description": "x", **fields}
    return spec(node_type="T", **values)


NODES = [
    node("Row Filter", description="Keeps rows."),
    node("Row Filter", subtype="OLD_ROW_FILTER", deprecated=True, successor="T.ROW_FILTER"),
    node("Old Filter", deprecated=True, successor="T.ROW_FILTER", keywords=("row", "filter")),
    node("Kräfte Messer", description="Measures."),
    node("XMLReader", description="Reads files."),
    node("Webflow", description="A webhook can be its source, webhook webhook webhook."),
    node("Webhook", description="Starts."),
    node("By Category", category=("Zebra",)),
    node("By Parameter", parameters=(NodeParameter(name="zebra"),)),
    node("By Alias", aliases=("zebra stripes",)),
    node("By Description", description="A zebra."),
    node("Zebra Name"),
]


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    file = tmp_path_factory.mktemp("search") / "nodes.sqlite"
    write_catalogue(file, NODES)
    with Catalogue(file) as catalogue, catalogue.reading() as reader:
        yield reader


def ids(reader, query, **options):
    return [hit.node.subtype for hit in search(reader, query, **options).hits]


@pytest.mark.parametrize(
    "query", ["Row Filter", "row filter", "ROW_FILTER", "RowFilter", "rowfilter", "T.ROW_FILTER"]
)
def test_the_exact_name_comes_first_however_it_is_written(small, query):
    assert ids(small, query)[0] == "ROW_FILTER"


def test_a_word_in_many_descriptions_does_not_displace_the_node_of_that_name(small):
    assert ids(small, "webhook")[0] == "WEBHOOK"


def test_fields_count_in_their_order_and_are_named(small):
    found = search(small, "zebra").hits
    assert [hit.field for hit in found] == ["name", "phrase", "category", "parameters", "description"]
    assert [hit.words for hit in found] == [("zebra",), ("zebra stripes",), *[("zebra",)] * 3]


def test_deprecated_nodes_are_last_and_name_their_successor(small):
    found = search(small, "filter row").hits
    assert [hit.node.deprecated for hit in found] == [False, True, True]
    assert all(hit.node.successor == "T.ROW_FILTER" for hit in found[1:])


def test_a_deprecated_node_that_is_asked_for_by_its_id_is_first(small):
    assert ids(small, "T.OLD_ROW_FILTER")[0] == "OLD_ROW_FILTER"


@pytest.mark.parametrize(
    ("query", "subtype"),
    [
        ("krafte", "KRÄFTE_MESSER"),
        ("KRÄFTE", "KRÄFTE_MESSER"),
        ("xml", "XMLREADER"),
        ("xmlr", "XMLREADER"),
        ("webh", "WEBHOOK"),
        ("zebar name", "ZEBRA_NAME"),
        ("webhok", "WEBHOOK"),
        ("wbhook", "WEBHOOK"),
        ("webhoock", "WEBHOOK"),
    ],
)
def test_accents_camel_case_beginnings_and_typing_errors(small, query, subtype):
    assert ids(small, query)[0] == subtype


def test_words_of_other_languages_find_nodes(reader, subtests):
    for query, node in [
        ("Fehlende Werte ersetzen", "Missing Value"),
        ("Wie kann ich Tabellen verknüpfen?", "Joiner"),
        ("entscheidungsbaum", "Decision Tree Learner"),
        ("Summe pro Gruppe", "GroupBy"),
        ("excel-datei einlesen", "Excel Reader"),
        ("Zeilenfilter", "Row Filter"),
        ("supprimer les colonnes vides", "Missing Value Column Filter"),
        ("¿Cómo cambio el nombre de las columnas?", "Column Renamer"),
        ("filas duplicadas", "Duplicate Row Filter"),
    ]:
        with subtests.test(query=query, node=node):
            found = search(reader, query)
            assert node in [hit.node.name for hit in found.hits[:3]]
            assert not found.unknown


@pytest.mark.parametrize(
    ("query", "name"),
    [
        ("SVERWEIS", "Value Lookup"),
        ("ZÄHLENWENN", "GroupBy"),
        ("Text in Spalten", "Cell Splitter"),
        ("Teilergebnis", "GroupBy"),
        ("RECHERCHEV", "Value Lookup"),
        ("Tableau croisé dynamique", "Pivot"),
        ("=BUSCARV(A2;B:C;2)", "Value Lookup"),
        ("SUMAR.SI", "GroupBy"),
    ],
)
def test_functions_of_excel_are_found_by_their_names_in_other_languages(reader, query, name):
    assert search(reader, query).hits[0].node.name == name


@pytest.mark.parametrize(
    ("query", "name"),
    [
        ("Alteryx Summarize tool", "GroupBy"),
        ("melt in pandas", "Unpivot"),
        ("SQL SELECT DISTINCT", "Duplicate Row Filter"),
        ("R snippet", "R Snippet"),
    ],
)
def test_the_tool_that_a_word_comes_from_may_be_named(reader, query, name):
    assert search(reader, query).hits[0].node.name == name


def test_a_tool_whose_name_begins_with_that_of_another_tool_is_left_out_whole():
    # Whatever the order of a set is in this process: the same query always has the same answer.
    assert vocabulary().without_tools("excel in german summewenn") == "summewenn"
    assert list(map(len, vocabulary().tools)) == sorted(map(len, vocabulary().tools), reverse=True)


def test_formulas_and_calls_are_asked_for_by_their_function(subtests, reader):
    for query, name in [
        ("=VLOOKUP(A2,B:C,2,FALSE)", "Value Lookup"),
        ('=WENN(A1>5;"ja";"nein")', "Rule Engine"),
        ('= SUMIF(B:B, "x")', "GroupBy"),
        ("df.drop_duplicates(subset=['a'])", "Duplicate Row Filter"),
        ("df['price'].shift(1)", "Lag Column"),
        ("df[['a', 'b']].drop_duplicates()", "Duplicate Row Filter"),
        ("df['a'].str.split(',', expand=True)", "Cell Splitter"),
        ('=CONTAR.SI(A:A;"x")', "GroupBy"),
        ("=UNIQUE(A2:A99)", "Duplicate Row Filter"),
        ('=CONCATENATE(A1;" ";B1)', "Column Combiner"),
        ('=SI(A1>10;"haut";"bas")', "Rule Engine"),
        ("=RANG(A2;A:A)", "Rank"),
        ("=AVERAGE(A1:A9)", "GroupBy"),
        ('=TEXT(A1,"yyyy-mm")', "Date&Time to String"),
        ("=SORTIEREN(A2:B99;2)", "Sorter"),
        ("dplyr::left_join(x, y)", "Joiner"),
        ("kmeans(df, 3)", "k-Means"),
        ("lm(y ~ x)", "Linear Regression Learner"),
        ("ROW_NUMBER() OVER (PARTITION BY a)", "Rank"),
        ("Try (Data Ports)", "Try (Data Ports)"),
        ("Säulendiagramm", "Bar Chart"),
    ]:
        with subtests.test(query=query, name=name):
            assert search(reader, query).hits[0].node.name == name


@pytest.mark.parametrize(
    ("query", "name"),
    [
        ("tabelle sortiren", "Sorter"),
        ("transponiren", "Table Transposer"),
        ("valores faltntes", "Missing Value"),
    ],
)
def test_typing_errors_are_found_in_the_words_that_people_say(reader, query, name):
    assert search(reader, query).hits[0].node.name == name


@pytest.mark.parametrize(
    ("query", "name"),
    [
        ("write rows back to an oracle table", "DB Writer"),
        ("run a statement on sqlite", "DB SQL Executor"),
        ("delete old rows in postgres", "DB Delete (Table)"),
    ],
)
def test_who_names_a_database_asks_for_the_nodes_of_databases(reader, query, name):
    assert name in [hit.node.name for hit in search(reader, query).hits[:4]]


@pytest.mark.parametrize(
    ("query", "name"),
    [
        ("RowFilterNodeFactory", "Row Filter"),
        ("org.a.node.preproc.filter.row.RowFilterNodeFactory", "Row Filter"),
        ("org.a.preproc.joiner3.Joiner3NodeFactory", "Joiner"),
        ("GroupByNodeModel", "GroupBy"),
        ("CSVTableReaderNodeFactory", "CSV Reader"),
        ("org.a.Nodes$ColumnFilterNodeFactory#x", "Column Filter"),
    ],
)
def test_a_class_in_java_is_asked_for_by_what_it_does(reader, query, name):
    assert search(reader, query).hits[0].node.name == name


def test_a_word_of_another_language_finds_nodes_without_phrases(small):
    assert search(small, "Zeilen").hits[0].node.name == "Row Filter"


def test_of_a_foreign_word_in_phrases_nothing_is_said(reader):
    found = search(reader, "doppelte Zeilen entfernen")
    assert found.hits[0].node.name == "Duplicate Row Filter"
    assert found.corrected == ()


def test_the_name_in_other_forms_comes_before_longer_names(reader):
    for query, name in {"Column Filters": "Column Filter", "CSV Readers": "CSV Reader"}.items():
        assert search(reader, query).hits[0].node.name == name


def test_corrections_are_said(small):
    assert search(small, "zebar").corrected == (("zebar", "zebra"),)
    assert search(small, "vlokup").corrected == (("vlokup", "vlookup"),)


def test_all_words_come_before_some_words(small):
    tiers = [hit.tier for hit in search(small, "zebra name").hits]
    assert tiers == sorted(tiers)
    assert Tier.ANY_WORD in tiers


@pytest.mark.parametrize("query", ["row qwertzuiop", "jede Zeile einzeln abarbeiten", "columns asdfghjkl"])
def test_a_frequent_word_beside_unknown_ones_still_finds_nodes(reader, query):
    assert search(reader, query).hits


def test_umlauts_may_be_written_with_two_letters(reader):
    # *sub* is the stem of the Spanish *subir*.
    assert not search(reader, "subquery").corrected
    answers = [search(reader, f"Spaltentyp {word}") for word in ("ändern", "aendern")]
    assert answers[0].hits[0].node == answers[1].hits[0].node
    assert not answers[1].unknown


@pytest.mark.parametrize(
    ("query", "name"),
    [
        ("power query merge queries", "Joiner"),
        ("Power BI: append queries", "Concatenate"),
        ("tableau countd", "GroupBy"),
        ("SPSS select cases", "Row Filter"),
        ("stata egen", "GroupBy"),
        ("SAS proc transpose", "Table Transposer"),
    ],
)
def test_names_of_tools_are_neither_searched_nor_typing_errors(reader, query, name):
    assert search(reader, query).hits[0].node.name == name


def test_pages_fit_together(reader):
    whole = [hit.node.id for hit in search(reader, "read a table and filter its rows", limit=40).hits]
    paged = []
    for offset in range(0, 40, 7):
        hits = search(
            reader, "read a table and filter its rows", limit=min(7, 40 - offset), offset=offset
        ).hits
        paged += [hit.node.id for hit in hits]
    assert paged == whole
    assert len(set(whole)) == len(whole) == 40


@given(st.text(max_size=60))
def test_any_text_is_only_words(small, text):
    first = search(small, text)
    assert [hit.node.id for hit in search(small, text).hits] == [hit.node.id for hit in first.hits]
    assert all(hit.score > 0 and hit.field for hit in first.hits)


def test_syntax_of_the_index_and_of_sql_is_only_text(subtests, small):
    for text in [
        '"',
        "'",
        "*",
        "zebra*",
        "NEAR(zebra name)",
        "name:zebra",
        "zebra AND",
        "OR",
        "NOT zebra",
        "^zebra",
        "-zebra",
        "{name} : zebra",
        "(((",
        "zebra + name",
        "'; DROP TABLE nodes; --",
        "\x00",
        "zebra\x00name",
        "\ud800",
        "%",
        "_",
        "🦓",
        "٣",
        "™",
        "℃ ℉",
        "ﬁlter",
        "zebra" * 2_000,
        "z " * 5_000,
        "ab" * 5_000,
        "9" * 5_000 + "Node",
        "A1" * 5_000,
        "a." * 5_000,
        "\n" * 10_000,
    ]:
        with subtests.test(text=text):
            search(small, text)
            assert ids(small, "zebra name")[0] == "ZEBRA_NAME"


def test_signs_that_stand_for_letters_find_them(small):
    assert parse_query("™").terms == ("tm",)
    assert [hit.node.subtype for hit in search(small, "ⓏⒺⒷⓇⒶ ⓃⒶⓂⒺ").hits][:1] == ["ZEBRA_NAME"]


def test_a_long_query_is_cut_and_says_so(small):
    found = search(
        small,
        "zebra " + " ".join(f"xyzzy{chr(97 + number // 26)}{chr(97 + number % 26)}" for number in range(600)),
    )
    assert found.cut
    assert found.hits[0].node.subtype == "ZEBRA_NAME"


def test_names_of_single_letters_and_digits_are_one_word():
    assert [word.parts for word in parse_query("H2O S3 RowFilter").words] == [(), (), ("row", "filter")]


def test_words_that_say_nothing_are_left_out_unless_there_are_no_others():
    assert parse_query("how do I use the zebra").terms == ("zebra",)
    assert parse_query("what is it").terms == ("what", "is", "it")


@pytest.mark.parametrize(
    ("word", "begin"),
    [
        ("filtering", "filter"),
        ("joins", "join"),
        ("splitting", "split"),
        ("row", "row"),
        ("aggregation", "aggreg"),
    ],
)
def test_relatives_share_a_beginning(word, begin):
    assert stem(word) == begin


@given(st.text("abc", max_size=6), st.text("abc", max_size=6))
def test_one_edit_is_what_its_definition_says(left, right):
    def neighbours(word):
        cuts = [(word[:at], word[at:]) for at in range(len(word) + 1)]
        yield word
        yield from (a + b[1:] for a, b in cuts if b)
        yield from (a + letter + b[1:] for a, b in cuts if b for letter in "abc")
        yield from (a + letter + b for a, b in cuts for letter in "abc")
        yield from (a + b[1] + b[0] + b[2:] for a, b in cuts if len(b) > 1)

    assert within_one_edit(left, right) == (right in set(neighbours(left)))


def test_slips_and_order_of_words(subtests, reader):
    for query, name in [
        ("jion tables", "Joiner"),  # not JSON, which has other letters
        ("mising value", "Missing Value"),
        ("excl reader", "Excel Reader"),  # exclude begins so
        ("text to number", "String to Number"),  # and not the other way round
        ("convert string to nubmer", "String to Number"),
        ("date to text", "Date&Time to String"),
        ("date to string", "Date&Time to String"),
        ("text to date", "String to Date&Time"),
        ("variable to row", "Variable to Table Row"),
        ("rename columns", "Column Renamer"),
        ("fliter rows", "Row Filter"),
        ("tabellen aneinanderhängen", "Concatenate"),
    ]:
        with subtests.test(query=query, name=name):
            assert [hit.node.name for hit in search(reader, query, limit=1).hits] == [name]


def test_a_plain_word_finds_knimes_nodes_before_those_of_the_engine(subtests, call):
    for query, first in [
        ("switch", "IF Switch"),
        ("if", "Rule Engine"),
        ("XLOOKUP", "Value Lookup"),
        ("random number", "Random Number Assigner"),
        ("vlookup", "Value Lookup"),
    ]:
        with subtests.test(query=query):
            hits = call("search_nodes", query=query)["nodes"]
            assert hits[0]["name"] == first
            assert "UNKNOWN" not in [hit["node_type"] for hit in hits]
            scores = [hit["relevance_score"] for hit in hits]
            assert scores == sorted(scores, reverse=True)
