"""Pieces of KNIME's API, each with what it gives: a value, or the class of the error that it raises.

Both hosts run them: the stand-in against what is written here, KNIME's own sources against the stand-in.
"""

import datetime as dt
from enum import Enum


def raises(error):
    return {"raised": error.__name__}


def outcome(case, table):
    """What a case gives.

    Args:
        case: The case, a function of the API and a table.
        table: A node's input with the columns a (int), b (text) and c (number), and three rows.
    """
    import knime.extension as knext

    try:
        return case(knext, table)
    except Exception as error:
        return raises(type(error))


def abc(knext):
    kinds = [knext.int64(), knext.string(), knext.double()]
    return knext.Schema.from_types(kinds, ["a", "b", "c"])


def names(columnar):
    return columnar.get().column_names


def settings(knext):
    """An object with one parameter of each kind."""

    class Letters(knext.EnumParameterOptions):
        A = ("A", "first")
        B = ("B", "second")

    @knext.parameter_group("Pair")
    class Pair:
        rule = knext.StringParameter("Rule", "a name that groups have themselves", "none")
        count = knext.IntParameter("Count", "how many", 1, min_value=0)

    class Settings:
        whole = knext.IntParameter("Whole", "", 1, min_value=0, max_value=9)
        number = knext.DoubleParameter("Number", "", 0.5, max_value=1.0)
        flag = knext.BoolParameter("Flag", "")
        text = knext.StringParameter("Text", "")
        lines = knext.MultilineStringParameter("Lines", "")
        path = knext.LocalPathParameter("Path", "")
        letter = knext.EnumParameter("Letter", "", Letters.A.name, Letters)
        letters = knext.EnumSetParameter("Letters", "", enum=Letters)
        column = knext.ColumnParameter("Column", "")
        columns = knext.MultiColumnParameter("Columns", "")
        pair = Pair()
        pairs = knext.ParameterArray(Pair(), "Pairs", "")

    return Settings()


def given(name, value):
    """What a parameter holds after a value was set."""

    def case(knext, _):
        owner = settings(knext)
        setattr(owner, name, value)
        return getattr(owner, name)

    return case


def items(value):
    """The counts in an array of groups."""

    def case(knext, _):
        owner = settings(knext)
        owner.pairs = value
        return [pair.count for pair in owner.pairs]

    return case


def set_in_group(knext, _):
    owner = settings(knext)
    owner.pair.rule, owner.pair.count = "some", 3
    return [owner.pair.rule, owner.pair.count, settings(knext).pair.count]


def composed(knext):
    """A node that makes a group in its __init__, as the group makes its parameters and another group."""

    @knext.parameter_group("Inner")
    class Inner:
        depth = knext.IntParameter("Depth", "", 2)

    @knext.parameter_group("Outer")
    class Outer:
        def __init__(self, count):
            self.count = knext.IntParameter("Count", "", count, max_value=9)
            self.inner = Inner()

    class Node:
        declared = Outer(1)

        def __init__(self):
            self.made = Outer(3)

    return Node()


def composed_settings(knext, _):
    from knime.extension import parameter as kp

    node = composed(knext)
    node.declared.count, node.made.count, node.made.inner.depth = 5, 6, 7
    document = kp.extract_parameters(node)
    other = composed(knext)
    kp.inject_parameters(other, document)
    return [document["model"], other.declared.count, other.made.inner.depth, composed(knext).made.count]


def composed_schema(knext, _):
    from knime.extension import parameter as kp

    schema = kp.extract_schema(composed(knext))["properties"]["model"]["properties"]
    return [list(schema), list(schema["made"]["properties"])]


def too_large_in_composed(knext, _):
    composed(knext).made.count = 10


def group_of_a_group(knext, _):
    @knext.parameter_group("Base")
    class Base:
        first = knext.IntParameter("First", "")

    @knext.parameter_group("More")
    class More(Base):
        second = knext.IntParameter("Second", "")

    return More().second


def made(base, **members):
    """An object of a class with some members."""
    return type("Made", (base,), members)


class Plain(Enum):
    A = ("A", "first")


PARAMETERS = {
    "defaults": (
        lambda k, _: [settings(k).whole, settings(k).letter, settings(k).letters, settings(k).column],
        [1, "A", ["A", "B"], None],
    ),
    "whole is text": (given("whole", "1"), raises(TypeError)),
    "whole is none": (given("whole", None), raises(TypeError)),
    "whole is half": (given("whole", 1.5), raises(TypeError)),
    "whole is true": (given("whole", True), True),
    "whole too small": (given("whole", -1), raises(ValueError)),
    "whole too large": (given("whole", 10), raises(ValueError)),
    "number is whole": (given("number", 1), 1),
    "number is text": (given("number", "1"), raises(TypeError)),
    "number too large": (given("number", 1.5), raises(ValueError)),
    "number is nan": (lambda k, t: str(given("number", float("nan"))(k, t)), "nan"),
    "flag is one": (given("flag", 1), raises(TypeError)),
    "text is none": (given("text", None), raises(TypeError)),
    "lines are none": (given("lines", None), raises(TypeError)),
    "path is nothing": (given("path", None), None),
    "path is a number": (given("path", 5), raises(TypeError)),
    "path of nothing": (given("path", "/no/such/path"), raises(ValueError)),
    "letter is unknown": (given("letter", "Z"), raises(ValueError)),
    "letters are text": (given("letters", "A"), raises(TypeError)),
    "letters are a tuple": (given("letters", ("A",)), raises(TypeError)),
    "letters are unknown": (given("letters", ["A", "Z"]), raises(ValueError)),
    "no letters": (given("letters", []), []),
    "column of another type": (given("column", 5), 5),
    "columns are none": (given("columns", None), None),
    "group is replaced": (given("pair", {}), raises(RuntimeError)),
    "group of the class": (lambda k, _: type(settings(k)).pair, raises(AttributeError)),
    "parameter of the class": (lambda k, _: type(type(settings(k)).whole).__name__, "IntParameter"),
    "group with a parameter called rule": (set_in_group, ["some", 3, 1]),
    "made in an __init__": (
        composed_settings,
        [
            {
                "declared": {"count": 5, "inner": {"depth": 2}},
                "made": {"count": 6, "inner": {"depth": 7}},
            },
            5,
            7,
            3,
        ],
    ),
    "schema of what is made in an __init__": (composed_schema, [["declared", "made"], ["count", "inner"]]),
    "too large in what is made in an __init__": (too_large_in_composed, raises(ValueError)),
    "group that is a group already": (group_of_a_group, raises(TypeError)),
    "array of values": (items([{"count": 2}, {}]), [2, 1]),
    "array of unknown values": (items([{"other": 2}]), [1]),
    "array of bad values": (items([{"count": -1}]), raises(ValueError)),
    "array of nothing": (items(None), []),
    "enum of plain members": (
        lambda k, _: k.EnumParameter("E", "", "A", Plain),
        raises(AttributeError),
    ),
    "condition of nothing": (lambda k, _: k.And(), raises(ValueError)),
    "abstract condition": (lambda k, _: k.Condition(), raises(TypeError)),
    "version of two": (lambda k, _: k.Version.parse_version("1.0"), raises(ValueError)),
    "negative version": (lambda k, _: k.Version.parse_version("1.-1.0"), raises(ValueError)),
    "versions": (lambda k, _: str(max(k.Version(1, 9, 3), k.Version.parse_version("1.10.0"))), "1.10.0"),
}
SCHEMAS = {
    "of a generator": (lambda k, _: k.Schema.from_columns(c for c in abc(k)), raises(TypeError)),
    "of a schema": (lambda k, _: k.Schema.from_columns(abc(k)), raises(TypeError)),
    "of a view": (lambda k, _: k.Schema.from_columns(abc(k)[["a"]]), raises(TypeError)),
    "of columns that are views": (lambda k, _: k.Schema.from_columns([abc(k)["a"]]), raises(TypeError)),
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
TABLES = {
    "shape": (lambda _, t: [list(t.shape), t.num_rows, t.num_columns], [[3, 3], 3, 3]),
    "batches": (lambda _, t: [batch.num_rows for batch in t.to_batches()], [3]),
    "number of batches": (lambda _, t: t.num_batches, 1),
    "batches of a view": (lambda _, t: list(t[["a"]].batches()), raises(RuntimeError)),
    "first column": (lambda _, t: names(t[0]), ["a"]),
    "column by name": (lambda _, t: names(t["b"]), ["b"]),
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
CLASSES = {
    "spec that is not written": (
        lambda k, _: made(k.PortObjectSpec, deserialize=classmethod(lambda cls, data: cls()))(),
        raises(TypeError),
    ),
    "spec that is not read": (lambda k, _: made(k.PortObjectSpec, serialize=dict)(), raises(TypeError)),
    "object that is not written": (
        lambda k, _: made(k.PortObject, deserialize=classmethod(lambda cls, spec, data: cls(spec)))(None),
        raises(TypeError),
    ),
    "connection without data": (lambda k, _: made(k.ConnectionPortObject)(None), raises(TypeError)),
    "node without execute": (
        lambda k, _: k.node("N", k.NodeType.OTHER, "icon.png", "/")(
            made(k.PythonNode, configure=lambda self, context: None)
        ),
        raises(TypeError),
    ),
    "binary port without id": (lambda k, _: k.Port(k.PortType.BINARY, "P", "p"), raises(TypeError)),
    "group without description": (
        lambda k, _: k.input_table_group("P", None)(type("N", (), {})),
        raises(TypeError),
    ),
    "ports by decorator and attribute": (
        lambda k, _: k.input_table("P", "p")(type("N", (), {"input_ports": []})),
        raises(ValueError),
    ),
    "ports in their order": (
        lambda k, _: [
            port.name
            for port in k.input_table("1", "")(k.input_binary("2", "", "id")(type("N", (), {}))).input_ports
        ],
        ["1", "2"],
    ),
    "view of a number": (lambda k, _: k.view(5), raises(ValueError)),
    "view without a picture": (lambda k, _: k.view_html("<p>").render(), raises(NotImplementedError)),
    "picture of a page": (
        lambda k, _: k.view(
            type("S", (), {"_repr_html_": lambda s: "<p>", "_repr_svg_": lambda s: "<svg>"})()
        ).render(),
        "<svg>",
    ),
}
CASES = {
    f"{group}, {name}": case
    for group, cases in (
        ("parameter", PARAMETERS),
        ("schema", SCHEMAS),
        ("type", TYPES),
        ("table", TABLES),
        ("class", CLASSES),
    )
    for name, case in cases.items()
}
