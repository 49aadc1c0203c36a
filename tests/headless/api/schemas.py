"""Schemas and columns: how they are made, taken apart, compared, shown and written."""

import collections
import datetime as dt

from tests.headless.api.tools import DOCUMENTS, abc, key, names, raises


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


def read_again(knext, _):
    kinds = [
        knext.int32(),
        knext.list_(knext.string()),
        knext.logical(dt.date),
        knext.list_(knext.list_(knext.int64())),
    ]
    schema = knext.Schema.from_types(kinds, ["a", "b", "c", "d"], [{"x": 1}, None, None, None])
    again = knext.Schema.deserialize(schema.serialize())
    return [again == schema, again.column_names, again["a"].get().metadata, str(again["d"].ktype)]


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
    "of a class of its own": (derived, ["Own", "Own", "Own", False, "Own<\n\t>"]),
    "view in a schema": (lambda k, _: abc(k)["a"] in abc(k), False),
    "append a queue": (
        lambda k, _: names(abc(k).append(collections.deque([k.Column(k.string(), "d")])))[3:],
        ["d"],
    ),
    "what a view is of": (
        lambda k, _: [abc(k)[["a"]].delegate == abc(k), str(abc(k)[["a"]].operation)],
        [True, "ColumnSlicingOp(['a'])"],
    ),
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
    "append a column": (lambda k, _: names(abc(k).append(k.Column(k.string(), "d"))), ["a", "b", "c", "d"]),
    "append columns": (lambda k, _: names(abc(k).append([k.Column(k.string(), "d")]))[3:], ["d"]),
    "append a schema": (lambda k, _: names(abc(k).append(abc(k)))[3:], ["a", "b", "c"]),
    "append a view": (lambda k, _: names(abc(k).append(abc(k)[["b"]]))[3:], ["b"]),
    "append a view of a column": (lambda k, _: names(abc(k).append(abc(k)["b"]))[3:], ["b"]),
    "append views in a list": (lambda k, _: names(abc(k).append([abc(k)["b"]])), raises(TypeError)),
    "append a text": (lambda k, _: names(abc(k).append("d")), raises(TypeError)),
    "append a generator": (lambda k, _: names(abc(k).append(c for c in abc(k))), raises(TypeError)),
    "insert a column": (lambda k, _: names(abc(k).insert(k.Column(k.string(), "d"), 1))[:2], ["a", "d"]),
    "insert a schema": (lambda k, _: names(abc(k).insert(abc(k)[1:].get(), 0))[:3], ["b", "c", "a"]),
    "insert a list": (lambda k, _: abc(k).insert([k.Column(k.string(), "d")], 0), raises(AttributeError)),
    "remove a name": (lambda k, _: names(abc(k).remove("b")), ["a", "c"]),
    "remove names": (lambda k, _: names(abc(k).remove(["c", "a"])), ["b"]),
    "remove a number": (lambda k, _: names(abc(k).remove(0)), ["b", "c"]),
    "remove the last": (lambda k, _: abc(k).remove(-1), raises(IndexError)),
    "remove beyond": (lambda k, _: abc(k).remove(3), raises(IndexError)),
    "remove a stranger": (lambda k, _: abc(k).remove("x"), raises(ValueError)),
    "remove strangers": (lambda k, _: abc(k).remove(["a", "x"]), raises(ValueError)),
    "remove half": (lambda k, _: abc(k).remove(0.5), raises(TypeError)),
    "written with doubled names": (
        lambda k, _: abc(k).append(abc(k)).get().serialize(),
        raises(RuntimeError),
    ),
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
    "view shown": (
        lambda k, _: str(k.Schema.from_columns([])[:]),
        "ColumnarView<delegate=Schema<\n\t>, op=ColumnSlicingOp(slice(None, None, None))>",
    ),
    "view of a view shown": (
        lambda k, _: str(k.Schema.from_columns([])[:].append(k.Column(k.int32(), "a"))),
        "ColumnarView<delegate=ColumnarView<delegate=Schema<\n\t>,"
        " op=ColumnSlicingOp(slice(None, None, None))>, op=AppendOp(Column<'a', Number (Integer)>)>",
    ),
    "number in a view": (lambda k, _: abc(k)[["b", "c"]][1].name, "c"),
    "beyond a view": (lambda k, _: abc(k)[["b", "c"]][2], raises(IndexError)),
    "number of a view": (lambda k, _: abc(k)[1:].num_columns, 2),
    "insert into a view": (
        lambda k, _: names(abc(k)[1:].insert(k.Column(k.int32(), "n"), 0)),
        ["n", "b", "c"],
    ),
    "insert beyond": (lambda k, _: names(abc(k).insert(k.Column(k.int32(), "n"), 9)), ["a", "b", "c", "n"]),
    "insert from the end": (
        lambda k, _: names(abc(k).insert(k.Column(k.int32(), "n"), -1)),
        ["a", "b", "n", "c"],
    ),
    "remove from a view": (lambda k, _: names(abc(k)[1:].remove("b")), ["c"]),
    "remove nothing": (lambda k, _: names(abc(k).remove([])), ["a", "b", "c"]),
    "remove the same twice": (
        lambda k, _: names(abc(k).append(abc(k)).get().remove("a")),
        ["b", "c", "a", "b", "c"],
    ),
    "remove all of a name": (
        lambda k, _: names(abc(k).append(abc(k)).get().remove(["a"])),
        ["b", "c", "b", "c"],
    ),
    "remove true": (lambda k, _: names(abc(k).remove(True)), ["a", "c"]),
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
    "append none": (lambda k, _: names(abc(k).append(None)), raises(TypeError)),
    "append a tuple": (lambda k, _: names(abc(k).append((k.Column(k.int32(), "d"),))), ["a", "b", "c", "d"]),
    "append nothing": (lambda k, _: names(abc(k).append([])), ["a", "b", "c"]),
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
    "dictionary": (
        written(lambda k: k.string(key(k))),
        {"specs": ["string"], "traits": [{"traits": {"dict_encoding": "INT_KEY"}, "type": "simple"}]},
    ),
    "dictionary of blobs": (
        written(lambda k: k.blob(key(k, "LONG"))),
        {
            "specs": ["variable_width_binary"],
            "traits": [{"traits": {"dict_encoding": "LONG_KEY"}, "type": "simple"}],
        },
    ),
    "empty": (written(), {"specs": [], "traits": []}),
    "names": (lambda k, _: abc(k).serialize()["columnNames"], ["RowKey", "a", "b", "c"]),
    "parts": (
        lambda k, _: [type(part).__name__ for part in abc(k).serialize()["schema"].values()],
        ["tuple", "tuple"],
    ),
    "read without RowIDs": (read("int"), "Number (Integer)"),
    "read with a dictionary": (
        read("string", dict_encoding="INT_KEY", logical_type="x"),
        "String[dict_encoding=INT_KEY]",
    ),
    "read with a dictionary of numbers": (read("int", dict_encoding="INT_KEY"), "Number (Integer)"),
    "read of nothing": (
        lambda k, _: k.Schema.deserialize(
            {"schema": {"specs": [], "traits": []}, "columnNames": [], "columnMetaData": []}
        ),
        raises(IndexError),
    ),
    "metadata": (
        lambda k, _: k.Schema.from_columns(k.Column(k.int32(), "a", {"x": 1})).serialize()["columnMetaData"],
        [None, {"x": 1}],
    ),
    "read again": (
        read_again,
        [
            True,
            ["a", "b", "c", "d"],
            {"x": 1},
            "List (Collection of: List (Collection of: Number (Long Integer)))",
        ],
    ),
}
