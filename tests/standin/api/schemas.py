"""Schemas, columns, their types and tables: how they are made, taken apart, compared and written."""

import datetime as dt

from tests.standin.api.tools import abc, made, names, raises


def factory(name):
    return {"logical_type": f'{{"value_factory_class":"org.knime.core.data.v2.{name}ValueFactory"}}'}


def written(*kinds):
    """The schema's document, for types made of the API."""

    def case(knext, _):
        columns = [knext.Column(kind(knext), f"c{i}") for i, kind in enumerate(kinds)]
        document = knext.Schema.from_columns(columns).serialize()
        return {
            "specs": list(document["schema"]["specs"])[1:],
            "traits": list(document["schema"]["traits"])[1:],
        }

    return case


SCHEMAS = {
    "of a generator": (lambda k, _: k.Schema.from_columns(c for c in abc(k)), raises(TypeError)),
    "of a schema": (lambda k, _: k.Schema.from_columns(abc(k)), raises(TypeError)),
    "of columns that are views": (lambda k, _: k.Schema.from_columns([abc(k)["a"]]), raises(TypeError)),
    "of one column": (lambda k, _: k.Schema.from_columns(abc(k)["a"].get()).column_names, ["a"]),
    "of nothing": (lambda k, _: k.Schema.from_columns([]).num_columns, 0),
    "unknown column": (lambda k, _: abc(k)["x"].get(), raises(IndexError)),
    "unknown column in a list": (lambda k, _: names(abc(k)[["a", "x"]]), raises(IndexError)),
    "columns in another order": (lambda k, _: names(abc(k)[["c", "a"]]), ["c", "a"]),
    "column by column": (lambda k, _: [column.name for column in abc(k)], ["a", "b", "c"]),
    "name in a schema": (lambda k, _: ["b" in abc(k), "x" in abc(k), 5 in abc(k)], [True, False, False]),
    "column in a schema": (lambda k, _: k.Column(k.int32(), "b") in abc(k), True),
    "equal": (lambda k, _: [abc(k) == abc(k), abc(k) == 5], [True, False]),
    "equal columns": (
        lambda k, _: [
            k.Column(k.int32(), "a") == k.Column(k.int32(), "a"),
            k.Column(k.int32(), "a") == k.Column(k.int32(), "a", {}),
        ],
        [True, False],
    ),
    "column equal to a text": (lambda k, _: k.Column(k.int32(), "a") == "a", raises(AttributeError)),
    "column as a key": (lambda k, _: {k.Column(k.int32(), "a"): 1}, raises(TypeError)),
    "schema as a key": (lambda k, _: {abc(k): 1}, raises(TypeError)),
    "column with a blank name": (lambda k, _: k.Column(k.string(), "\t "), raises(ValueError)),
    "column with a number as name": (lambda k, _: k.Column(k.string(), 1), raises(TypeError)),
    "column of a text": (lambda k, _: k.Column("string", "a"), raises(TypeError)),
    "members of a view": (
        lambda k, _: [abc(k)["a"].name, str(abc(k)["a"].ktype)],
        ["a", "Number (Long Integer)"],
    ),
    "unknown member of a view": (lambda k, _: abc(k)["a"].nonsense, raises(AttributeError)),
}
DOCUMENTS = {
    "primitives": (
        written(lambda k: k.int32(), lambda k: k.null()),
        {
            "specs": ["int", "void"],
            "traits": [
                {"traits": factory("value.Int"), "type": "simple"},
                {"traits": factory("value.Void"), "type": "simple"},
            ],
        },
    ),
    "lists": (
        written(lambda k: k.list_(k.double()), lambda k: k.list_(k.list_(k.string()))),
        {
            "specs": [
                {"type": "list", "inner_type": "double"},
                {"type": "list", "inner_type": {"type": "list", "inner_type": "string"}},
            ],
            "traits": [
                {
                    "traits": factory("value.DoubleList"),
                    "type": "list",
                    "inner": {"traits": {}, "type": "simple"},
                },
                {
                    "traits": factory("value.List"),
                    "type": "list",
                    "inner": {
                        "traits": factory("value.StringList"),
                        "type": "list",
                        "inner": {"traits": {}, "type": "simple"},
                    },
                },
            ],
        },
    ),
    "struct": (
        written(lambda k: k.struct(k.int32())),
        {
            "specs": [{"type": "struct", "inner_types": ["int"]}],
            "traits": [{"traits": {}, "type": "struct", "inner": [{"traits": {}, "type": "simple"}]}],
        },
    ),
    "date": (
        written(lambda k: k.logical(dt.date)),
        {"specs": ["long"], "traits": [{"traits": factory("time.LocalDate"), "type": "simple"}]},
    ),
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
TYPES = {
    "different types": (
        lambda k, _: [k.int32() == k.int64(), k.list_(k.int32()) == k.int32()],
        [False, False],
    ),
    "as text": (
        lambda k, _: [
            str(kind)
            for kind in (
                k.list_(k.struct(k.int32(), k.list_(k.bool_()))),
                *(k.double(), k.string(), k.null(), k.int64()),
                *(k.datetime(), k.datetime(timezone=True), k.datetime(time=False), k.datetime(date=False)),
                *(k.logical(dt.datetime), k.logical(dt.timedelta)),
                k.LogicalType('{"value_factory_class":"x"}', k.int32()),
            )
        ],
        [
            "List (Collection of: struct<Number (Integer), List (Collection of: Boolean)>)",
            *("Number (Float)", "String", "null", "Number (Long Integer)"),
            *("Local Date Time", "Zoned Date Time", "Local Date", "Local Time"),
            *("Zoned Date Time", "Duration"),
            'extension<logical={"value_factory_class":"x"}, storage=Number (Integer)>',
        ],
    ),
    "as keys": (lambda k, _: {k.list_(k.string()): 1, k.string(): 2}[k.list_(k.string())], 1),
    "struct of a class": (lambda k, _: k.struct(k.string(), str), raises(TypeError)),
    "logical of an unknown class": (lambda k, _: k.logical(Exception), raises(TypeError)),
    "neither date nor time": (lambda k, _: k.datetime(False, False), raises(ValueError)),
    "date without time zone": (lambda k, _: k.datetime(timezone=True, time=False), raises(ValueError)),
    "logical": (
        lambda k, _: [k.logical(dt.date).logical_type, str(k.logical(dt.date).storage_type)],
        [factory("time.LocalDate")["logical_type"], "Number (Long Integer)"],
    ),
    "logical is equal": (
        lambda k, _: [k.logical(dt.date) == k.datetime(time=False), k.logical(dt.date) == k.int64()],
        [True, False],
    ),
    "unknown for Arrow": (lambda k, _: k.LogicalType("x", k.int32()).to_pyarrow(), raises(ValueError)),
    "for Arrow": (lambda k, _: str(k.logical(dt.date).to_pyarrow().storage_type), "int64"),
}
TABLES = {
    "size": (lambda _, t: [t.num_rows, t.num_columns], [3, 3]),
    "column by name": (lambda _, t: names(t["b"]), ["b"]),
    "columns in another order": (lambda _, t: names(t[["c", "a"]]), ["c", "a"]),
    "unknown column": (lambda _, t: t["x"].get(), raises(IndexError)),
    "schema": (
        lambda _, t: [str(c.ktype) for c in t.schema],
        ["Number (Long Integer)", "String", "Number (Float)"],
    ),
    "made by hand": (lambda k, _: k.Table(), raises(TypeError)),
    "batches made by hand": (lambda k, _: k.BatchOutputTable(), raises(RuntimeError)),
}
DECLARED = {
    "category of no module": (
        lambda k, _: eval('declare("/community/", "l", "n", "d", "i")', {"declare": k.category}),
        "/community/l",
    ),
    "spec that is not written": (
        lambda k, _: made(k.PortObjectSpec, deserialize=classmethod(lambda cls, data: cls()))(),
        raises(TypeError),
    ),
    "spec that is not read": (lambda k, _: made(k.PortObjectSpec, serialize=dict)(), raises(TypeError)),
    "object that is not written": (
        lambda k, _: made(k.PortObject, deserialize=classmethod(lambda cls, spec, data: cls(spec)))(None),
        raises(TypeError),
    ),
    "ports by decorator and attribute": (
        lambda k, _: k.input_table("P", "p")(type("N", (), {"input_ports": []})),
        raises(ValueError),
    ),
    "ports in their order": (
        lambda k, _: [
            port.name
            for port in k.input_table("1", "")(
                k.input_table("2", "", optional=True)(type("N", (), {}))
            ).input_ports
        ],
        ["1", "2"],
    ),
    "credential": (
        lambda k, _: k.CredentialPortObjectSpec.deserialize({"data": "x"}).serialize(),
        {"data": "x"},
    ),
    "no credential": (lambda k, _: k.CredentialPortObjectSpec.deserialize({}).serialize(), {"data": None}),
    "node types": (
        lambda k, _: [kind.value for kind in k.NodeType],
        ["Source", "Sink", "Learner", "Predictor", "Manipulator", "Visualizer", "Other"],
    ),
    "invalid parameters of nothing": (lambda k, _: k.InvalidParametersError(), raises(TypeError)),
}
