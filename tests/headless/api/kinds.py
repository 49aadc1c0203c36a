"""Types of columns."""

import datetime as dt
import json
import warnings

from tests.headless.api.parameters import Plain
from tests.headless.api.tools import key, raises


def dictionary_text(knext, _):
    """As in KNIME, the meaning of a text that is stored with a dictionary is lost."""
    from knime.api import types

    traits = {"logical_type": "org.example.Word", "dict_encoding": "INT_KEY"}
    described = json.dumps({"type": "simple", "traits": traits})
    types.register_python_value_factory(__name__, "Words", "Word", '"string"', described, f"{__name__}.Word")
    found = knext.logical(Word)
    return [str(found), found.dict_encoding_key_type.value]


class Word:
    """A value of a type that an extension registers."""


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


def helper(ask):
    """What `knime.api.types` says."""

    def case(knext, _):
        from knime.api import types

        return ask(types)

    return case


def list_like(types, kind):
    return types.get_converter(f'{{"value_factory_class":"org.knime.core.data.v2.value.{kind}ValueFactory"}}')


FACTORIES = {
    "class by its name": (helper(lambda t: t.get_python_type_from_name("datetime.date") is dt.date), True),
    "class of no module": (
        helper(lambda t: t.get_python_type_from_name("no.such.Class")),
        raises(ValueError),
    ),
    "class that is not there": (
        helper(lambda t: t.get_python_type_from_name("datetime.Class")),
        raises(AttributeError),
    ),
    "dates in a list": (
        helper(lambda t: t.encode_inner_elements([None, dt.date(1970, 1, 2)])),
        [None, 1],
    ),
    "numbers in a list": (helper(lambda t: t.encode_inner_elements([1, None])), [1, None]),
    "nothing in a list": (helper(lambda t: t.encode_inner_elements([None])), [None]),
    "list": (helper(lambda t: list_like(t, "List").encode([dt.date(1970, 1, 3)])), [2]),
    "set": (
        helper(lambda t: [list_like(t, "Set").compatible_type is set, list_like(t, "Set").encode(None)]),
        [True, None],
    ),
    "text with a dictionary": (dictionary_text, ["String[dict_encoding=INT_KEY]", "INT_KEY"]),
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
    "dictionary": (
        lambda k, _: [str(k.string(key(k))), str(k.blob(key(k, "BYTE")))],
        ["String[dict_encoding=INT_KEY]", "blob[dict_encoding=BYTE_KEY]"],
    ),
    "dictionary is another type": (
        lambda k, _: [k.string(key(k)) == k.string(), k.string(key(k)) == k.string(key(k))],
        [False, True],
    ),
    "dictionary of a text": (lambda k, _: k.string("INT_KEY"), raises(TypeError)),
    "dictionary of numbers": (lambda k, _: k.PrimitiveType(k.PrimitiveTypeId.INT, key(k)), raises(TypeError)),
    "key of a dictionary": (
        lambda k, _: [k.string(key(k)).dict_encoding_key_type.value, k.string().dict_encoding_key_type],
        ["INT_KEY", None],
    ),
    "without a dictionary": (lambda k, _: k.string(key(k)).plain_type == k.string(), True),
    "keys": (
        lambda k, _: [kind.value for kind in k.DictEncodingKeyType],
        ["INT_KEY", "LONG_KEY", "BYTE_KEY"],
    ),
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
    "by name": (
        lambda k, _: str(k.PrimitiveType(dtype=k.PrimitiveTypeId.STRING, dict_encoding_key=key(k))),
        "String[dict_encoding=INT_KEY]",
    ),
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
    "proxy": (lambda k, _: [k.logical(dt.date).proxy_type], [None]),
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
