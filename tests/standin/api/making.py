"""What a node does while it runs: tables that it makes and takes apart, and what it asks its context for."""

import datetime as dt

from tests.standin.api.tools import DOCUMENTS, raises


def arrow(**columns):
    import pyarrow as pa

    return pa.table(columns)


def table(knext, row_ids="auto", sentinel=None, **columns):
    return knext.Table.from_pyarrow(arrow(**columns), sentinel=sentinel, row_ids=row_ids)


def shown(made):
    """The rows of a table, the RowIDs first."""
    data = made.to_pyarrow()
    return [data.schema.names, *([str(value) for value in column.to_pylist()] for column in data.columns)]


def kinds(made):
    return [str(column.ktype) for column in made.schema]


def typed(**columns):
    """The types of a table's columns, in Arrow and in KNIME."""

    def case(knext, given):
        made = table(knext, **{name: make() for name, make in columns.items()})
        return [[str(kind) for kind in made.to_pyarrow().schema.types], kinds(made)]

    return case


def array(values, kind):
    def make():
        import pyarrow as pa

        return pa.array(values, getattr(pa, kind)() if isinstance(kind, str) else kind(pa))

    return make


def numbers(knext, sentinel=None):
    import pyarrow as pa

    columns = {"i": pa.array([1, None], pa.int32()), "l": pa.array([None, 2], pa.int64()), "d": [None, 0.5]}
    return shown(
        table(knext, **columns)[:, :].get()
        if sentinel is None
        else Sentinels(table(knext, **columns), sentinel)
    )


class Sentinels:
    """A table that writes missing integers as a number."""

    def __init__(self, made, sentinel):
        self._made, self._sentinel = made, sentinel

    def to_pyarrow(self):
        return self._made.to_pyarrow(self._sentinel)


def batch(given):
    return next(given.input.batches())


def batches(knext, given):
    """What a batch is, and what becomes of it."""
    part = batch(given)
    data = part.to_pyarrow()
    return [
        type(data).__name__,
        data.num_rows,
        [part.num_rows, part.num_columns, part.column_names],
        kinds(part),
        shown(part[["c", "a"]][:, 1:]),
        type(part[["a"]].to_pyarrow()).__name__,
        type(knext.Table.from_pyarrow(data).to_pyarrow()).__name__,
    ]


def written(knext, *parts, row_ids="generate"):
    made = knext.BatchOutputTable.create(row_ids)
    for part in parts:
        made.append(part)
    return made.num_batches


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
        zoned=pa.array([moment, None], pa.timestamp("us", "Europe/Berlin")),
        duration=[dt.timedelta(days=-1, microseconds=5), None],
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
        return [
            str(kinds(made)),
            [str(value) for value in column.to_pylist()],
            str(column[0].as_py()),
            column.null_count,
        ]

    return case


def variables(name, value):
    def case(knext, given):
        given.context.flow_variables[name] = value
        return given.context.flow_variables[name]

    return case


def asked(function):
    return lambda knext, given: function(given.context)


TABLES = {
    "of Arrow": (
        lambda k, g: shown(table(k, a=[1, 2], b=["x", None])),
        [["<RowID>", "a", "b"], ["Row0", "Row1"], ["1", "2"], ["x", "None"]],
    ),
    "types": (
        typed(
            a=array([1], "int32"),
            b=array([1.5], "float32"),
            c=array([None], "null"),
            d=array([True], "bool_"),
        ),
        [
            ["string", "int32", "double", "null", "bool"],
            ["Number (Integer)", "Number (Float)", "null", "Boolean"],
        ],
    ),
    "lists": (
        typed(
            a=array([[1]], lambda pa: pa.list_(pa.int32())),
            b=array([[0.5]], lambda pa: pa.list_(pa.float32())),
        ),
        [
            ["string", "list<item: int32>", "list<item: double>"],
            ["List (Collection of: Number (Integer))", "List (Collection of: Number (Float))"],
        ],
    ),
    "large lists": (
        typed(a=array([[1]], lambda pa: pa.large_list(pa.int64()))),
        [["string", "large_list<item: int64>"], ["List (Collection of: Number (Long Integer))"]],
    ),
    "lists of nothing": (
        typed(a=array([[None], None, []], lambda pa: pa.list_(pa.null()))),
        [["string", "list<item: null>"], ["List (Collection of: null)"]],
    ),
    "values in lists of nothing": (
        lambda k, g: shown(table(k, a=array([[None, None], None, []], lambda pa: pa.list_(pa.null()))())),
        [["<RowID>", "a"], ["Row0", "Row1", "Row2"], ["[None, None]", "None", "[]"]],
    ),
    "unsigned": (typed(a=array([1], "uint32")), raises(ValueError)),
    "decimals": (typed(a=array([1], lambda pa: pa.decimal128(5))), raises(ValueError)),
    "maps": (typed(a=array([[("x", 1)]], lambda pa: pa.map_(pa.string(), pa.int64()))), raises(ValueError)),
    "dates": (
        dates,
        DOCUMENTS["making, dates"],
    ),
    "date values": (
        logical([dt.date(2024, 2, 29), None], dt.date),
        ["['Local Date']", ["2024-02-29", "None"], "2024-02-29", 1],
    ),
    "times": (
        logical([dt.time(12, 30, 15, 5), None], dt.time),
        ["['Local Time']", ["12:30:15.000005", "None"], "12:30:15.000005", 1],
    ),
    "durations": (
        logical([dt.timedelta(seconds=-1.5)], dt.timedelta),
        ["['Duration']", ["-1 day, 23:59:58.500000"], "-1 day, 23:59:58.500000", 0],
    ),
    "before 1970": (
        logical([dt.date(1, 1, 1), dt.date(9999, 12, 31)], dt.date),
        ["['Local Date']", ["0001-01-01", "9999-12-31"], "0001-01-01", 0],
    ),
    "RowIDs kept": (
        lambda k, g: shown(table(k, "keep", x=["p", "q"], a=[1, 2])),
        [["x", "a"], ["p", "q"], ["1", "2"]],
    ),
    "RowIDs kept in a dictionary": (
        lambda k, g: table(k, "keep", a=array(["x"], "string")().dictionary_encode()),
        raises(TypeError),
    ),
    "RowIDs kept that are numbers": (lambda k, g: table(k, "keep", a=[1, 2]), raises(TypeError)),
    "RowIDs generated": (
        lambda k, g: shown(table(k, "generate", **{"<RowID>": ["p", "q"]})),
        raises(RuntimeError),
    ),
    "RowIDs of another kind": (lambda k, g: table(k, "other", a=[1]), raises(ValueError)),
    "RowIDs of numbers": (
        lambda k, g: shown(table(k, **{"<RowID>": [5, None], "a": [1, 2]})),
        [["<RowID>", "a"], ["Row5", "RowNone"], ["1", "2"]],
    ),
    "schema of a view": (
        lambda k, g: kinds(g.input[["c", "a"]]),
        ["Number (Float)", "Number (Long Integer)"],
    ),
    "metadata": (
        lambda k, g: [c.metadata for c in g.input.schema],
        DOCUMENTS["making, metadata"],
    ),
    "written": (lambda k, g: written(k, arrow(a=[1, 2]), arrow(a=[3])), 2),
    "written of tables": (lambda k, g: written(k, table(k, a=[1, 2]), table(k, a=[3]), row_ids="keep"), 2),
    "written of record batches": (lambda k, g: written(k, *arrow(a=[1, 2, 3]).to_batches(2)), 2),
    "written of a view": (lambda k, g: written(k, g.input[["a"]]), raises(TypeError)),
    "written of nothing": (lambda k, g: written(k), 0),
    "written of a list": (lambda k, g: written(k, [1, 2]), raises(TypeError)),
    "written with a larger batch": (
        lambda k, g: written(k, arrow(a=[1]), arrow(a=[1, 2])),
        raises(ValueError),
    ),
    "written after a smaller batch": (
        lambda k, g: written(k, arrow(a=[1, 2]), arrow(a=[1]), arrow(a=[1])),
        raises(ValueError),
    ),
    "written with other RowIDs": (lambda k, g: written(k, row_ids="auto"), raises(ValueError)),
    "written of a generator": (
        lambda k, g: k.BatchOutputTable.from_batches(arrow(a=[i]) for i in range(3)).num_batches,
        3,
    ),
    "chunks": (chunks([2, 2, 1]), [5, 3]),
    "uneven chunks": (chunks([2, 1, 2]), raises(ValueError)),
    "empty chunk at the end": (chunks([2, 0]), [2, 1]),
    "empty chunk": (chunks([0]), [0, 0]),
    "of a list": (lambda k, g: k.Table.from_pyarrow([1, 2]), raises(AttributeError)),
    "of nothing": (lambda k, g: k.Table.from_pyarrow(None), raises(AttributeError)),
    "of a record batch": (
        lambda k, g: shown(k.Table.from_pyarrow(arrow(a=[1]).to_batches()[0])),
        [["<RowID>", "a"], ["Row0"], ["1"]],
    ),
    "of another table": (lambda k, g: k.Table.from_pyarrow(g.input), raises(AttributeError)),
    "taken apart": (
        lambda k, g: [shown(column) for column in g.input[["a", "b"]]],
        [
            [["<RowID>", "a"], ["Row0", "Row1", "Row2"], ["1", "2", "3"]],
            [["<RowID>", "b"], ["Row0", "Row1", "Row2"], ["x", "y", "z"]],
        ],
    ),
    "inserted": (lambda k, g: g.input.insert(g.input[["a"]], 0).get(), raises(NotImplementedError)),
    "compared": (lambda k, g: [g.input == g.input, g.input[["a"]] == g.input[["a"]]], [True, False]),
}
