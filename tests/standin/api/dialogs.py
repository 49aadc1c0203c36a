"""What dialogs show of settings: schemas, controls and rules."""

from tests.standin.api.parameters import items, settings
from tests.standin.api.tools import Dialog, abc, dialog, holder, raises

METADATA = {"preferred_value_type": "IntValue", "displayed_column_type": "Int"}
COLUMNS = [
    {"id": name, "text": name, "type": {"id": "IntValue", "text": "Int"}, "compatibleTypes": ["IntValue"]}
    for name in "abc"
]
DROP_DOWN = {"format": "dropDown", "showRowKeys": False, "showNoneColumn": False}


def limits(**bounds):
    words = {"min": "least", "max": "most"}
    return {
        key: {
            "parameters": {key: bound, "isExclusive": False},
            "errorMessage": f"The value must be at {words[key]} {bound}.",
        }
        for key, bound in bounds.items()
    }


def control(name, part="options"):
    """The control of a setting, or what the schema says of it."""

    def case(knext, _):
        shown = dialog(settings(knext), [abc(knext, METADATA)])
        if part == "schema":
            return shown["schema"][name]
        return next(e for e in shown["layout"] if e.get("scope", "").endswith(f"/{name}"))[part]

    return case


def only(make, part="layout", specs=lambda knext: [abc(knext, METADATA)]):
    """The control of the only setting, or another part of its dialog."""

    def case(knext, _):
        found = dialog(holder(own=make(knext)), specs(knext))
        return found["layout"][0]["options"] if part == "layout" else found[part]["own"]

    return case


def text(part="layout", **options):
    return only(lambda knext: knext.StringParameter("Text", "a text", **options), part)


def choices(*entries):
    """A text whose choices are made of ids, labels and descriptions."""

    def case(knext, _):
        made = lambda ctx: [knext.StringParameter.Choice(*entry) for entry in entries]  # noqa: E731
        return text("schema", choices=made)(knext, _)

    return case


def column(part="layout", specs=lambda knext: [abc(knext, METADATA)], **options):
    return only(lambda knext: knext.ColumnParameter("Column", "a column", **options), part, specs)


def checked_specs(specs, **options):
    """Whether a column parameter finds its port."""

    def case(knext, _):
        from knime.extension import parameter as kp

        node = holder(column=knext.ColumnParameter("Column", "a column", **options))
        kp.validate_specs(node, specs(knext))
        return "found"

    return case


def ruled(make):
    """The rule of a setting beside others, given a function of the API and the class."""

    def case(knext, _):
        class Node:
            flag = knext.BoolParameter("Flag", "")
            other = knext.StringParameter("Other", "")

        Node.other.rule(make(knext, Node), knext.Effect.HIDE)
        return next(e for e in dialog(Node())["layout"] if e.get("label") == "Other")["rule"]

    return case


def enum(part="layout", count=3, style=None):
    def make(knext):
        colours = {f"C{i}": (f"Colour {i}", f"number {i}") for i in range(count)}
        options = knext.EnumParameterOptions("Colours", colours)
        shown = None if style is None else knext.EnumParameter.Style[style]
        return knext.EnumParameter("Colour", "which", "C0", options, style=shown)

    return only(make, part)


def descriptions(knext, _):
    from knime.extension import parameter as kp

    found = kp.extract_parameter_descriptions(holder(flag=knext.BoolParameter(None, None)))
    return found if isinstance(found, list) else found[0]  # KNIME's own says, too, if they are in tabs


FLAG = {"scope": "#/properties/model/properties/flag", "schema": {"oneOf": [{"const": True}]}}
DIALOGS = {
    "whole": (control("whole"), {"format": "integer", "validation": limits(min=0, max=9)}),
    "schema of whole": (
        control("whole", "schema"),
        {"title": "Whole", "description": "", "type": "integer", "format": "int32"},
    ),
    "number": (control("number"), {"format": "number", "validation": limits(max=1.0)}),
    "schema of number": (
        control("number", "schema"),
        {"title": "Number", "description": "", "format": "double", "type": "number"},
    ),
    "flag": (control("flag"), {"format": "boolean"}),
    "lines": (control("lines"), {"format": "textArea", "rows": 3}),
    "column": (control("column"), {**DROP_DOWN, "possibleValues": COLUMNS}),
    "array": (
        only(lambda k: items(k), "schema"),
        {
            "title": "Items",
            "description": "",
            "type": "array",
            "items": {
                "type": "object",
                "properties": {
                    "name": {"title": "Name", "description": "its name", "type": "string", "default": "n"},
                    "count": {
                        "title": "Count",
                        "description": "how many",
                        "type": "integer",
                        "format": "int32",
                        "default": 1,
                    },
                },
            },
        },
    ),
    "advanced": (text(is_advanced=True), {"format": "string", "isAdvanced": True}),
    "label of a text": (
        lambda k, _: dialog(holder(some_text=k.StringParameter()))["layout"][0]["label"],
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
    "layout with choices of the dialog": (text(choices=Dialog.get_credential_names), {"format": "string"}),
    "no choices": (text(choices=lambda ctx: []), {"format": "dropDown", "placeholder": "No values present"}),
    "schema without choices": (
        text("schema", choices=lambda ctx: []),
        {"title": "Text", "description": "a text", "type": "string"},
    ),
    "choices that are no list": (text(choices=lambda ctx: "abc"), raises(TypeError)),
    "choices that are numbers": (text(choices=lambda ctx: [1]), raises(TypeError)),
    "choices that fail": (text(choices=lambda ctx: 1 / 0), raises(ZeroDivisionError)),
    "few colours": (enum(), {"format": "radio"}),
    "many colours": (enum(count=5), {"format": "string"}),
    "colours in a switch": (enum(style="VALUE_SWITCH"), {"format": "valueSwitch"}),
    "schema of colours": (
        enum("schema", 2),
        {
            "title": "Colour",
            "description": "which\n\n**Available options:**\n\n- Colour 0: number 0\n- Colour 1: number 1\n",
            "oneOf": [{"const": "C0", "title": "Colour 0"}, {"const": "C1", "title": "Colour 1"}],
        },
    ),
    "columns that pass": (
        column(column_filter=lambda c: c.name == "b"),
        {**DROP_DOWN, "possibleValues": COLUMNS[1:2]},
    ),
    "column or none": (
        column(column_filter=lambda c: False, include_none_column=True),
        {**DROP_DOWN, "showNoneColumn": True, "possibleValues": [{"id": "<none>", "text": "None"}]},
    ),
    "column of nothing": (column(specs=lambda k: [None]), {**DROP_DOWN, "possibleValues": []}),
    "column of no port": (column(port_index=1), raises(IndexError)),
    "column of no table": (column(specs=lambda k: [k.CredentialPortObjectSpec("")]), raises(TypeError)),
    "chosen column": (column("data"), ""),
    "default column": (column("data", default_value="b"), "b"),
    "specs": (checked_specs(lambda k: [abc(k)]), "found"),
    "no specs": (checked_specs(lambda k: []), raises(ValueError)),
    "specs of no table": (checked_specs(lambda k: [k.CredentialPortObjectSpec("")]), raises(TypeError)),
    "rule on a flag": (
        ruled(lambda k, node: k.OneOf(node.flag, [True])),
        {"effect": "HIDE", "condition": FLAG},
    ),
    "rule on two": (
        ruled(lambda k, node: k.And(k.OneOf(node.flag, [True]), k.DialogContextCondition(lambda ctx: False))),
        {
            "effect": "HIDE",
            "condition": {
                "type": "AND",
                "conditions": [FLAG, {"scope": "#", "schema": {"type": ["null"]}}],
            },
        },
    ),
    "rule on the dialog": (
        ruled(lambda k, node: k.DialogContextCondition(lambda ctx: ctx.get_credential_names())),
        {"effect": "HIDE", "condition": {"scope": "#", "schema": {"type": ["object"]}}},
    ),
    "rule on a stranger": (
        ruled(lambda k, node: k.OneOf(k.BoolParameter("F", ""), [True])),
        raises(ValueError),
    ),
    "rule that fails": (
        ruled(lambda k, node: k.DialogContextCondition(lambda ctx: 1 / 0)),
        raises(ZeroDivisionError),
    ),
    "descriptions": (descriptions, [{"name": "flag", "description": ""}]),
}
