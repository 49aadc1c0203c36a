"""Tables as pandas has them. pandas is not installed with this project; both hosts run these where it is."""

import datetime as dt

from tests.headless.api.tools import DOCUMENTS, raises


def frame(columns=None, **options):
    import pandas as pd

    return pd.DataFrame({"a": [1, 2]} if columns is None else columns, **options)


def shown(made):
    """A table's columns as texts, the RowIDs first, and the types of the others."""
    data = made.to_pyarrow()
    columns = [[str(value) for value in column.to_pylist()] for column in data.columns]
    return [data.schema.names, columns, [str(column.ktype) for column in made.schema]]


def made(columns=None, row_ids="auto", sentinel=None, **options):
    """The table of a frame, whose columns may be functions of pandas."""

    def case(knext, given):
        import pandas as pd

        known = (
            {n: c(pd) if callable(c) else c for n, c in columns.items()}
            if isinstance(columns, dict)
            else columns
        )
        kept = {n: o(pd) if callable(o) else o for n, o in options.items()}
        return shown(knext.Table.from_pandas(frame(known, **kept), row_ids=row_ids, sentinel=sentinel))

    return case


def read(columns, sentinel=None):
    """A table's frame: types, index and values."""

    def case(knext, given):
        import pyarrow as pa

        known = {name: make(pa) if callable(make) else make for name, make in columns.items()}
        data = knext.Table.from_pyarrow(pa.table(known)).to_pandas(sentinel)
        values = {name: [str(value) for value in data[name]] for name in data.columns}
        return [[str(kind) for kind in data.dtypes], data.index.name, list(data.index), values]

    return case


def dates(pa):
    return pa.array([dt.date(2024, 2, 29), None, dt.date(2025, 1, 1)])


def logical(use):
    """What pandas makes of a column of dates."""

    def case(knext, given):
        import pandas as pd
        import pyarrow as pa

        data = knext.Table.from_pyarrow(pa.table({"a": dates(pa), "n": [1, 2, 3]})).to_pandas()
        found = use(data, pd)
        if isinstance(found, pd.DataFrame):
            return shown(knext.Table.from_pandas(found))
        return [str(value) for value in found] if isinstance(found, (list, pd.Series)) else str(found)

    return case


def changed(data, pd):
    data.loc[data.index[1], "a"] = dt.date(2000, 1, 1)
    return data


def changed_all(data, pd):
    data["a"] = [dt.date(2000, 1, 1), None, None]
    return data


def added(data, pd):
    data["b"] = data["a"].apply(lambda value: value is None)
    data["c"] = data["n"] * 0.5
    return data


def typed(kind, values):
    """A column to which the node gives a type."""

    def case(knext, given):
        import pandas as pd

        column = pd.Series(values, dtype=knext.logical(kind).to_pandas())
        return shown(knext.Table.from_pandas(pd.DataFrame({"a": column})))

    return case


def appended(*frames, row_ids="generate"):
    def case(knext, given):
        out = knext.BatchOutputTable.create(row_ids)
        for columns in frames:
            out.append(frame(columns))
        return out.num_batches

    return case


ZONED = dt.datetime(2024, 2, 29, 12, 30, tzinfo=dt.UTC)
FRAMES = {
    "numbers": (made(), [["<RowID>", "a"], [["Row0", "Row1"], ["1", "2"]], ["Number (Long Integer)"]]),
    "texts": (made({"a": ["x", None]}), [["<RowID>", "a"], [["Row0", "Row1"], ["x", "None"]], ["String"]]),
    "texts of pandas": (
        made({"a": lambda pd: pd.array(["x", None], dtype="string")}),
        [["<RowID>", "a"], [["Row0", "Row1"], ["x", "None"]], ["String"]],
    ),
    "whole numbers of pandas": (
        made({"a": lambda pd: pd.array([1, None], dtype="Int32")}),
        [["<RowID>", "a"], [["Row0", "Row1"], ["1", "None"]], ["Number (Integer)"]],
    ),
    "booleans": (
        made({"a": [True, False], "b": lambda pd: pd.array([True, None], dtype="boolean")}),
        [
            ["<RowID>", "a", "b"],
            [["Row0", "Row1"], ["True", "False"], ["True", "None"]],
            ["Boolean", "Boolean"],
        ],
    ),
    "numbers with gaps": (
        made({"a": [0.5, None]}),
        [["<RowID>", "a"], [["Row0", "Row1"], ["0.5", "None"]], ["Number (Float)"]],
    ),
    "nothing": (
        made({"a": [None, None]}),
        [["<RowID>", "a"], [["Row0", "Row1"], ["None", "None"]], ["null"]],
    ),
    "lists": (
        made({"a": [["x"], None]}),
        [["<RowID>", "a"], [["Row0", "Row1"], ["['x']", "None"]], ["List (Collection of: String)"]],
    ),
    "categories": (
        made({"a": lambda pd: pd.Categorical(["x", "y", "x"])}),
        [["<RowID>", "a"], [["Row0", "Row1", "Row2"], ["x", "y", "x"]], ["String"]],
    ),
    "dates": (
        made({"a": [dt.date(2024, 2, 29), None]}),
        [["<RowID>", "a"], [["Row0", "Row1"], ["2024-02-29", "None"]], ["Local Date"]],
    ),
    "times": (
        made({"a": [dt.time(12, 30), None]}),
        [["<RowID>", "a"], [["Row0", "Row1"], ["12:30:00", "None"]], ["Local Time"]],
    ),
    "moments": (
        made({"a": [dt.datetime(2024, 2, 29, 12, 30), None]}),
        [["<RowID>", "a"], [["Row0", "Row1"], ["2024-02-29 12:30:00", "None"]], ["Local Date Time"]],
    ),
    "moments as objects": (
        made({"a": lambda pd: pd.Series([dt.datetime(2024, 2, 29), None], dtype=object)}),
        [["<RowID>", "a"], [["Row0", "Row1"], ["2024-02-29 00:00:00", "None"]], ["Local Date Time"]],
    ),
    "zoned moments": (
        made({"a": [ZONED, None]}),
        [["<RowID>", "a"], [["Row0", "Row1"], ["2024-02-29 12:30:00+00:00", "None"]], ["Zoned Date Time"]],
    ),
    "zoned moments as objects": (
        made({"a": lambda pd: pd.Series([None, ZONED], dtype=object)}),
        [["<RowID>", "a"], [["Row0", "Row1"], ["None", "2024-02-29 12:30:00+00:00"]], ["Zoned Date Time"]],
    ),
    "durations": (
        made({"a": [dt.timedelta(days=1, seconds=2), None]}),
        [["<RowID>", "a"], [["Row0", "Row1"], ["1 day, 0:00:02", "None"]], ["Duration"]],
    ),
    "durations as objects": (
        made({"a": lambda pd: pd.Series([dt.timedelta(1)], dtype=object)}),
        [["<RowID>", "a"], [["Row0"], ["1 day, 0:00:00"]], ["Duration"]],
    ),
    "unsigned": (made({"a": lambda pd: pd.array([1], dtype="uint8")}), raises(ValueError)),
    "bytes": (made({"a": [b"x"]}), raises(ValueError)),
    "names that are numbers": (
        made({1: [1], 2.5: [2]}),
        [
            ["<RowID>", "1.0", "2.5"],
            [["Row0"], ["1"], ["2"]],
            ["Number (Long Integer)", "Number (Long Integer)"],
        ],
    ),
    "RowIDs of an index": (
        made(index=["p", "q"]),
        [["<RowID>", "a"], [["p", "q"], ["1", "2"]], ["Number (Long Integer)"]],
    ),
    "RowIDs of numbers": (
        made(index=[5, 7]),
        [["<RowID>", "a"], [["Row5", "Row7"], ["1", "2"]], ["Number (Long Integer)"]],
    ),
    "RowIDs of numbers kept": (
        made(row_ids="keep", index=[5, 7]),
        [["<RowID>", "a"], [["5", "7"], ["1", "2"]], ["Number (Long Integer)"]],
    ),
    "RowIDs of halves": (
        made(index=[0.5, 1.5]),
        [["<RowID>", "a"], [["0.5", "1.5"], ["1", "2"]], ["Number (Long Integer)"]],
    ),
    "RowIDs of dates": (
        made(index=lambda pd: pd.to_datetime(["2024-02-29", "2024-03-01"])),
        [["<RowID>", "a"], [["2024-02-29", "2024-03-01"], ["1", "2"]], ["Number (Long Integer)"]],
    ),
    "RowIDs generated": (
        made(row_ids="generate", index=["p", "q"]),
        [["<RowID>", "a"], [["Row0", "Row1"], ["1", "2"]], ["Number (Long Integer)"]],
    ),
    "RowIDs of another kind": (made(row_ids="other"), raises(ValueError)),
    "no rows": (made({"a": []}), [["<RowID>", "a"], [[], []], ["Number (Float)"]]),
    "no rows of a type": (
        made({"a": lambda pd: pd.Series([], dtype="int64")}),
        [["<RowID>", "a"], [[], []], ["Number (Long Integer)"]],
    ),
    "no columns": (made({}), [["<RowID>"], [[]], []]),
    "no columns, kept": (made({}, row_ids="keep"), raises(IndexError)),
    "missing by a number": (
        made({"a": [1, 2]}, sentinel=1),
        [["<RowID>", "a"], [["Row0", "Row1"], ["None", "2"]], ["Number (Long Integer)"]],
    ),
    "of a list": (lambda k, g: k.Table.from_pandas([1]), raises(ValueError)),
    "of Arrow": (lambda k, g: k.Table.from_pandas(g.input.to_pyarrow()), raises(ValueError)),
    "of a series": (lambda k, g: k.Table.from_pandas(frame()["a"]), raises(ValueError)),
    "mixed": (made({"a": [1, "x"]}), {"raised": "ArrowInvalid"}),
    "read": (
        read({"a": [1, 2], "b": ["x", None], "c": [0.5, None], "d": [True, False]}),
        [
            ["int64", "string", "float64", "bool"],
            "<RowID>",
            ["Row0", "Row1"],
            {"a": ["1", "2"], "b": ["x", "<NA>"], "c": ["0.5", "nan"], "d": ["True", "False"]},
        ],
    ),
    "read with gaps": (
        read({"a": [1, None], "b": [True, None]}),
        [["float64", "object"], "<RowID>", ["Row0", "Row1"], {"a": ["1.0", "nan"], "b": ["True", "None"]}],
    ),
    "read with gaps filled": (
        read({"a": [1, None]}, "max"),
        [["int64"], "<RowID>", ["Row0", "Row1"], {"a": ["1", "9223372036854775807"]}],
    ),
    "read lists": (
        read({"a": [["x", None], None]}),
        [["object"], "<RowID>", ["Row0", "Row1"], {"a": ["['x' None]", "None"]}],
    ),
    "read dates": (
        read({"a": dates}),
        DOCUMENTS["frame, read dates"],
    ),
    "read moments": (
        read({"a": [dt.datetime(2024, 2, 29, 12), None], "b": [dt.timedelta(1), None]}),
        DOCUMENTS["frame, read moments"],
    ),
    "read nothing": (
        read({"a": lambda pa: pa.nulls(2)}),
        [["object"], "<RowID>", ["Row0", "Row1"], {"a": ["None", "None"]}],
    ),
    "read no rows": (read({"a": lambda pa: pa.array([], pa.int32())}), [["int32"], "<RowID>", [], {"a": []}]),
    "read the input": (
        lambda k, g: [str(kind) for kind in g.input.to_pandas().dtypes],
        ["int64", "string", "float64"],
    ),
    "read a batch": (lambda k, g: [list(part.to_pandas().shape) for part in g.input.batches()], [[3, 3]]),
    "read a view": (
        lambda k, g: [list(g.input[["a"], :2].to_pandas().shape), list(g.input["b"].to_pandas().columns)],
        [[2, 1], ["b"]],
    ),
    "there and back": (
        lambda k, g: shown(k.Table.from_pandas(g.input.to_pandas())),
        [
            ["<RowID>", "a", "b", "c"],
            [["Row0", "Row1", "Row2"], ["1", "2", "3"], ["x", "y", "z"], ["0.5", "1.5", "None"]],
            ["Number (Long Integer)", "String", "Number (Float)"],
        ],
    ),
    "cell": (logical(lambda data, pd: data["a"].iloc[0]), "2024-02-29"),
    "last cell": (logical(lambda data, pd: data["a"].iloc[-1]), "2025-01-01"),
    "missing cell": (logical(lambda data, pd: data["a"].iloc[1]), "None"),
    "missing cells": (logical(lambda data, pd: data["a"].isna()), ["False", "True", "False"]),
    "cells": (logical(lambda data, pd: list(data["a"])), ["2024-02-29", "None", "2025-01-01"]),
    "first cells": (logical(lambda data, pd: data["a"].head(2)), ["2024-02-29", "None"]),
    "cells by a condition": (
        logical(lambda data, pd: data[data["n"] != 2]),
        [
            ["<RowID>", "a", "n"],
            [["Row0", "Row2"], ["2024-02-29", "2025-01-01"], ["1", "3"]],
            ["Local Date", "Number (Long Integer)"],
        ],
    ),
    "cells that are there": (
        logical(lambda data, pd: data.dropna()),
        [
            ["<RowID>", "a", "n"],
            [["Row0", "Row2"], ["2024-02-29", "2025-01-01"], ["1", "3"]],
            ["Local Date", "Number (Long Integer)"],
        ],
    ),
    "cells in order": (
        logical(lambda data, pd: data.sort_values("n", ascending=False)),
        [
            ["<RowID>", "a", "n"],
            [["Row2", "Row1", "Row0"], ["2025-01-01", "None", "2024-02-29"], ["3", "2", "1"]],
            ["Local Date", "Number (Long Integer)"],
        ],
    ),
    "cells of a function": (
        logical(lambda data, pd: data["a"].apply(str)),
        ["2024-02-29", "None", "2025-01-01"],
    ),
    "rows twice": (
        logical(lambda data, pd: pd.concat([data, data], ignore_index=True)),
        DOCUMENTS["frame, rows twice"],
    ),
    "rows in another order": (
        logical(lambda data, pd: data.reindex(["Row2", "Row9"])),
        [
            ["<RowID>", "a", "n"],
            [["Row2", "Row9"], ["2025-01-01", "None"], ["3.0", "None"]],
            ["Local Date", "Number (Float)"],
        ],
    ),
    "cell changed": (
        logical(changed),
        [
            ["<RowID>", "a", "n"],
            [["Row0", "Row1", "Row2"], ["2024-02-29", "2000-01-01", "2025-01-01"], ["1", "2", "3"]],
            ["Local Date", "Number (Long Integer)"],
        ],
    ),
    "all cells changed": (
        logical(changed_all),
        [
            ["<RowID>", "a", "n"],
            [["Row0", "Row1", "Row2"], ["2000-01-01", "None", "None"], ["1", "2", "3"]],
            ["Local Date", "Number (Long Integer)"],
        ],
    ),
    "columns added": (
        logical(added),
        DOCUMENTS["frame, columns added"],
    ),
    "columns joined": (
        logical(lambda data, pd: data.merge(pd.DataFrame({"n": [3, 1], "x": ["p", "q"]}), on="n")),
        [
            ["<RowID>", "a", "n", "x"],
            [["Row0", "Row1"], ["2024-02-29", "2025-01-01"], ["1", "3"], ["q", "p"]],
            ["Local Date", "Number (Long Integer)", "String"],
        ],
    ),
    "as objects": (logical(lambda data, pd: data["a"].astype(object)), ["2024-02-29", "None", "2025-01-01"]),
    "copied": (
        logical(lambda data, pd: data.copy()),
        [
            ["<RowID>", "a", "n"],
            [["Row0", "Row1", "Row2"], ["2024-02-29", "None", "2025-01-01"], ["1", "2", "3"]],
            ["Local Date", "Number (Long Integer)"],
        ],
    ),
    "type given": (
        typed(dt.date, [dt.date(2024, 2, 29), None]),
        [["<RowID>", "a"], [["Row0", "Row1"], ["2024-02-29", "None"]], ["Local Date"]],
    ),
    "type given to nothing": (
        typed(dt.date, [None, None]),
        [["<RowID>", "a"], [["Row0", "Row1"], ["None", "None"]], ["Local Date"]],
    ),
    "type given to no rows": (typed(dt.date, []), [["<RowID>", "a"], [[], []], ["Local Date"]]),
    "type given to moments": (
        typed(dt.datetime, [ZONED, None]),
        [["<RowID>", "a"], [["Row0", "Row1"], ["2024-02-29 12:30:00+00:00", "None"]], ["Zoned Date Time"]],
    ),
    "batches": (appended({"a": [1, 2]}, {"a": [3]}), 2),
    "batches with an index": (appended({"a": [1, 2]}, row_ids="keep"), 1),
}
