"""Groups of settings and arrays of them: checks, defaults, copies."""

from tests.standin.api.tools import dialog, holder, raises, stored


def checked(knext, values, decorate=None):
    """What checks a group's saved values, in order; ``decorate`` adds a check to the group."""
    from knime.extension import parameter as kp

    calls = []

    @knext.parameter_group("Pair")
    class Pair:
        count = knext.IntParameter("Count", "", 1, max_value=9)

        @count.validator
        def check(self):  # KNIME calls it with the value
            calls.append(f"count {self}")

        def validate(self, values):
            calls.append(f"group {values['count']}")

    class Node:
        pair = Pair()
        if decorate:
            decorate(pair, lambda values: calls.append(f"own {values['count']}"))

    kp.validate_parameters(Node(), {"model": {"pair": values}}, "1.0.0")
    return calls


def group(knext, decorator=(), make=(), **options):
    """A group's version and whether it is advanced, of its decorator and of its maker."""

    @knext.parameter_group("Pair", *decorator)
    class Pair:
        def __init__(self, count=1):
            self.count = knext.IntParameter("Count", "", count)

    made_group = Pair(*make, **options)
    return [str(made_group._since_version), made_group._is_advanced, made_group.count]


def reserved(knext, _):
    @knext.parameter_group("Pair")
    class Pair:
        def __init__(self, validator=None):
            pass

    Pair()


def items(knext, **options):
    @knext.parameter_group("Item")
    class Item:
        name = knext.StringParameter("Name", "", "n")
        count = knext.IntParameter("Count", "", 1, max_value=9)

        def doubled(self):
            return self.count * 2

    return holder(items=named(knext.ParameterArray(Item(), "Items", "", **options)))


def named(parameter):
    parameter.__set_name__(object, "items")
    return parameter


def replaced(place):
    """A group that is set, on a node or in another group."""

    def case(knext, _):
        inner = knext.parameter_group("Inner")(type("Inner", (), {}))
        outer = knext.parameter_group("Outer")(type("Outer", (), {"inner": inner()}))
        place(holder(outer=outer()))

    return case


def nested(inner):
    """An array of groups that hold a group or an array."""

    def case(knext, _):
        from knime.extension import parameter as kp

        @knext.parameter_group("Deep")
        class Deep:
            count = knext.IntParameter("Count", "", 1)

        @knext.parameter_group("Item")
        class Item:
            deep = Deep() if inner == "group" else knext.ParameterArray(Deep(), "Deep", "")

        node = holder(items=named(knext.ParameterArray(Item(), "Items", "")))
        kp.validate_parameters(node, {"model": {"items": []}}, "1.0.0")

    return case


def loaded(values, **options):
    """What an array is after values were loaded."""

    def case(knext, _):
        from knime.extension import parameter as kp

        node = items(knext, **options)
        kp.inject_parameters(node, {"model": {"items": values}})
        return [[item.name, item.count, item.doubled()] for item in node.items]

    return case


def restored(knext, values):
    """What is stored of an array after values were loaded."""
    from knime.extension import parameter as kp

    node = items(knext)
    kp.inject_parameters(node, {"model": {"items": values}})
    return stored(node)["items"]


def array(values, **options):
    return lambda knext, _: stored(items(knext, **options), items=values)["items"]


def changed_item(knext, _):
    """An item is made anew at each reading."""
    node = items(knext)
    node.items = [{"name": "x", "count": 2}]
    node.items[0].count = 5
    return node.items[0].count


def two_nodes(knext, _):
    @knext.parameter_group("Pair")
    class Pair:
        count = knext.IntParameter("Count", "", 1)

    class Node:
        first = Pair()
        second = Pair()

    one, other = Node(), Node()
    one.first.count = 5
    return [stored(one), stored(other)]


def kept_group(knext, _):
    """A group that is kept sees later changes."""

    @knext.parameter_group("Pair")
    class Pair:
        count = knext.IntParameter("Count", "", 1)

    class Node:
        pair = Pair()

    node = Node()
    pair = node.pair
    node.pair.count = 3
    return [pair.count, node.pair is pair]


def derived(knext, _):
    class Base:
        first = knext.IntParameter("First", "", 1)
        second = knext.IntParameter("Second", "", 2)

    class Node(Base):
        second = knext.StringParameter("Second", "", "two")
        third = knext.BoolParameter("Third", "")

    return stored(Node())


def rewritten(knext, _):
    from knime.extension import parameter as kp

    @knext.parameter_group("Pair")
    class Pair:
        count = knext.IntParameter("Count", "", 1)

        def _modify_parameters(self, values):
            return {"count": values["old"] + 1}

    class Node:
        pair = Pair()

    node = Node()
    kp.inject_parameters(node, {"model": {"pair": {"old": 4}}})
    return node.pair.count


def own_members(knext, _):
    """What a group keeps itself: anew for each reading, whatever its name."""

    @knext.parameter_group("Pair")
    class Pair:
        count = knext.IntParameter("Count", "", 1)

        def __init__(self):
            self.seen = []
            self._schema = "mine"

        def _describe(self):
            return "own"

    class Node:
        pair = Pair()

    node = Node()
    node.pair.seen.append(1)
    return [node.pair.seen, node.pair._schema, node.pair._describe(), dialog(knext, node)["schema"]["pair"]]


def deep_description(knext, _):
    """An array within a group, whose items hold a group."""
    from knime.extension import parameter as kp

    @knext.parameter_group("Deep")
    class Deep:
        count = knext.IntParameter("Count", "", 1)

    @knext.parameter_group("Item")
    class Item:
        deep = Deep()

    @knext.parameter_group("Outer")
    class Outer:
        items = knext.ParameterArray(Item(), "Items", "")

    return kp.extract_parameter_descriptions(holder(outer=Outer()))


def late(knext, _):
    """A group that is newer than what was saved."""
    from knime.extension import parameter as kp

    @knext.parameter_group("Pair", since_version="1.1.0")
    class Pair:
        count = knext.IntParameter("Count", "", lambda version: version.minor)

    class Node:
        pair = Pair()

    node = Node()
    kp.validate_parameters(node, {"model": {}}, "1.0.0")
    kp.inject_parameters(node, {"model": {}}, "1.0.0")
    return node.pair.count


def own_checks(knext, parameter, value):
    """Whether a check of its own replaces a parameter's or is added to it."""
    node = holder(items=named(parameter))
    node.items = value
    return node.items


class FailedError(Exception):
    pass


def fail(value):
    raise FailedError


def letters(knext):
    return knext.EnumParameterOptions("Letters", {"A": ("A", "first"), "B": ("B", "second")})


def decorated(make, value):
    """The outcome of a value that a decorated check does not look at."""

    def case(knext, _):
        parameter = make(knext)
        parameter.validator(lambda value: None)
        return own_checks(knext, parameter, value)

    return case


GROUPS = {
    "layout as text": (lambda k, _: group(k, (None, False, "x")), raises(AttributeError)),
    "checks": (lambda k, _: checked(k, {"count": 99}), ["count 99", "group 99"]),
    "own check instead": (
        lambda k, _: checked(k, {"count": 2}, lambda pair, check: pair.validator(check)),
        ["count 2", "own 2"],
    ),
    "own check after": (
        lambda k, _: checked(k, {"count": 2}, lambda pair, check: pair.validator(override=False)(check)),
        ["count 2", "group 2", "own 2"],
    ),
    "own check that overrides": (
        lambda k, _: checked(k, {"count": 2}, lambda pair, check: pair.validator(override=True)(check)),
        ["count 2", "own 2"],
    ),
    "incomplete": (lambda k, _: checked(k, {}), raises(ValueError)),
    "version of the decorator": (lambda k, _: group(k, ("1.2.3", True)), ["1.2.3", True, 1]),
    "version of the maker": (
        lambda k, _: group(k, ("1.2.3",), (7,), since_version="2.0.0", is_advanced=True),
        ["2.0.0", True, 7],
    ),
    "bad version": (lambda k, _: group(k, ("1.2",)), raises(ValueError)),
    "argument that is taken": (reserved, raises(SyntaxError)),
    "unknown argument": (lambda k, _: group(k, nonsense=1), raises(TypeError)),
    "two nodes": (
        two_nodes,
        [{"first": {"count": 5}, "second": {"count": 1}}, {"first": {"count": 1}, "second": {"count": 1}}],
    ),
    "kept": (kept_group, [3, False]),
    "of a base class": (derived, {"second": "two", "third": False, "first": 1}),
    "rewritten": (rewritten, 5),
    "newer than what was saved": (late, 0),
    "array": (array([{"name": "x", "count": 2}]), [{"name": "x", "count": 2}]),
    "array of nothing": (array([]), []),
    "array loaded": (loaded([{"name": "x", "count": 2}, {"count": 3}]), [["x", 2, 4], ["n", 3, 6]]),
    "array loaded of none": (loaded(None), [["n", 1, 2]]),
    "array loaded with too much": (loaded([{"count": 99}]), raises(ValueError)),
    "array of texts": (loaded(["x"]), raises(AttributeError)),
    "array of lists stored": (lambda k, _: restored(k, [["x"]]), [{}]),
    "array of numbers stored": (lambda k, _: restored(k, [1]), raises(TypeError)),
    "group in an array described": (deep_description, raises(TypeError)),
    "own members": (
        own_members,
        [
            [],
            "mine",
            "own",
            {
                "type": "object",
                "properties": {
                    "count": {"title": "Count", "description": "", "type": "integer", "format": "int32"}
                },
            },
        ],
    ),
    "array with a check": (array([{"count": 99}], validator=fail), raises(FailedError)),
    "item changed": (changed_item, 2),
    "replaced on a node": (replaced(lambda node: setattr(node, "outer", 5)), raises(RuntimeError)),
    "replaced in a group": (replaced(lambda node: setattr(node.outer, "inner", 5)), raises(AttributeError)),
    "group in an array": (nested("group"), raises(ValueError)),
    "array in an array": (nested("array"), raises(ValueError)),
    "decorated whole": (decorated(lambda k: k.IntParameter("N", "", 1, max_value=9), "many"), "many"),
    "decorated text": (decorated(lambda k: k.StringParameter("N", ""), 5), 5),
    "decorated path": (decorated(lambda k: k.LocalPathParameter("N", ""), "/no/such/path"), "/no/such/path"),
    "decorated letter": (
        decorated(lambda k: k.EnumParameter("N", "", "A", letters(k)), "Z"),
        raises(ValueError),
    ),
    "decorated letters": (
        decorated(lambda k: k.EnumSetParameter("N", "", ["A"], letters(k)), ["Z"]),
        raises(ValueError),
    ),
    "letters with a check": (
        lambda k, _: own_checks(k, k.EnumSetParameter("N", "", ["A"], letters(k), validator=fail), ["A"]),
        raises(FailedError),
    ),
    "letters of a callable": (
        lambda k, _: stored(holder(items=named(k.EnumSetParameter("N", "", lambda v: ["B"], letters(k))))),
        {"items": ["B"]},
    ),
    "letter of a member": (
        lambda k, _: stored(holder(items=named(k.EnumParameter("N", "", letters(k).B, letters(k))))),
        {"items": "B"},
    ),
    "letter of no letters": (
        lambda k, _: stored(holder(items=named(k.EnumParameter("N", "")))),
        {"items": "DEFAULT_OPTION"},
    ),
    "letters of no letters": (
        lambda k, _: stored(holder(items=named(k.EnumSetParameter("N", "")))),
        {"items": ["DEFAULT_OPTION"]},
    ),
    "options": (
        lambda k, _: [letters(k).get_all_options(), letters(k).B.label, letters(k)["A"].description],
        [["A", "B"], "B", "first"],
    ),
    "no lines": (lambda k, _: k.MultilineStringParameter("N", "", number_of_lines=0), raises(ValueError)),
    "half a line": (lambda k, _: k.MultilineStringParameter("N", "", number_of_lines=0.5), raises(TypeError)),
    "named limits": (
        lambda k, _: [
            k.IntParameter("N", "", 1, max_value=9).max_value,
            k.DoubleParameter(min_value=0.5).min_value,
        ],
        [9, 0.5],
    ),
    "infinite": (
        lambda k, _: str(own_checks(k, k.DoubleParameter("N", "", max_value=1e300), float("-inf"))),
        "-inf",
    ),
    "complex": (lambda k, _: str(own_checks(k, k.DoubleParameter("N", ""), 1j)), "1j"),
    "positional": (
        lambda k, _: own_checks(k, k.IntParameter("N", "", 1, None, 0, 9), 10),
        raises(ValueError),
    ),
}
