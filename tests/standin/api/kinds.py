"""Types of columns."""

import datetime as dt
import warnings

from tests.standin.api.parameters import Plain
from tests.standin.api.tools import raises


def zoned_time(knext, _):
    from knime.types.builtin import LocalTimeValueFactory

    with warnings.catch_warnings(record=True) as shown:
        warnings.simplefilter("always")
        stored = LocalTimeValueFactory().encode(dt.time(1, 2, tzinfo=dt.UTC))
    return [stored, [warning.category.__name__ for warning in shown]]


def path(knext):
    from knime.types.builtin import FSLocationValue

    value = FSLocationValue("RELATIVE", "knime.workflow", "../data.csv")
    return [str(value), value.to_dict(), str(knext.logical(FSLocationValue))]


FACTORIES = {
    "time with a zone": (zoned_time, [3_720_000_000_000, ["UserWarning"]]),
}
TYPES = {
    "one type of whole numbers": (lambda k, _: k.int32() is k.int32(), True),
    "different types": (
        lambda k, _: [k.int32() == k.int64(), k.list_(k.int32()) == k.int32()],
        [False, False],
    ),
    "as text": (
        lambda k, _: str(k.list_(k.struct(k.int32(), k.list_(k.bool_())))),
        "List (Collection of: struct<Number (Integer), List (Collection of: Boolean)>)",
    ),
    "as keys": (lambda k, _: {k.list_(k.string()): 1, k.string(): 2}[k.list_(k.string())], 1),
    "list of a class": (lambda k, _: k.list_(int), raises(TypeError)),
    "struct of a class": (lambda k, _: k.struct(k.string(), str), raises(TypeError)),
    "primitive of a text": (lambda k, _: k.PrimitiveType("INT"), raises(TypeError)),
    "abstract type": (lambda k, _: k.KnimeType(), raises(TypeError)),
    "logical of an unknown class": (lambda k, _: k.logical(Plain), raises(TypeError)),
    "logical of a text": (lambda k, _: k.logical("datetime.date"), raises(TypeError)),
    "column of a class": (lambda k, _: str(k.Column(dt.time, "t").ktype), "Local Time"),
    "column of an unknown class": (lambda k, _: k.Column(int, "a"), raises(TypeError)),
    "column of a text": (lambda k, _: k.Column("string", "a"), raises(TypeError)),
    "column without a name": (lambda k, _: k.Column(k.string(), ""), raises(ValueError)),
    "column with a number as name": (lambda k, _: k.Column(k.string(), 1), raises(TypeError)),
    "date without time zone": (lambda k, _: k.datetime(timezone=True, time=False), raises(ValueError)),
    "neither date nor time": (lambda k, _: k.datetime(False, False), raises(ValueError)),
}
KINDS = {
    "one of a kind": (lambda k, _: k.PrimitiveType(k.PrimitiveTypeId.BOOL) is k.bool_(), True),
    "ids": (
        lambda k, _: [kind.value for kind in k.PrimitiveTypeId],
        ["Number (Integer)", "Number (Long Integer)", "String", "Number (Float)", "Boolean", "blob", "null"],
    ),
    "inner type": (lambda k, _: str(k.list_(k.int32()).inner_type), "Number (Integer)"),
    "inner types": (
        lambda k, _: [str(kind) for kind in k.struct(k.int32(), k.bool_()).inner_types],
        ["Number (Integer)", "Boolean"],
    ),
    "struct of a list": (
        lambda k, _: [type(s.inner_types).__name__ for s in (k.StructType([k.int32()]), k.struct(k.int32()))],
        ["list", "tuple"],
    ),
    "struct as a key": (lambda k, _: {k.struct(k.int32()): 1}[k.StructType([k.int32()])], 1),
    "empty struct": (lambda k, _: str(k.struct()), "struct<>"),
    "structs": (
        lambda k, _: [k.struct(k.int32()) == k.struct(k.int64()), k.struct(k.int32()) == k.struct(k.int32())],
        [False, True],
    ),
    "shown": (
        lambda k, _: repr([k.int32(), k.list_(k.null())]),
        "[Number (Integer), List (Collection of: null)]",
    ),
    "logical": (
        lambda k, _: [
            k.logical(dt.date).logical_type,
            str(k.logical(dt.date).storage_type),
            k.logical(dt.date).value_type,
        ],
        [
            '{"value_factory_class":"org.knime.core.data.v2.time.LocalDateValueFactory"}',
            "Number (Long Integer)",
            "datetime.date",
        ],
    ),
    "logical is equal": (
        lambda k, _: [k.logical(dt.date) == k.datetime(time=False), k.logical(dt.date) == k.int64()],
        [True, False],
    ),
    "logical as a key": (lambda k, _: {k.logical(dt.date): 1}[k.logical(dt.date)], 1),
    "moments": (
        lambda k, _: [
            str(k.datetime()),
            str(k.datetime(timezone=True)),
            str(k.logical(dt.datetime)),
            str(k.logical(dt.timedelta)),
        ],
        ["Local Date Time", "Zoned Date Time", "Zoned Date Time", "Duration"],
    ),
    "made by hand": (
        lambda k, _: str(k.LogicalType('{"value_factory_class":"x"}', k.int32())),
        'extension<logical={"value_factory_class":"x"}, storage=Number (Integer)>',
    ),
    "unknown value type": (lambda k, _: k.LogicalType("x", k.int32()).value_type, raises(ValueError)),
    "unknown for Arrow": (lambda k, _: k.LogicalType("x", k.int32()).to_pyarrow(), raises(ValueError)),
    "for Arrow": (lambda k, _: str(k.logical(dt.date).to_pyarrow().storage_type), "int64"),
    "supported": (lambda k, _: "datetime.date" in k.supported_value_types(), True),
    "zone without time": (lambda k, _: str(k.datetime(False, True, True)), "Local Time"),
    "truthy": (lambda k, _: str(k.datetime(1, 0)), "Local Date"),
    "path": (
        lambda k, _: path(k),
        [
            "{'fs_category': 'RELATIVE', 'fs_specifier': 'knime.workflow', 'path': '../data.csv'}",
            {"fs_category": "RELATIVE", "fs_specifier": "knime.workflow", "path": "../data.csv"},
            "Path",
        ],
    ),
}
