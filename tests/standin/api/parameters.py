"""Parameters and arrays of them: what they take, what they refuse and what they hold."""

from tests.standin.api.tools import dialog, holder, loaded, raises, stored


def settings(knext):
    """An object with one parameter of each kind."""

    class Letters(knext.EnumParameterOptions):
        A = ("A", "first")
        B = ("B", "second")

    class Settings:
        whole = knext.IntParameter("Whole", "", 1, min_value=0, max_value=9)
        number = knext.DoubleParameter("Number", "", 0.5, max_value=1.0)
        flag = knext.BoolParameter("Flag", "")
        text = knext.StringParameter("Text", "")
        lines = knext.MultilineStringParameter("Lines", "")
        letter = knext.EnumParameter("Letter", "", Letters.A.name, Letters)
        column = knext.ColumnParameter("Column", "")
        pairs = items(knext)

    return Settings()


def given(name, value):
    """What a parameter holds after a value was set."""

    def case(knext, _):
        owner = settings(knext)
        setattr(owner, name, value)
        return getattr(owner, name)

    return case


def items(knext, **options):
    @knext.parameter_group(label="Item")
    class Item:
        name = knext.StringParameter("Name", "its name", "n")
        count = knext.IntParameter("Count", "how many", 1, max_value=9)

    return knext.ParameterArray(Item(), "Items", "", **options)


def counts(value, load=False):
    """The counts in an array, after a value was set or loaded."""

    def case(knext, _):
        owner = holder(items=items(knext))
        if load:
            loaded(owner, {"items": value})
        else:
            owner.items = value
        return [item.count for item in owner.items]

    return case


def changed_item(knext, _):
    """An item is made anew at each reading."""
    node = holder(items=items(knext))
    node.items = [{"name": "x", "count": 2}]
    node.items[0].count = 5
    return node.items[0].count


def nested(knext, _):
    """An array of groups that hold an array."""
    item = knext.parameter_group(label="Item")(type("Item", (), {"deep": items(knext)}))
    loaded(holder(items=knext.ParameterArray(item(), "Items", "")), {"items": []})


def two_nodes(knext, _):
    class Node:
        count = knext.IntParameter("Count", "", 1)

    one, other = Node(), Node()
    one.count = 5
    return [stored(one), stored(other)]


def derived(knext, _):
    class Base:
        first = knext.IntParameter("First", "", 1)
        second = knext.IntParameter("Second", "", 2)

    class Node(Base):
        second = knext.StringParameter("Second", "", "two")
        third = knext.BoolParameter("Third", "")

    return stored(Node())


def own_kind(knext, _):
    """A parameter that overrides what KNIME calls of parameters, as some of our nodes have."""

    class Own(knext.StringParameter):
        def _get_options(self, dialog_creation_context):
            return {"format": "own"}

        def _extract_schema(self, *context, **named):
            return {**super()._extract_schema(*context, **named), "own": True}

    def section(context):
        return {"type": "Section", "elements": [type(text)._extract_ui_schema(text, context)]}

    text = Own("Text", "some text", is_advanced=True)
    text._extract_ui_schema = section
    shown = dialog(holder(text=text))
    return [shown["schema"]["text"], shown["layout"], text._name, text._is_advanced]


def versions(document, version):
    """The settings that an old document becomes."""

    def case(knext, _):
        class Node:
            first = knext.StringParameter("First", "", "one")
            second = knext.StringParameter("Second", "", lambda v: f"for {v}", since_version="1.1.0")

        node = loaded(Node(), document, version)
        return [node.first, node.second]

    return case


PARAMETERS = {
    "own kind": (
        own_kind,
        [
            {"title": "Text", "description": "some text", "type": "string", "own": True},
            [
                {
                    "scope": "#/properties/model/properties/text",
                    "type": "Section",
                    "elements": [
                        {"type": "Control", "label": "Text", "options": {"format": "own", "isAdvanced": True}}
                    ],
                }
            ],
            "text",
            True,
        ],
    ),
    "defaults": (
        lambda k, _: stored(settings(k)),
        {
            "whole": 1,
            "number": 0.5,
            "flag": False,
            "text": "",
            "lines": "",
            "letter": "A",
            "column": "",
            "pairs": [],
        },
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
    "letter is unknown": (given("letter", "Z"), raises(ValueError)),
    "letter without a default": (
        lambda k, _: k.EnumParameter("E", "", enum=k.EnumParameterOptions("L", {"A": ("A", "a")})),
        raises(AttributeError),
    ),
    "column of another type": (given("column", 5), 5),
    "parameter of the class": (lambda k, _: type(type(settings(k)).whole).__name__, "IntParameter"),
    "condition of nothing": (lambda k, _: k.And(), raises(ValueError)),
    "two nodes": (two_nodes, [{"count": 5}, {"count": 1}]),
    "of a base class": (derived, {"second": "two", "third": False, "first": 1}),
    "since a short version": (lambda k, _: k.IntParameter("I", "", since_version="1.0"), raises(ValueError)),
    "negative version": (lambda k, _: k.Version.parse_version("1.-1.0"), raises(ValueError)),
    "versions": (lambda k, _: str(max(k.Version(1, 9, 3), k.Version.parse_version("1.10.0"))), "1.10.0"),
    "loaded from 1.0.0": (versions({"first": "x"}, "1.0.0"), ["x", "for 1.0.0"]),
    "loaded from 1.1.0": (versions({"first": "x", "second": "y"}, "1.1.0"), ["x", "y"]),
    "loaded with news": (versions({"first": "x", "second": "y"}, "1.0.0"), ["x", "y"]),
    "loaded incomplete": (versions({"first": "x"}, "1.1.0"), raises(ValueError)),
    "loaded without version": (versions({"first": "x"}, None), ["x", "for 0.0.0"]),
    "loaded with strangers": (versions({"first": "x", "other": 1}, "1.0.0"), ["x", "for 1.0.0"]),
    "loaded with a number": (versions({"first": 1}, "1.0.0"), raises(TypeError)),
}
ARRAYS = {
    "of values": (counts([{"count": 2}, {}]), [2, 1]),
    "of unknown values": (counts([{"other": 2}]), [1]),
    "of bad values": (counts([{"count": 99}]), raises(ValueError)),
    "of nothing": (counts(None), []),
    "loaded": (counts([{"name": "x", "count": 2}, {"count": 3}], load=True), [2, 3]),
    "loaded with too much": (counts([{"count": 99}], load=True), raises(ValueError)),
    "of texts": (counts(["x"]), raises(AttributeError)),
    "of what else is there": (
        lambda k, _: stored(loaded(holder(items=items(k)), {"items": [{"name": "x", "other": 1}]})),
        {"items": [{"name": "x"}]},
    ),
    "item changed": (changed_item, 2),
    "array in an array": (nested, raises(ValueError)),
}
