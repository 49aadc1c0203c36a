"""Tables as a node gets them: their shape, columns, rows and views."""

from tests.standin.api.tools import names, raises


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
}
TABLES = {
    "shape": (lambda _, t: [list(t.shape), t.num_rows, t.num_columns], [[3, 3], 3, 3]),
    "first column": (lambda _, t: names(t[0]), ["a"]),
    "column by name": (lambda _, t: names(t["b"]), ["b"]),
    "first column from the end": (lambda _, t: t[-1].get(), raises(IndexError)),
    "columns in another order": (lambda _, t: names(t[["c", "a"]]), ["c", "a"]),
    "slice": (lambda _, t: names(t[1:]), ["b", "c"]),
    "column beyond": (lambda _, t: t[3], raises(IndexError)),
    "unknown column": (lambda _, t: t["x"].get(), raises(IndexError)),
    "last column in a list": (lambda _, t: t[[-1]].get(), raises(IndexError)),
    "half a column": (lambda _, t: t[0.5].get(), raises(IndexError)),
    "columns in a set": (lambda _, t: t[{"a"}].get(), raises(IndexError)),
    "column by column": (lambda _, t: [names(column) for column in t], [["a"], ["b"], ["c"]]),
    "name in a table": (lambda _, t: "a" in t, False),
    "append a table": (lambda _, t: t.append(t).get(), raises(NotImplementedError)),
    "schema": (
        lambda _, t: [str(c.ktype) for c in t.schema],
        ["Number (Long Integer)", "String", "Number (Float)"],
    ),
    "made by hand": (lambda k, _: k.Table(), raises(TypeError)),
    "batches made by hand": (lambda k, _: k.BatchOutputTable(), raises(RuntimeError)),
}
