"""What a node does while it runs: tables that it makes and takes apart, and what it asks its context for."""

import dataclasses
import datetime as dt

from tests.standin.api.tools import raises


def arrow(**columns):
    import pyarrow as pa

    return pa.table(columns)


def table(knext, row_ids="auto", **columns):
    return knext.Table.from_pyarrow(arrow(**columns), row_ids=row_ids)


def shown(made):
    """The rows of a table, the RowIDs first."""
    data = made.to_pyarrow()
    return [data.schema.names, *([str(value) for value in column.to_pylist()] for column in data.columns)]


def kinds(made):
    return [str(column.ktype) for column in made.schema]


def typed(values, kind):
    """The type of a table's column, in Arrow and in KNIME."""

    def case(knext, given):
        import pyarrow as pa

        made = table(knext, a=pa.array(values, getattr(pa, kind)() if isinstance(kind, str) else kind(pa)))
        return [str(made.to_pyarrow().schema.types[1]), *kinds(made)]

    return case


def written(knext, *parts):
    made = knext.BatchOutputTable.create("keep")
    for part in parts:
        made.append(part)


def chunks(sizes):
    def case(knext, given):
        import pyarrow as pa

        made = knext.Table.from_pyarrow(pa.table({"a": pa.chunked_array([[0] * size for size in sizes])}))
        return [made.num_rows, len(made.to_pyarrow().to_batches())]

    return case


def dates(knext, given):
    import pyarrow as pa

    moment = dt.datetime(2024, 2, 29, 12, 30, 15, 123456)
    made = table(
        knext,
        date=[moment.date(), None],
        time=[moment.time(), None],
        moment=[moment, None],
        zoned=pa.array([moment, None], pa.timestamp("us", "UTC")),
    )
    return [shown(made), kinds(made)]


def logical(values, kind):
    """Values that a column of a logical type gives back."""

    def case(knext, given):
        import pyarrow as pa

        dtype = knext.logical(kind).to_pyarrow()
        storage = pa.array([dtype.encode(value) for value in values], type=dtype.storage_type)
        made = table(knext, a=pa.ExtensionArray.from_storage(dtype, storage))
        column = made.to_pyarrow().column("a")
        return [*kinds(made), [str(value) for value in column.to_pylist()], str(column[0].as_py())]

    return case


def variables(name, value):
    def case(knext, given):
        given.context.flow_variables[name] = value
        return given.context.flow_variables[name]

    return case


def asked(function):
    return lambda knext, given: function(given.context)


def port_type(ask):
    def case(knext, given):
        from knime.extension import nodes

        return ask(nodes, knext)

    return case


def again(nodes, knext):
    loud = nodes.get_port_type_for_id("org.example.loud")
    return knext.port_type("Again", loud.object_class, type("Spec", (knext.PortObjectSpec,), {}))


TABLES = {
    "of Arrow": (
        lambda k, g: shown(table(k, a=[1, 2], b=["x", None])),
        [["<RowID>", "a", "b"], ["Row0", "Row1"], ["1", "2"], ["x", "None"]],
    ),
    "RowIDs kept": (
        lambda k, g: shown(table(k, "keep", x=["p", "q"], a=[1, 2])),
        [["x", "a"], ["p", "q"], ["1", "2"]],
    ),
    "RowIDs kept that are numbers": (lambda k, g: table(k, "keep", a=[1, 2]), raises(TypeError)),
    "RowIDs generated": (
        lambda k, g: shown(table(k, "generate", **{"<RowID>": ["p", "q"]})),
        raises(RuntimeError),
    ),
    "RowIDs of another kind": (lambda k, g: table(k, "other", a=[1]), raises(ValueError)),
    "schema of a view": (
        lambda k, g: kinds(g.input[["c", "a"]]),
        ["Number (Float)", "Number (Long Integer)"],
    ),
    "metadata": (
        lambda k, g: [c.metadata for c in g.input.schema],
        [
            {"preferred_value_type": f"org.knime.core.data.{name}Value", "displayed_column_type": shown}
            for name, shown in {
                "Long": "Number (Long)",
                "String": "String",
                "Double": "Number (Float)",
            }.items()
        ],
    ),
    "written": (lambda k, g: written(k, arrow(i=["a", "b"]), arrow(i=["c"])), None),
    "written of a view": (lambda k, g: written(k, g.input[["a"]]), raises(TypeError)),
    "written of a list": (lambda k, g: written(k, [1, 2]), raises(TypeError)),
    "larger batch": (lambda k, g: written(k, arrow(i=["a"]), arrow(i=["b", "c"])), raises(ValueError)),
    "batch after a smaller one": (
        lambda k, g: written(k, arrow(i=["a", "b"]), arrow(i=["c"]), arrow(i=["d"])),
        raises(ValueError),
    ),
    "batch of another type": (
        lambda k, g: written(k, arrow(i=["a"], n=[1]), arrow(i=["b"], n=["x"])),
        {"raised": "ArrowInvalid"},
    ),
    "chunks": (chunks([2, 2, 1]), [5, 3]),
    "uneven chunks": (chunks([2, 1, 2]), raises(ValueError)),
    "empty chunk at the end": (chunks([2, 0]), [2, 1]),
    "empty chunk": (chunks([0]), [0, 0]),
    "of a list": (lambda k, g: k.Table.from_pyarrow([1, 2]), raises(AttributeError)),
    "of another table": (lambda k, g: k.Table.from_pyarrow(g.input), raises(AttributeError)),
}
MOMENT = dt.datetime(2024, 7, 1, 12)
COLUMNS = {
    "32 bits": (typed([1], "int32"), ["int32", "Number (Integer)"]),
    "nulls": (typed([None], "null"), ["null", "null"]),
    "booleans": (typed([True], "bool_"), ["bool", "Boolean"]),
    "no rows": (typed([], "int32"), ["int32", "Number (Integer)"]),
    "lists": (
        typed([[1]], lambda pa: pa.list_(pa.int32())),
        ["list<item: int32>", "List (Collection of: Number (Integer))"],
    ),
    "unsigned": (typed([1], "uint32"), raises(ValueError)),
    "8 bits": (typed([1], "int8"), raises(ValueError)),
    "large texts": (typed(["x"], "large_string"), raises(ValueError)),
    "bytes": (typed([b"x"], "binary"), raises(ValueError)),
    "structs": (typed([{"x": 1}], lambda pa: pa.struct({"x": pa.int64()})), raises(ValueError)),
    "lists of lists": (typed([[[1]]], lambda pa: pa.list_(pa.list_(pa.int64()))), raises(ValueError)),
    "surrogates": (lambda k, g: table(k, a=["\ud800"]), raises(UnicodeEncodeError)),
    "decimals": (typed([1], lambda pa: pa.decimal128(5)), raises(ValueError)),
    "maps": (typed([[("x", 1)]], lambda pa: pa.map_(pa.string(), pa.int64())), raises(ValueError)),
    "dates": (
        dates,
        [
            [
                ["<RowID>", "date", "time", "moment", "zoned"],
                ["Row0", "Row1"],
                ["2024-02-29", "None"],
                ["12:30:15.123456", "None"],
                ["2024-02-29 12:30:15.123456", "None"],
                ["2024-02-29 12:30:15.123456+00:00", "None"],
            ],
            ["Local Date", "Local Time", "Local Date Time", "Zoned Date Time"],
        ],
    ),
    "date values": (
        logical([dt.date(1, 1, 1), None], dt.date),
        ["Local Date", ["0001-01-01", "None"], "0001-01-01"],
    ),
    "times": (
        logical([dt.time(12, 30, 15, 5)], dt.time),
        ["Local Time", ["12:30:15.000005"], "12:30:15.000005"],
    ),
    "durations": (
        logical([dt.timedelta(seconds=-1.5)], dt.timedelta),
        ["Duration", ["-1 day, 23:59:58.500000"], "-1 day, 23:59:58.500000"],
    ),
    "zone UTC": (
        lambda k, g: k.logical(dt.datetime).to_pyarrow().encode(MOMENT.replace(tzinfo=dt.UTC)),
        {"0": 19905, "1": 43200000000000, "2": 0, "3": "UTC"},
    ),
    "no zone": (lambda k, g: k.logical(dt.datetime).to_pyarrow().encode(MOMENT), raises(TypeError)),
}
CONTEXTS = {
    "no variable": (asked(lambda c: c.flow_variables["nothing"]), raises(KeyError)),
    "variable or not": (
        asked(lambda c: [c.flow_variables.get("nothing"), "given" in c.flow_variables]),
        [None, True],
    ),
    "list variable": (variables("x", [1.5, 2.5]), [1.5, 2.5]),
    "reserved variable": (variables("knime.x", 1), raises(ValueError)),
    "reserved variable without a dot": (variables("knimex", 1), raises(ValueError)),
    "number as a name": (variables(1, 1), raises(TypeError)),
    "variable taken out": (asked(lambda c: c.flow_variables.pop("given")), raises(RuntimeError)),
    "variables cleared": (asked(lambda c: c.flow_variables.clear()), raises(RuntimeError)),
    "variables updated": (
        asked(lambda c: [c.flow_variables.update(a=1, b="x"), c.flow_variables["b"]]),
        [None, "x"],
    ),
    "variables replaced": (asked(lambda c: setattr(c, "flow_variables", {})), raises(AttributeError)),
    "variables joined": (asked(lambda c: c.flow_variables | {"a": 1}), raises(TypeError)),
    "credentials": (asked(lambda c: c.get_credential_names()), ["me"]),
    "credential": (
        asked(lambda c: [str(c.get_credentials("me").username), c.get_credentials("me").credential_name]),
        ["user", "me"],
    ),
    "credential changed": (
        asked(lambda c: setattr(c.get_credentials("me"), "password", "x")),
        raises(dataclasses.FrozenInstanceError),
    ),
    "no credential": (asked(lambda c: c.get_credentials("you")), raises(KeyError)),
    "sizes": (asked(lambda c: c.get_connected_output_port_numbers()), [1]),
    "warning that is no text": (asked(lambda c: c.set_warning(5)), None),
    "progress": (
        asked(lambda c: [c.set_progress(0), c.set_progress(True, "x"), c.set_progress(1.00001)]),
        [None] * 3,
    ),
    "progress below": (asked(lambda c: c.set_progress(-0.1)), raises(ValueError)),
    "progress of none": (asked(lambda c: c.set_progress(None)), raises(TypeError)),
    "progress with a number": (asked(lambda c: c.set_progress(0.5, 5)), raises(TypeError)),
    "canceled": (asked(lambda c: c.is_canceled()), False),
    "folders": (
        asked(
            lambda c: [isinstance(f(), str) for f in (c.get_workflow_temp_dir, c.get_workflow_data_area_dir)]
        ),
        [True] * 2,
    ),
    "number of the node": (asked(lambda c: c._java_ctx.get_node_id().rpartition(":")[2]), "1"),
    "specs": (asked(lambda c: c.get_input_specs()), raises(AttributeError)),
    "port type by id": (
        port_type(lambda n, _: n.get_port_type_for_id("org.example.loud").name),
        "Loud words",
    ),
    "unknown port type": (port_type(lambda n, _: n.get_port_type_for_id("nothing")), raises(KeyError)),
    "known port type": (
        port_type(lambda n, _: [n.has_port_type_for_id(name) for name in ("org.example.loud", "x")]),
        [True, False],
    ),
    "port type twice": (port_type(again), raises(ValueError)),
}
