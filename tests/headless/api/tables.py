"""Tables as a node gets them: their shape, columns, rows and views."""

from tests.headless.api.tools import names, raises


def written(parts, row_ids="keep"):
    """The number of batches of a table that is made of an input, or the error."""

    def case(knext, given):
        out = knext.BatchOutputTable.create(row_ids)
        for part in parts(given.input):
            out.append(part)
        return out.num_batches

    return case


#: In a running node.
BATCHES = {
    "whole input": (written(lambda table: [table]), raises(AttributeError)),
    "whole input with new RowIDs": (written(lambda table: [table], "generate"), raises(AttributeError)),
    "columns of the input": (written(lambda table: [table[["a"]].get()]), 1),
    "its batches": (written(lambda table: table.batches()), 1),
}
TABLES = {
    "shape": (lambda _, t: [list(t.shape), t.num_rows, t.num_columns], [[3, 3], 3, 3]),
    "metadata of some columns": (
        lambda _, t: [c.metadata for made in (t[["a"]], t[:, :1], t.remove(["b", "c"])) for c in made.schema],
        [{}] * 5,
    ),
    "batches": (lambda _, t: [batch.num_rows for batch in t.to_batches()], [3]),
    "number of batches": (lambda _, t: t.num_batches, 1),
    "batches of a view": (lambda _, t: list(t[["a"]].batches()), raises(RuntimeError)),
    "first column": (lambda _, t: names(t[0]), ["a"]),
    "column by name": (lambda _, t: names(t["b"]), ["b"]),
    "columns from the end": (
        lambda _, t: [names(t[-2]), names(t[-4]), names(t[-2, :1])],
        [["c"], ["a"], ["c"]],
    ),
    "first column from the end": (lambda _, t: t[-1].get(), raises(IndexError)),
    "columns in another order": (lambda _, t: names(t[["c", "a"]]), ["c", "a"]),
    "slice": (lambda _, t: names(t[1:]), ["b", "c"]),
    "rows": (lambda _, t: t[:, 1:].to_pyarrow().column(0).to_pylist(), ["Row1", "Row2"]),
    "every second row": (lambda _, t: t["b", ::2].to_pyarrow().column(1).to_pylist(), ["x", "z"]),
    "rows of a selection": (lambda _, t: t[["b"]][:, :1].to_pyarrow().column(1).to_pylist(), ["x"]),
    "one row": (lambda _, t: t["a", 1].get(), raises(IndexError)),
    "column beyond": (lambda _, t: t[3], raises(IndexError)),
    "unknown column": (lambda _, t: t["x"].get(), raises(IndexError)),
    "last column in a list": (lambda _, t: t[[-1]].get(), raises(IndexError)),
    "half a column": (lambda _, t: t[0.5].get(), raises(IndexError)),
    "columns in a set": (lambda _, t: t[{"a"}].get(), raises(IndexError)),
    "columns in a tuple": (lambda _, t: t[("a",), :].get(), raises(IndexError)),
    "column by column": (lambda _, t: [names(column) for column in t], [["a"], ["b"], ["c"]]),
    "name in a table": (lambda _, t: "a" in t, False),
    "without a column": (lambda _, t: [names(t.remove("b")), t.remove("b").num_rows], [["a", "c"], 3]),
    "rows without a column": (lambda _, t: t.remove("b")[:, :1].get(), raises(IndexError)),
    "append a table": (lambda _, t: t.append(t).get(), raises(NotImplementedError)),
    "schema": (
        lambda _, t: [str(c.ktype) for c in t.schema],
        ["Number (Long Integer)", "String", "Number (Float)"],
    ),
    "made by hand": (lambda k, _: k.Table(), raises(TypeError)),
    "batches made by hand": (lambda k, _: k.BatchOutputTable(), raises(RuntimeError)),
}
