"""Parameters: what they take, what they refuse and what they hold."""

from enum import Enum

from tests.standin.api.tools import dialog, holder, raises


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


def late(make):
    """A setting that gets onto its class when the class is there already, and so never learns its name."""

    def case(knext, _):
        owner = type("Owner", (), {})
        owner.late = make(knext)
        return owner().late

    return case


class Plain(Enum):
    A = ("A", "first")


def own_kind(knext):
    """An object with a parameter that overrides what KNIME calls of parameters, as knime-python-llm does."""

    class Own(knext.StringParameter):
        def _set_value(self, obj, value, name, exclude_validations):
            return super()._set_value(obj, value.upper(), name)

        def _get_value(self, obj, name, for_dialog=None):
            return super()._get_value(obj, name) + "!"

        def _extract_schema(self, extension_version=None, dialog_creation_context=None):
            schema = super()._extract_schema(dialog_creation_context=dialog_creation_context)
            return {**schema, "version": str(extension_version)}

        def _extract_description(self, name, parent_scope):
            return {**super()._extract_description(name, parent_scope), "name": f"own {name}"}

    return holder(text=Own("Text", "some text"))


def own_kind_used(knext, _):
    from knime.extension import parameter as kp

    node = own_kind(knext)
    kp.inject_parameters(node, {"model": {"text": "loud"}})
    shown = dialog(knext, node)
    return [node.text, shown["data"], shown["schema"]["text"], *kp.extract_parameter_descriptions(node)]


PARAMETERS = {
    "own kind, set": (lambda k, _: setattr(own_kind(k), "text", "x"), raises(TypeError)),
    "own kind": (
        own_kind_used,
        [
            "LOUD!",
            {"text": "LOUD!"},
            {"title": "Text", "description": "some text", "type": "string", "version": "1.0.0"},
            [{"name": "own text", "description": "some text"}],
            False,
        ],
    ),
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
    "letters of two kinds": (given("letters", ["Z", 1]), raises(ValueError)),
    "no letters": (given("letters", []), []),
    "late parameter": (late(lambda k: k.IntParameter("I", "")), raises(AttributeError)),
    "late group": (late(lambda k: k.parameter_group("G")(type("G", (), {}))()), raises(AssertionError)),
    "as text": (
        lambda k, _: [str(type(settings(k)).text), str(k.BoolParameter("Flag")), str(settings(k).pair)],
        [
            "\n\t - name: text\n\t - label: Text\n\t",
            "\n\t - name: Flag\n\t - label: Flag\n\t",
            "\tGroup name: pair\n\tGroup label: Pair",
        ],
    ),
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
    "since a short version": (lambda k, _: k.IntParameter("I", "", since_version="1.0"), raises(ValueError)),
    "versions": (lambda k, _: str(max(k.Version(1, 9, 3), k.Version.parse_version("1.10.0"))), "1.10.0"),
}
