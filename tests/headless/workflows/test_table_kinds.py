"""Row Filter and Column Renamer: which rows KNIME's nodes would keep, and what they would refuse."""

import pytest

from knime_mcp.headless.workflows import NodeStatus, NotRunnable
from knime_mcp.knwf import (
    Column,
    Config,
    Criterion,
    RowFilter,
    SettingsEntry,
    column_renamer_node,
    read_row_filter,
    row_filter_node,
    table_creator,
)
from knime_mcp.knwf.settings_xml import boolean, from_xml, string, to_xml
from tests.headless.workflows.building import java_node, run, table_of, workflow

COLUMNS = [
    Column("text", "string", ("a.b", "AXB", None, "b")),
    Column("n", "int", (1, 2, None, 4)),
    Column("d", "double", (1.5, None, 2.0, -1.0)),
    Column("yes", "boolean", (True, False, None, True)),
]


def kept(trial, folder, *criteria, **says):
    nodes = table_creator(1, COLUMNS), row_filter_node(2, RowFilter(criteria, **says))
    report = run(trial, workflow(*nodes, lines=[(1, 1, 2, 1)]), folder)
    assert report.ok, report.outcomes[1].message
    ids, rows = table_of(report, 2)
    assert [list(row) for row in rows] == [["text", "n", "d", "yes"]] * len(ids)
    return [int(row_id.removeprefix("Row")) for row_id in ids]


@pytest.mark.parametrize(
    ("criterion", "rows"),
    [
        (Criterion("text", "EQ", "a.b"), [0]),
        (Criterion("text", "EQ", "axb", case_sensitive=False), [1]),
        (Criterion("text", "NEQ", "b"), [0, 1, 2]),  # a missing cell is different, as in KNIME
        (Criterion("text", "NEQ_MISS", "b"), [0, 1]),
        (Criterion("text", "WILDCARD", "a.?"), [0]),
        (Criterion("text", "WILDCARD", "a*", case_sensitive=False), [0, 1]),
        (Criterion("text", "REGEX", "a|b|A.B"), [1, 3]),
        (Criterion("text", "IS_MISSING"), [2]),
        (Criterion("text", "IS_NOT_MISSING"), [0, 1, 3]),
        (Criterion("n", "GT", 1, "int"), [1, 3]),
        (Criterion("n", "LTE", 2, "long"), [0, 1]),
        (Criterion("n", "WILDCARD", "?", "long"), [0, 1, 3]),
        (Criterion("d", "GTE", 1.5, "double"), [0, 2]),
        (Criterion("d", "LT", 0, "int"), [3]),
        (Criterion("yes", "IS_TRUE"), [0, 3]),
        (Criterion("yes", "IS_FALSE"), [1]),
        (Criterion(None, "EQ", "Row3"), [3]),
        (Criterion(None, "WILDCARD", "Row*"), [0, 1, 2, 3]),
    ],
)
def test_a_criterion(trial, tmp_path, criterion, rows):
    assert kept(trial, tmp_path, criterion) == rows
    others = [row for row in range(4) if row not in rows]
    assert kept(trial, tmp_path, criterion, keep=False) == others


def test_several_criteria(trial, tmp_path):
    both = Criterion("n", "GT", 1, "int"), Criterion("text", "EQ", "b")
    assert kept(trial, tmp_path, *both) == [3]
    assert kept(trial, tmp_path, *both, any=True) == [1, 3]


def test_the_settings_are_read_as_they_were_written():
    criteria = (
        Criterion("a", "EQ", "x", case_sensitive=False),
        Criterion("b", "GT", 1 << 40, "long"),
        Criterion("c", "REGEX", "1.*", "long"),
        Criterion(None, "WILDCARD", "Row*"),
        Criterion("e", "IS_MISSING"),
    )
    node = row_filter_node(1, RowFilter(criteria, any=True, keep=False))
    assert read_row_filter(node) == RowFilter(criteria, any=True, keep=False)
    assert from_xml(to_xml(node.model), "here") == node.model


@pytest.mark.parametrize(
    ("node", "says"),
    [
        (row_filter_node(2, RowFilter(())), "has no criterion"),
        (row_filter_node(2, RowFilter((Criterion("text", "FIRST_N_ROWS", "3"),))), "only KNIME decides"),
        (row_filter_node(2, RowFilter((Criterion("text", "REGEX", "("),))), "cannot be read here"),
        (column_renamer_node(2, {"text": "n2", "n": "n2"}), "two columns to one name"),
        (column_renamer_node(2, {"text": " "}), "blank"),
    ],
)
def test_what_does_not_run_is_said_before_anything_runs(trial, tmp_path, node, says):
    with pytest.raises(NotRunnable, match=says):
        run(trial, workflow(table_creator(1, COLUMNS), node, lines=[(1, 1, 2, 1)]), tmp_path)


def test_row_numbers_are_for_knime(trial, tmp_path):
    column = (string("regularChoice", None), string("specialChoice_Internals", "ROW_NUMBER"))
    criterion = Config("0", (Config("columnV2", column), string("operator", "EQ")))
    model = Config("model", (Config("predicates", (criterion,)),))
    factory = row_filter_node(2, RowFilter(())).factory
    node = java_node(2, factory=factory, model=model, inputs=1)
    with pytest.raises(NotRunnable, match="'EQ' on ROW_NUMBER"):
        run(trial, workflow(table_creator(1, COLUMNS), node, lines=[(1, 1, 2, 1)]), tmp_path)


@pytest.mark.parametrize(
    "column",
    [
        Config("column", (string("selected", "n"),)),
        Config("columnV2", (string("regularChoice", "n"), string("specialChoice_Internals", None))),
    ],
    ids=["5.3", "5.5"],
)
def test_a_number_is_compared_as_older_versions_saved_it(trial, tmp_path, column):
    kind = Config("typeIdentifier", (string("cell_class", "org.knime.core.data.def.IntCell"),))
    values = Config("values", (Config("0", (kind, SettingsEntry("value", "xint", 1))),))
    criterion = Config("0", (column, string("operator", "GT"), Config("predicateValues", (values,))))
    model = Config("model", (Config("predicates", (criterion,)),))
    node = java_node(2, factory=row_filter_node(2, RowFilter(())).factory, model=model, inputs=1)
    report = run(trial, workflow(table_creator(1, COLUMNS), node, lines=[(1, 1, 2, 1)]), tmp_path)
    assert table_of(report, 2)[0] == ["Row1", "Row3"]


@pytest.mark.parametrize(
    ("criterion", "says"),
    [
        (Criterion("gone", "EQ", "x"), "'gone' of a criterion is not in the table"),
        (Criterion("text", "GT", 1, "int"), "compares numbers, but the column holds 'a.b'"),
        (Criterion("yes", "EQ", "true"), "compares texts, but the column holds True"),
    ],
)
def test_a_criterion_that_does_not_fit_the_table(trial, tmp_path, criterion, says):
    nodes = table_creator(1, COLUMNS), row_filter_node(2, RowFilter((criterion,)))
    report = run(trial, workflow(*nodes, lines=[(1, 1, 2, 1)]), tmp_path)
    assert report.outcomes[1].status is NodeStatus.FAILED
    assert says in report.outcomes[1].message


def test_columns_get_new_names(trial, tmp_path):
    renamer = column_renamer_node(2, {"n": "number", "gone": "x"})
    assert boolean("doNotAllowPaddedColumnName", value=True) in renamer.model.children
    report = run(trial, workflow(table_creator(1, COLUMNS), renamer, lines=[(1, 1, 2, 1)]), tmp_path)
    ids, rows = table_of(report, 2)
    assert ids == ["Row0", "Row1", "Row2", "Row3"]
    assert list(rows[0]) == ["text", "number", "d", "yes"]
    assert "'gone'" in str(report.outcome(2).done.warnings)


def test_a_new_name_that_is_there_already(trial, tmp_path):
    flow = workflow(table_creator(1, COLUMNS), column_renamer_node(2, {"n": "text"}), lines=[(1, 1, 2, 1)])
    report = run(trial, flow, tmp_path)
    assert "A new name is that of another column" in report.outcomes[1].message
