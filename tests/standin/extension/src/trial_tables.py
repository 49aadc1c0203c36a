"""Nodes that make and read tables of all kinds."""

import datetime as dt
import json

import knime.extension as knext
from trial_base import as_table, category


@knext.node("Tables", knext.NodeType.OTHER, "icons/icon.png", category)
@knext.output_table("Out", "a table")
class Tables:
    """Makes tables of all kinds.

    Some of them KNIME refuses.
    """

    kind = knext.StringParameter("Kind", "which table", "plain")
    row_ids = knext.StringParameter("RowIDs", "how they are made", "auto")
    promise = knext.StringParameter("Promise", "what configure says", "")

    def configure(self, ctx):
        columns = [knext.Column(knext.int64(), "a")]
        match self.promise:
            case "":
                return None
            case "name":
                columns = [knext.Column(knext.int64(), "b")]
            case "type":
                columns = [knext.Column(knext.int32(), "a")]
            case "zoned":
                columns = [knext.Column(knext.datetime(True, True, True), "a")]
            case "double":
                columns = columns * 2
            case "two":
                schema = knext.Schema.from_columns(columns)
                return schema, schema
            case "text":
                return "a schema"
        return knext.Schema.from_columns(columns)

    def execute(self, ctx):
        return self.outcome(ctx)

    def outcome(self, ctx):
        import pyarrow as pa

        made = {
            "plain": lambda: pa.table({"a": [1, 2]}),
            "empty": lambda: pa.table({"a": pa.array([], pa.int64())}),
            "nothing": lambda: pa.table({}),
            "surrogate": lambda: pa.table({"a": ["\ud800"]}),
            "nulls": lambda: pa.table({"a": pa.nulls(2)}),
            "ids": lambda: pa.table({"<RowID>": ["x", "y"], "a": [1, 2]}),
            "late ids": lambda: pa.table({"a": [1, 2], "<RowID>": ["x", "y"]}),
            "same ids": lambda: pa.table({"<RowID>": ["x", "x"], "a": [1, 2]}),
            "same names": lambda: pa.table([[1], [2]], names=["a", "a"]),
            "everything": lambda: everything(pa),
            "zoned": lambda: pa.table({"a": pa.array([MOMENT], pa.timestamp("us", "UTC"))}),
            "chunks": lambda: pa.table({"a": pa.chunked_array([[1, 2], [3, 4], [5]])}),
        }
        match self.kind:
            case "batches":
                return in_batches([1, 2], [3, 4], [5])
            case "no batches":
                return in_batches()
            case "no table":
                return "a table"
            case "none":
                return None
            case "two":
                table = knext.Table.from_pyarrow(pa.table({"a": [1]}))
                return table, table
            case "json":
                return knext.Table.from_pyarrow(pa.table({"a": column_of(dict, [{"x": [1]}, None])}))
        return knext.Table.from_pyarrow(made[self.kind](), row_ids=self.row_ids)


MOMENT = dt.datetime(2024, 2, 29, 12, 30, 15, 123456, tzinfo=dt.UTC)


def in_batches(*parts):
    import pyarrow as pa

    out = knext.BatchOutputTable.create(row_ids="keep")
    for number, part in enumerate(parts):
        out.append(pa.table({"id": [f"{number} {value}" for value in part], "a": part}))
    return out


def everything(pa):
    plain = MOMENT.replace(tzinfo=None)
    return pa.table(
        {
            "int": pa.array([1, None], pa.int32()),
            "long": pa.array([2**40, None], pa.int64()),
            "double": [0.5, None],
            "bool": [True, None],
            "string": ["ä", None],
            "ints": pa.array([[1, None], None], pa.list_(pa.int32())),
            "longs": [[1, 2], None],
            "doubles": [[0.5], None],
            "bools": [[True], None],
            "strings": [["a", None], None],
            "date": [plain.date(), None],
            "time": [plain.time(), None],
            "moment": pa.array([plain, None], pa.timestamp("us")),
            "before": pa.array([plain.replace(year=1912), None], pa.timestamp("us")),
            "zoned": pa.array([MOMENT, None], pa.timestamp("us", "UTC")),
            "duration": column_of(dt.timedelta, [dt.timedelta(days=-1, microseconds=5), None]),
        }
    )


def column_of(value_type, values):
    import pyarrow as pa

    dtype = knext.logical(value_type).to_pyarrow()
    return pa.ExtensionArray.from_storage(
        dtype, pa.array([dtype.encode(v) for v in values], dtype.storage_type)
    )


@knext.node("Read", knext.NodeType.SINK, "icons/icon.png", category)
@knext.input_table("In", "a table")
@knext.output_table("Out", "what was seen")
class Read:
    """Looks at a table.

    In several ways.
    """

    column = knext.ColumnParameter("Column", "one", column_filter=lambda c: c.ktype == knext.string())

    def configure(self, ctx, schema):
        self.column = self.column or schema.column_names[-1]
        return

    def execute(self, ctx, table):
        data = table.to_pyarrow()
        names = table.column_names
        rows = {
            "schema": [[str(c.ktype), c.name, c.metadata] for c in table.schema],
            "names": data.schema.names,
            "types": [str(t) for t in data.schema.types if not hasattr(t, "logical_type")],
            "values": [str(v) for v in data.column(names[-1]).to_pylist()],
            "selected": table[names[:1]].to_pyarrow().schema.names,
            "rows": table.num_rows,
            "column": self.column,
            "type of one": str(table.schema[names[-1]].ktype),
        }
        return as_table(list(rows), [json.dumps(value) for value in rows.values()])
