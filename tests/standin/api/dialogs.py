"""What dialogs show of settings: schemas, controls and rules; descriptions; versions."""

from tests.standin.api.parameters import settings
from tests.standin.api.tools import DOCUMENTS, Dialog, abc, dialog, holder, raises


def control(name, part="options"):
    """The control of a setting, or what the schema says of it."""

    def case(knext, _):
        owner, known = settings(knext), [described(knext)]
        if part == "schema":
            return dialog(knext, owner, known)["schema"][name]
        found = dialog(knext, owner, known)["layout"]
        return next(e for e in found if e.get("scope", "").endswith(f"/{name}"))[part]

    return case


def described(knext):
    """A schema as a dialog gets it."""
    metadata = {"preferred_value_type": "IntValue", "displayed_column_type": "Int"}
    return knext.Schema.from_columns(
        [knext.Column(column.ktype, column.name, metadata) for column in abc(knext)]
    )


def text(knext, part="layout", **options):
    found = dialog(knext, holder(text=knext.StringParameter("Text", "a text", **options)))
    return found["layout"][0]["options"] if part == "layout" else found["schema"]["text"]


def texts(part="layout", **options):
    return lambda knext, _: text(knext, part, **options)


def choices(*entries):
    """A text whose choices are made of ids, labels and descriptions."""

    def case(knext, _):
        return text(knext, "schema", choices=[knext.StringParameter.Choice(*entry) for entry in entries])

    return case


def column(part="layout", specs=None, **options):
    def case(knext, _):
        found = dialog(
            knext,
            holder(column=knext.ColumnParameter("Column", "a column", **options)),
            [described(knext)] if specs is None else specs(knext),
        )
        return found["layout"][0]["options"] if part == "layout" else found[part]["column"]

    return case


def checked_specs(specs, **options):
    """Whether a column parameter finds its port."""

    def case(knext, _):
        from knime.extension import parameter as kp

        node = holder(column=knext.ColumnParameter("Column", "a column", **options))
        kp.validate_specs(node, specs(knext))
        return "found"

    return case


def ruled(make):
    """The rule of a setting beside others and a group, given a function of the API and the class."""

    def case(knext, _):
        @knext.parameter_group("Inner")
        class Inner:
            depth = knext.IntParameter("Depth", "", 2)

        class Node:
            flag = knext.BoolParameter("Flag", "")
            several = knext.MultiColumnParameter("Several", "")
            inner = Inner()
            other = knext.StringParameter("Other", "")

        condition = make(knext, Node, Inner)
        Node.other.rule(condition, knext.Effect.HIDE)
        return next(e for e in dialog(knext, Node())["layout"] if e.get("label") == "Other")["rule"]

    return case


def colours(knext, count):
    entries = {f"C{i}": (f"Colour {i}", f"number {i}") for i in range(count)}
    return knext.EnumParameterOptions("Colours", entries)


def enum(part, count=3, **options):
    def case(knext, _):
        options_now = {
            name: value(knext) if callable(value) and name == "style" else value
            for name, value in options.items()
        }
        node = holder(
            colour=knext.EnumParameter("Colour", "which", "C0", colours(knext, count), **options_now)
        )
        found = dialog(knext, node)
        return found["layout"][0]["options"] if part == "layout" else found["schema"]["colour"]

    return case


def versions(knext):
    class Node:
        first = knext.StringParameter("First", "", "one")
        second = knext.StringParameter("Second", "", lambda v: f"for {v}", since_version="1.1.0")
        third = knext.IntParameter("Third", "", lambda v: v.minor, since_version=knext.Version(1, 2, 0))

    return Node()


def loaded(document, version):
    """The settings that an old document becomes."""

    def case(knext, _):
        from knime.extension import parameter as kp

        node = versions(knext)
        kp.validate_parameters(node, {"model": document}, version)
        kp.inject_parameters(node, {"model": document}, version)
        return [node.first, node.second, node.third]

    return case


def documented(knext, with_group):
    """An object whose settings are described."""

    @knext.parameter_group("Group")
    class Group:
        """What the group is for."""

        depth = knext.IntParameter("Depth", "how deep", 2)

    members = {"flag": knext.BoolParameter(None, None), "group": Group()}
    for name, member in members.items():
        member.__set_name__(object, name)
    return holder(**(members if with_group else {"flag": members["flag"]}))


def descriptions(with_group):
    def case(knext, _):
        from knime.extension import parameter as kp

        return list(kp.extract_parameter_descriptions(documented(knext, with_group)))

    return case


def schema_of_version(version):
    def case(knext, _):
        from knime.extension import parameter as kp

        return list(kp.extract_schema(versions(knext), version)["properties"]["model"]["properties"])

    return case


DIALOGS = {
    "whole": (
        control("whole"),
        DOCUMENTS["dialog, whole"],
    ),
    "schema of whole": (
        control("whole", "schema"),
        {"title": "Whole", "description": "", "type": "integer", "format": "int32"},
    ),
    "number": (
        control("number"),
        DOCUMENTS["dialog, number"],
    ),
    "schema of number": (
        control("number", "schema"),
        {"title": "Number", "description": "", "format": "double", "type": "number"},
    ),
    "flag": (control("flag"), {"format": "boolean"}),
    "text": (control("text"), {"format": "string"}),
    "lines": (control("lines"), {"format": "textArea", "rows": 3}),
    "path": (control("path"), {"format": "stringFileChooser", "fileSystem": "LOCAL", "placeholder": ""}),
    "letter": (control("letter"), {"format": "radio"}),
    "schema of letter": (
        control("letter", "schema"),
        {
            "title": "Letter",
            "description": "\n\n**Available options:**\n\n- A: first\n- B: second\n",
            "oneOf": [{"const": "A", "title": "A"}, {"const": "B", "title": "B"}],
        },
    ),
    "letters": (
        control("letters"),
        {"format": "twinList", "possibleValues": [{"id": "A", "text": "A"}, {"id": "B", "text": "B"}]},
    ),
    "schema of letters": (
        control("letters", "schema"),
        {
            "title": "Letters",
            "description": "\n\n**Available options:**\n\n- A: first\n- B: second\n",
            "type": "array",
            "items": {"type": "string"},
        },
    ),
    "column": (
        control("column"),
        DOCUMENTS["dialog, column"],
    ),
    "columns": (
        control("columns"),
        DOCUMENTS["dialog, columns"],
    ),
    "schema of columns": (
        control("columns", "schema"),
        {"title": "Columns", "description": "", "type": "array", "items": {"type": "string"}},
    ),
    "group": (
        lambda k, _: [
            e for e in dialog(k, settings(k), [described(k)])["layout"] if e.get("label") == "Pair"
        ],
        DOCUMENTS["dialog, group"],
    ),
    "array": (
        lambda k, _: [
            e for e in dialog(k, settings(k), [described(k)])["layout"] if e.get("label") == "Pairs"
        ],
        DOCUMENTS["dialog, array"],
    ),
    "schema of an array": (
        control("pairs", "schema"),
        DOCUMENTS["dialog, schema of an array"],
    ),
    "advanced": (texts(is_advanced=True), {"format": "string", "isAdvanced": True}),
    "label of a text": (
        lambda k, _: dialog(k, holder(some_text=k.StringParameter()))["layout"][0]["label"],
        "some_text",
    ),
    "choices": (
        choices(("a", "A", "first"), ("b", "B")),
        {
            "title": "Text",
            "description": "a text\n\n**Available options:**\n\n- A: first\n- B\n",
            "oneOf": [{"const": "a", "title": "A"}, {"const": "b", "title": "B"}],
        },
    ),
    "choices without descriptions": (
        choices(("a", "A"), ("b", "B")),
        {
            "title": "Text",
            "description": "a text",
            "oneOf": [{"const": "a", "title": "A"}, {"const": "b", "title": "B"}],
        },
    ),
    "choice without id": (choices(("", "A")), raises(ValueError)),
    "choice with a number": (choices((1, "A")), raises(TypeError)),
    "choices twice": (choices(("a", "A"), ("a", "B")), raises(ValueError)),
    "choices of the dialog": (
        texts("schema", choices=Dialog.get_credential_names),
        {
            "title": "Text",
            "description": "a text",
            "oneOf": [{"const": "me", "title": "me"}, {"const": "you", "title": "you"}],
        },
    ),
    "layout with choices of the dialog": (texts(choices=Dialog.get_credential_names), {"format": "string"}),
    "no choices": (texts(choices=lambda ctx: []), {"format": "dropDown", "placeholder": "No values present"}),
    "schema without choices": (
        texts("schema", choices=lambda ctx: []),
        {"title": "Text", "description": "a text", "type": "string"},
    ),
    "choices that are no list": (texts(choices=lambda ctx: "abc"), raises(TypeError)),
    "choices that are numbers": (texts(choices=lambda ctx: [1]), raises(TypeError)),
    "choices that fail": (texts(choices=lambda ctx: 1 / 0), raises(ZeroDivisionError)),
    "list of texts": (
        texts("schema", enum=["x", "y"]),
        {
            "title": "Text",
            "description": "a text",
            "oneOf": [{"const": "x", "title": "x"}, {"const": "y", "title": "y"}],
        },
    ),
    "tuple of texts": (texts(enum=("x", "y")), raises(TypeError)),
    "texts and choices": (texts(enum=["x"], choices=["y"]), raises(ValueError)),
    "choices in a text": (texts(choices="xy"), raises(TypeError)),
    "few colours": (enum("layout"), {"format": "radio"}),
    "many colours": (enum("layout", 5), {"format": "string"}),
    "colours in a list": (
        enum("layout", style=lambda k: k.EnumParameter.Style.DROPDOWN),
        {"format": "string"},
    ),
    "schema of colours": (
        enum("schema", 2),
        {
            "title": "Colour",
            "description": "which\n\n**Available options:**\n\n- Colour 0: number 0\n- Colour 1: number 1\n",
            "oneOf": [{"const": "C0", "title": "Colour 0"}, {"const": "C1", "title": "Colour 1"}],
        },
    ),
    "no colours": (
        lambda k, _: enum("schema", 0)(k, _)["oneOf"],
        [{"const": "DEFAULT_OPTION", "title": "Default"}],
    ),
    "column with row keys": (
        column(include_row_key=True, include_none_column=True),
        DOCUMENTS["dialog, column with row keys"],
    ),
    "columns that pass": (
        column(column_filter=lambda c: c.name == "b"),
        DOCUMENTS["dialog, columns that pass"],
    ),
    "column of nothing": (
        column(specs=lambda k: [None]),
        {"format": "dropDown", "showRowKeys": False, "showNoneColumn": False, "possibleValues": []},
    ),
    "column of a group": (
        column(port_index=(0, 1), specs=lambda k: [[None, described(k)]]),
        DOCUMENTS["dialog, column of a group"],
    ),
    "column beyond a group": (
        column(port_index=(0, 5), specs=lambda k: [[described(k)]]),
        {"format": "dropDown", "showRowKeys": False, "showNoneColumn": False, "possibleValues": []},
    ),
    "column of no group": (column(port_index=(0, 1)), raises(TypeError)),
    "column of no port": (column(port_index=1), raises(IndexError)),
    "column of no table": (
        column(specs=lambda k: [k.BinaryPortObjectSpec("id")]),
        raises(TypeError),
    ),
    "column of a provider": (
        column(schema_provider=lambda ctx: ctx.get_input_specs()[-1], specs=lambda k: [None, described(k)]),
        DOCUMENTS["dialog, column of a provider"],
    ),
    "chosen column": (column("data"), ""),
    "default column": (column("data", default_value="b"), "b"),
    "specs": (checked_specs(lambda k: [abc(k)]), "found"),
    "no specs": (checked_specs(lambda k: []), raises(ValueError)),
    "specs of no table": (checked_specs(lambda k: [k.BinaryPortObjectSpec("id")]), raises(TypeError)),
    "specs of a small group": (checked_specs(lambda k: [[]], port_index=(0, 1)), raises(ValueError)),
    "specs of a group": (checked_specs(lambda k: [[abc(k)]], port_index=(0, 0)), "found"),
    "rule on a flag": (
        ruled(lambda k, node, inner: k.OneOf(node.flag, [True])),
        DOCUMENTS["dialog, rule on a flag"],
    ),
    "rule on a group's setting": (
        ruled(lambda k, node, inner: k.OneOf(inner.depth, [1, 2])),
        DOCUMENTS["dialog, rule on a group's setting"],
    ),
    "rule on a list": (
        ruled(lambda k, node, inner: k.Contains(node.several, "a")),
        DOCUMENTS["dialog, rule on a list"],
    ),
    "rule on two": (
        ruled(lambda k, node, inner: k.Or(k.OneOf(node.flag, [True]), k.And(k.OneOf(node.other, [""])))),
        DOCUMENTS["dialog, rule on two"],
    ),
    "rule on the dialog": (
        ruled(lambda k, node, inner: k.DialogContextCondition(lambda ctx: ctx.get_flow_variables()["v"])),
        {"effect": "HIDE", "condition": {"scope": "#", "schema": {"type": ["object"]}}},
    ),
    "rule on a stranger": (
        ruled(lambda k, node, inner: k.OneOf(k.BoolParameter("F", ""), [True])),
        raises(ValueError),
    ),
    "rule that fails": (
        ruled(lambda k, node, inner: k.DialogContextCondition(lambda ctx: 1 / 0)),
        raises(ZeroDivisionError),
    ),
    "descriptions": (descriptions(False), [[{"name": "flag", "description": ""}], False]),
    "descriptions with a group": (
        descriptions(True),
        DOCUMENTS["dialog, descriptions with a group"],
    ),
    "schema of 1.0.0": (schema_of_version("1.0.0"), ["first"]),
    "schema of 1.1.0": (schema_of_version("1.1.0"), ["first", "second"]),
    "schema of nothing": (schema_of_version(None), ["first"]),
    "schema of a bad version": (schema_of_version("1"), raises(ValueError)),
    "loaded from 1.0.0": (loaded({"first": "x"}, "1.0.0"), ["x", "for 1.0.0", 0]),
    "loaded from 1.1.0": (loaded({"first": "x", "second": "y"}, "1.1.0"), ["x", "y", 1]),
    "loaded with news": (loaded({"first": "x", "third": 9}, "1.0.0"), ["x", "for 1.0.0", 9]),
    "loaded incomplete": (loaded({"first": "x"}, "1.1.0"), raises(ValueError)),
    "loaded without version": (loaded({"first": "x"}, None), ["x", "for 0.0.0", 0]),
    "loaded with strangers": (loaded({"first": "x", "other": 1}, "1.0.0"), ["x", "for 1.0.0", 0]),
    "loaded with a number": (loaded({"first": 1}, "1.0.0"), raises(TypeError)),
}
