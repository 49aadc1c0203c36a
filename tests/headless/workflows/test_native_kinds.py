"""The native nodes: what KNIME's Java nodes would make of the same settings and tables."""

from dataclasses import replace

import pytest

from knime_mcp.headless.workflows import NodeStatus, WorkflowError
from knime_mcp.headless.workflows.native_kinds import from_json, from_text
from knime_mcp.knwf import (
    Column,
    Concatenation,
    Config,
    Configuration,
    concatenate_node,
    read_configuration,
    table_creator,
)
from knime_mcp.knwf.settings_xml import string
from tests.headless.workflows.building import (
    component,
    context,
    numbers,
    run,
    seen,
    table_of,
    variable,
    workflow,
)


def configuration(kind, value, **says):
    return Configuration(kind=kind, variable="x", parameter="x-value", value=value, **says)


def test_table_creator(trial, tmp_path):
    columns = [
        Column("text", "string", ("a", None)),
        Column("int", "int", (1, None)),
        Column("long", "long", (1 << 40, None)),
        Column("double", "double", (1.5, None)),
        Column("yes", "boolean", (True, None)),
    ]
    report = run(trial, workflow(table_creator(1, columns)), tmp_path)
    ids, rows = table_of(report, 1)
    assert ids == ["Row0", "Row1"]
    assert rows[0] == {"text": "a", "int": 1, "long": 1 << 40, "double": 1.5, "yes": True}
    assert set(rows[1].values()) == {None}


def test_an_empty_table_creator(trial, tmp_path):
    report = run(trial, workflow(table_creator(1, [])), tmp_path)
    assert report.ok, report.outcomes[0].message
    assert table_of(report, 1) == ([], [])


def test_configuration_nodes_make_flow_variables(trial, tmp_path):
    nodes = [
        variable(1, "text", "a % b"),
        variable(2, "int", 5),
        variable(3, "double", 2.5),
        variable(4, "flag", True),
        variable(5, "as number", True, as_number=True),
    ]
    lines = [(i, 1, i + 1, 0) for i in range(1, 5)]
    flow = workflow(*nodes, context(trial, 6), lines=[*lines, (5, 1, 6, 0)])
    got = seen(run(trial, flow, tmp_path), 6)["variables"]
    assert got == {
        "text": "a % b",
        "int": 5,
        "double": 2.5,
        "flag": True,
        "as number": 1,
        "configured": True,
    }
    assert type(got["as number"]) is int


BERLIN = "2026-03-04T05:06+01:00[Europe/Berlin]"


def test_choices_dates_and_files_make_the_variables_of_knimes_nodes(trial, tmp_path):
    (tmp_path / "a b.txt").write_text("x")
    dates = ("LOCAL_DATE", "LOCAL_TIME", "LOCAL_DATE_TIME", "ZONED_DATE_TIME")
    nodes = [
        variable(1, "pick", "b", kind="choice", choices=("a", "b")),
        variable(2, "file", str(tmp_path / "a b.txt"), kind="file"),
        *(variable(3 + n, own, BERLIN, kind="date", date=own) for n, own in enumerate(dates)),
        variable(7, "now", BERLIN, kind="date", date="LOCAL_DATE_TIME", now=True),
    ]
    lines = [(i, 1, i + 1, 0) for i in range(1, 8)]
    got = seen(run(trial, workflow(*nodes, context(trial, 8), lines=lines), tmp_path), 8)["variables"]
    assert (got["pick"], got["pick (index)"]) == ("b", 1)
    assert got["file"] == str(tmp_path / "a b.txt")
    assert got["file (URL)"] == f"file:{tmp_path}/a%20b.txt"
    assert got["LOCAL_DATE"] == "2026-03-04"
    assert got["LOCAL_TIME"] == "05:06:00"
    assert got["LOCAL_DATE_TIME"] == "2026-03-04T05:06:00"
    assert got["ZONED_DATE_TIME"] == "2026-03-04T05:06:00+01:00[Europe/Berlin]"
    assert got["now"] > "2026-03-04T05:06:00"


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("2025-01-02", "2025-01-02T05:06+01:00[Europe/Berlin]"),
        ("12:30:15", "2026-03-04T12:30:15+01:00[Europe/Berlin]"),
        ("2025-01-02T12:30", "2025-01-02T12:30+01:00[Europe/Berlin]"),
        ("2025-01-02T12:30Z", "2025-01-02T12:30Z"),
        ("2025-01-02T12:30:00+02:00[Europe/Kyiv]", "2025-01-02T12:30:00+02:00[Europe/Kyiv]"),
    ],
)
def test_a_date_that_is_set_keeps_what_its_text_leaves_out(text, value):
    assert from_text(configuration("date", BERLIN), text) == value
    assert from_json(configuration("date", BERLIN), {"date&time": text}) == value


def test_a_date_of_a_components_dialog_is_not_the_moment_of_the_execution(trial, tmp_path):
    own = variable(1, "day", BERLIN, kind="date", date="LOCAL_DATE", now=True, parameter="day")
    dialog = (Config("day-1", (string("date&time", "2020-02-03T04:05:06Z"),)),)
    node, files = component(
        5, own, context(trial, 2, inputs={"First": 0}), dialog=dialog, lines=[(1, 1, 2, 0)], ins=0, outs=0
    )
    report = run(trial, workflow(node, files=files), tmp_path)
    (found,) = [o for o in report.outcomes if o.node.name == "Context"]
    assert seen(report, found.node.id)["variables"]["day"] == "2020-02-03"


@pytest.mark.parametrize(
    ("path", "why"),
    [("", "No file or URL"), ("no.txt", "No such file"), ("https://h/x.txt", "only KNIME downloads")],
)
def test_files_that_are_not_there(trial, tmp_path, path, why):
    report = run(trial, workflow(variable(1, "f", path, kind="file")), tmp_path)
    assert report.outcomes[0].status is NodeStatus.FAILED
    assert why in report.outcomes[0].message


@pytest.mark.parametrize(
    ("own", "value", "message"),
    [
        (
            configuration("choice", "a", choices=("a", "b")),
            "c",
            "'c' is no choice of 'x', which offers 'a', 'b'",
        ),
        (configuration("date", BERLIN), "tomorrow", "'tomorrow' of 'x' is no date or time"),
        (configuration("date", BERLIN), "", "is no date or time"),
        (configuration("integer", 5, minimum=1, maximum=9), "0", "smaller than the allowed minimum of 1"),
        (configuration("integer", 5, minimum=1, maximum=9), "10", "bigger than the allowed maximum of 9"),
        (configuration("double", 0.5, maximum=1.0), "1.5", "bigger than"),
        (configuration("string", "a", pattern="[ab]+", message="'?' is wrong"), "abc", "'abc' is wrong"),
        (configuration("string", "a", pattern="[ab]+"), "c", "'c' does not match '[ab]+'"),
        (configuration("string", "a", pattern=r"\p{Alpha}"), "c", "Java's regular expressions"),
        (configuration("credentials", "me"), "x", "do not belong on a command line"),
    ],
)
def test_values_that_a_configuration_node_refuses(own, value, message):
    with pytest.raises(WorkflowError) as caught:
        from_text(own, value)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("kind", "given", "value"),
    [
        ("string", "a", "a"),
        ("string", 1.5, "1.5"),
        ("string", {"string": "a"}, "a"),
        ("integer", 7, 7),
        ("integer", 7.9, 7),
        ("integer", "7", 7),
        ("integer", {"integer": 7}, 7),
        ("double", 7, 7.0),
        ("double", "7.5", 7.5),
        ("boolean", True, True),
        ("boolean", "TRUE", True),
        ("boolean", "yes", False),
        ("boolean", {"boolean": None}, False),
    ],
)
def test_json_values_are_read_as_knime_reads_them(kind, given, value):
    default = {"string": "", "integer": 0, "double": 0.0, "boolean": False}[kind]
    found = from_json(configuration(kind, default), given)
    assert (type(found), found) == (type(value), value)


@pytest.mark.parametrize(
    ("kind", "given"), [("string", None), ("string", True), ("integer", True), ("boolean", 1), ("double", {})]
)
def test_json_values_that_do_not_fit(kind, given):
    with pytest.raises(WorkflowError, match=r"has to be|Expected"):
        from_json(configuration(kind, {"string": "", "boolean": False}.get(kind, 0)), given)


def test_a_default_that_is_not_allowed_fails_the_node(trial, tmp_path):
    report = run(trial, workflow(variable(1, "x", 5, maximum=3)), tmp_path)
    assert report.outcomes[0].status is NodeStatus.FAILED
    assert "bigger than the allowed maximum of 3" in report.outcomes[0].message


def concatenated(trial, tmp_path, says, *tables):
    nodes = [replace(table, id=i) for i, table in enumerate(tables, 1)]
    node = concatenate_node(9, says, inputs=len(tables))
    flow = workflow(*nodes, node, lines=[(own.id, 1, 9, own.id) for own in nodes])
    return run(trial, flow, tmp_path)


@pytest.mark.parametrize(
    ("says", "ids", "rows"),
    [
        (Concatenation(), ["Row0", "Row1", "Row2", "Row3"], [1, 2, 3, 4]),
        (Concatenation(row_ids="suffix"), ["Row0", "Row1", "Row0_dup", "Row1_dup"], [1, 2, 3, 4]),
        (Concatenation(row_ids="suffix", suffix="+"), ["Row0", "Row1", "Row0+", "Row1+"], [1, 2, 3, 4]),
        (Concatenation(row_ids="skip"), ["Row0", "Row1"], [1, 2]),
    ],
)
def test_row_ids_of_concatenate(trial, tmp_path, says, ids, rows):
    report = concatenated(trial, tmp_path, says, numbers(1, 1, 2), numbers(2, 3, 4))
    found, cells = table_of(report, 9)
    assert (found, [row["n"] for row in cells]) == (ids, rows)
    skipped = ("Filtered out 2 duplicate row(s).",) if says.row_ids == "skip" else ()
    assert report.outcome(9).done.warnings == skipped


def test_a_suffix_is_appended_until_the_row_id_is_new(trial, tmp_path):
    report = concatenated(
        trial, tmp_path, Concatenation(row_ids="suffix"), numbers(1, 1), numbers(2, 2), numbers(3, 3)
    )
    assert table_of(report, 9)[0] == ["Row0", "Row0_dup", "Row0_dup_dup"]


def test_row_ids_that_must_not_clash(trial, tmp_path):
    report = concatenated(trial, tmp_path, Concatenation(row_ids="fail"), numbers(1, 1), numbers(2, 2))
    assert not report.ok
    assert "RowID 'Row0' is in the tables more than once" in report.outcome(9).message


def test_columns_of_concatenate(trial, tmp_path):
    first = table_creator(1, [Column("a", "string", ("x",)), Column("b", "int", (1,))])
    second = table_creator(2, [Column("c", "boolean", (True,)), Column("b", "int", (2,))])
    _, rows = table_of(concatenated(trial, tmp_path, Concatenation(), first, second), 9)
    assert rows == [{"a": "x", "b": 1, "c": None}, {"a": None, "b": 2, "c": True}]
    only = concatenated(trial, tmp_path, Concatenation(intersection=True), first, second)
    assert table_of(only, 9)[1] == [{"b": 1}, {"b": 2}]


@pytest.mark.parametrize(
    ("kinds", "wanted"),
    [(("int", "double"), "Double"), (("long", "int"), "Long"), (("int", "long", "double"), "Double")],
)
def test_numbers_become_the_wider_type(trial, tmp_path, kinds, wanted):
    tables = [numbers(i, 1, kind=kind) for i, kind in enumerate(kinds)]
    report = concatenated(trial, tmp_path, Concatenation(), *tables)
    table = report.outcome(9).done.outputs[0]
    assert table.logical_types["n"].endswith(f".{wanted}ValueFactory")
    assert [row["n"] for row in table.to_pylist()] == [1] * len(kinds)


def test_columns_of_mixed_types_are_refused(trial, tmp_path):
    report = concatenated(trial, tmp_path, Concatenation(), numbers(1, 1), numbers(2, "a", kind="string"))
    assert "'n' has different types in the tables (Int and String)" in report.outcome(9).message


def test_what_concatenate_gives_can_be_read(trial, tmp_path):
    """Pieces of several tables arrive at a Python node as one table."""
    tables = [numbers(i, *range(i)) for i in range(1, 4)]
    nodes = [*tables, concatenate_node(9, inputs=3), context(trial, 10, inputs={"First": 1})]
    flow = workflow(*nodes, lines=[(1, 1, 9, 1), (2, 1, 9, 2), (3, 1, 9, 3), (9, 1, 10, 1)])
    assert seen(run(trial, flow, tmp_path), 10)["first"] == [6, 1, ["n"]]


def test_a_configuration_node_reads_back():
    own = configuration("double", 1.5, minimum=0.5, label="L", description="D <&> 😀 100%")
    assert read_configuration(variable(1, "x", 1.5, parameter="x-value", minimum=0.5, label="L",
                                       description="D <&> 😀 100%")) == own  # fmt: skip
