"""Schemas and columns: how they are made, taken apart, compared, shown and written."""

import datetime as dt

from tests.standin.api.tools import DOCUMENTS, abc, names, raises


def written(*kinds):
    """The schema's document, for types made of the API."""

    def case(knext, _):
        made = [kind(knext) for kind in kinds]
        document = knext.Schema.from_types(made, [f"c{i}" for i in range(len(made))]).serialize()
        return {
            "specs": list(document["schema"]["specs"])[1:],
            "traits": list(document["schema"]["traits"])[1:],
        }

    return case


def changed(knext, _):
    """A column of a schema is the schema's own."""
    schema = abc(knext)
    schema["a"].get().name = "z"
    return schema.column_names


def read(spec, **traits):
    """A schema with one column, read from a document without RowIDs."""

    def case(knext, _):
        schema = {"specs": [spec], "traits": [{"type": "simple", "traits": traits}]}
        names = {"columnNames": ["a"], "columnMetaData": [None]}
        return str(knext.Schema.deserialize({"schema": schema, **names})["a"].ktype)

    return case


def derived(knext, _):
    own = type("Own", (knext.Schema,), {}).from_columns(list(abc(knext)))
    views = (own[["a"]], own[:1], own.append(own))
    return [*(type(view.get()).__name__ for view in views), own == abc(knext), str(own[:0].get())]


SCHEMAS = {
    "of a generator": (lambda k, _: k.Schema.from_columns(c for c in abc(k)), raises(TypeError)),
    "of a schema": (lambda k, _: k.Schema.from_columns(abc(k)), raises(TypeError)),
    "of a view": (lambda k, _: k.Schema.from_columns(abc(k)[["a"]]), raises(TypeError)),
    "of columns that are views": (lambda k, _: k.Schema.from_columns([abc(k)["a"]]), raises(TypeError)),
    "of values of a dictionary": (
        lambda k, _: k.Schema.from_types({"a": k.string()}.values(), ["a"]),
        raises(TypeError),
    ),
    "of too many numbers": (lambda k, _: k.Schema.from_types([k.string()] * 2, [1]), raises(TypeError)),
    "view in a schema": (lambda k, _: abc(k)["a"] in abc(k), False),
    "of one column": (lambda k, _: k.Schema.from_columns(abc(k)["a"].get()).column_names, ["a"]),
    "of nothing": (lambda k, _: k.Schema.from_columns([]).num_columns, 0),
    "of names in one text": (lambda k, _: k.Schema.from_types([k.string()] * 2, "ab"), raises(TypeError)),
    "of classes": (lambda k, _: str(k.Schema.from_types([dt.date], ["d"])["d"].ktype), "Local Date"),
    "of types and classes": (
        lambda k, _: k.Schema.from_types([k.string(), dt.date], ["a", "d"]),
        raises(TypeError),
    ),
    "of too few names": (lambda k, _: k.Schema.from_types([k.string()] * 2, ["a"]), raises(ValueError)),
    "of too much metadata": (
        lambda k, _: k.Schema.from_types([k.string()], ["a"], [None, None]),
        raises(ValueError),
    ),
    "last column": (lambda k, _: abc(k)[-1].name, "c"),
    "last column in a list": (lambda k, _: names(abc(k)[[-1]]), raises(IndexError)),
    "column beyond": (lambda k, _: abc(k)[3], raises(IndexError)),
    "column beyond in a list": (lambda k, _: names(abc(k)[[3]]), raises(IndexError)),
    "unknown column": (lambda k, _: abc(k)["x"].get(), raises(IndexError)),
    "unknown column in a list": (lambda k, _: names(abc(k)[["a", "x"]]), raises(IndexError)),
    "half a column in a list": (lambda k, _: names(abc(k)[[0.5]]), raises(IndexError)),
    "columns in a tuple": (lambda k, _: names(abc(k)["a", "b"]), raises(TypeError)),
    "columns in another order": (lambda k, _: names(abc(k)[["c", "a"]]), ["c", "a"]),
    "columns by number": (lambda k, _: names(abc(k)[[2, 0]]), ["c", "a"]),
    "slice": (lambda k, _: names(abc(k)[::2]), ["a", "c"]),
    "slice of a selection": (lambda k, _: names(abc(k)[["c", "b"]][1:]), ["b"]),
    "column by column": (lambda k, _: [column.name for column in abc(k)[["b", "a"]]], ["b", "a"]),
    "name in a schema": (lambda k, _: ["b" in abc(k), "x" in abc(k), 5 in abc(k)], [True, False, False]),
    "name in a view": (lambda k, _: "b" in abc(k)[["a", "b"]], raises(AttributeError)),
    "equal to a view": (lambda k, _: [abc(k) == abc(k)[:], abc(k)[:] == abc(k)], [False, True]),
}
COLUMNS = {
    "shown": (
        lambda k, _: [
            str(k.Column(k.int32(), "a")),
            str(k.Column(k.int32(), "a", {})),
            str(k.Column(k.int32(), "a", {"x": 1})),
        ],
        [
            "Column<'a', Number (Integer)>",
            "Column<'a', Number (Integer), {}>",
            "Column<'a', Number (Integer), {'x': 1}>",
        ],
    ),
    "schema shown": (
        lambda k, _: str(abc(k)),
        "Schema<\n\tColumn<'a', Number (Long Integer)>,\n\tColumn<'b', String>,"
        "\n\tColumn<'c', Number (Float)>>",
    ),
    "no columns shown": (lambda k, _: str(k.Schema.from_columns([])), "Schema<\n\t>"),
    "equal": (
        lambda k, _: [
            k.Column(k.int32(), "a") == k.Column(k.int32(), "a"),
            k.Column(k.int32(), "a") == k.Column(k.int32(), "a", {}),
        ],
        [True, False],
    ),
    "equal to a text": (lambda k, _: k.Column(k.int32(), "a") == "a", raises(AttributeError)),
    "as a key": (lambda k, _: {k.Column(k.int32(), "a"): 1}, raises(TypeError)),
    "in a schema": (lambda k, _: k.Column(k.int32(), "b") in abc(k), True),
    "blank": (lambda k, _: k.Column(k.int32(), "\t "), raises(ValueError)),
    "spaces": (lambda k, _: k.Column(k.int32(), " a ").name, " a "),
    "changed": (changed, ["z", "b", "c"]),
    "type of a view": (
        lambda k, _: [abc(k)["a"].name, str(abc(k)["a"].ktype)],
        ["a", "Number (Long Integer)"],
    ),
    "unknown member of a view": (lambda k, _: abc(k)["a"].nonsense, raises(AttributeError)),
    "view of a column compared": (lambda k, _: abc(k)["a"] == k.Column(k.int64(), "a"), True),
    "number in a view": (lambda k, _: abc(k)[["b", "c"]][1].name, "c"),
    "beyond a view": (lambda k, _: abc(k)[["b", "c"]][2], raises(IndexError)),
    "number of a view": (lambda k, _: abc(k)[1:].num_columns, 2),
    "types as a tuple": (lambda k, _: k.Schema((k.int32(),), ("a",)).column_names, ["a"]),
    "types of a class of types": (lambda k, _: k.Schema([k.PrimitiveType], ["a"]), raises(TypeError)),
    "names that are numbers": (lambda k, _: k.Schema([k.int32()], [1]), raises(TypeError)),
    "metadata in a set": (lambda k, _: k.Schema([k.int32()], ["a"], {None}), raises(TypeError)),
    "types that are none": (lambda k, _: k.Schema(None, ["a"]), raises(TypeError)),
    "schemas": (
        lambda k, _: [abc(k) == abc(k), abc(k) == abc(k)[:2].get(), abc(k) == 5],
        [True, False, False],
    ),
    "schema as a key": (lambda k, _: {abc(k): 1}, raises(TypeError)),
    "slice backwards": (lambda k, _: names(abc(k)[::-1]), ["c", "b", "a"]),
    "slice of nothing": (lambda k, _: names(abc(k)[5:]), []),
    "first from the end beyond": (lambda k, _: abc(k)[-4].name, "c"),
    "none as a name": (lambda k, _: abc(k)[None].get(), raises(TypeError)),
    "half a number": (lambda k, _: abc(k)[0.5].get(), raises(TypeError)),
}
WRITTEN = {
    "primitives": (
        written(lambda k: k.int32(), lambda k: k.bool_(), lambda k: k.null()),
        DOCUMENTS["document, primitives"],
    ),
    "lists": (
        written(lambda k: k.list_(k.double()), lambda k: k.list_(k.list_(k.string()))),
        DOCUMENTS["document, lists"],
    ),
    "blob": (
        written(lambda k: k.blob()),
        {"specs": ["variable_width_binary"], "traits": [{"traits": {}, "type": "simple"}]},
    ),
    "struct": (
        written(lambda k: k.struct(k.int32(), k.string())),
        DOCUMENTS["document, struct"],
    ),
    "date": (
        written(lambda k: k.logical(dt.date)),
        DOCUMENTS["document, date"],
    ),
    "empty": (written(), {"specs": [], "traits": []}),
    "names": (lambda k, _: abc(k).serialize()["columnNames"], ["RowKey", "a", "b", "c"]),
    "parts": (
        lambda k, _: [type(part).__name__ for part in abc(k).serialize()["schema"].values()],
        ["tuple", "tuple"],
    ),
    "metadata": (
        lambda k, _: k.Schema.from_columns(k.Column(k.int32(), "a", {"x": 1})).serialize()["columnMetaData"],
        [None, {"x": 1}],
    ),
}
