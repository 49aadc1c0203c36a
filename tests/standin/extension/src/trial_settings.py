"""Nodes with parameters of all kinds, and of several versions."""

import json

import knime.extension as knext
from trial_base import as_table, category


class Mode(knext.EnumParameterOptions):
    PLAIN = ("Plain", "as it is")
    LOUD = ("Loud", "in capitals")
    HIDDEN = ("Hidden", "nobody sees it")


class Many(knext.EnumParameterOptions):
    A = ("A", "a")
    B = ("B", "b")
    C = ("C", "c")
    D = ("D", "d")
    E = ("E", "e")


@knext.parameter_group(label="Argument")
class Argument:
    name = knext.StringParameter("Name", "its name", "n")
    value = knext.DoubleParameter("Value", "its value", 0.5, max_value=9.5)


def detailed(ctx):
    return [
        knext.StringParameter.Choice("<none>", "None"),
        *(
            knext.StringParameter.Choice(name, name.upper(), f"called {name}")
            for name in ctx.get_credential_names()
        ),
    ]


@knext.node("Settings", knext.NodeType.SOURCE, "icons/icon.png", category, keywords=["trial"])
@knext.input_table("In", "a table", optional=True)
@knext.output_table("Out", "the settings")
class Settings:
    """Writes its settings into a table.

    All kinds of them.
    """

    mode = knext.EnumParameter(
        "Mode", "the mode", Mode.PLAIN.name, Mode, style=knext.EnumParameter.Style.VALUE_SWITCH
    )
    many = knext.EnumParameter("Many", "one of many", "C", Many, is_advanced=True)
    credential = knext.StringParameter("Credential", "whose", "<none>", choices=detailed)
    naive = knext.StringParameter(
        "Naive", "adopts the first choice", choices=lambda ctx: ctx.get_credential_names()
    )
    lines = knext.MultilineStringParameter("Lines", "some text", "a\nb", number_of_lines=4)
    flag = knext.BoolParameter("Flag", "a flag", True)
    number = knext.DoubleParameter("Number", "a number", 1.5, max_value=2.5)
    made = knext.IntParameter("Made", "depends on the version", lambda version: version.minor, min_value=0)
    column = knext.ColumnParameter(
        "Column", "a column", column_filter=lambda c: c.ktype == knext.string(), include_none_column=True
    )
    arguments = knext.ParameterArray(
        Argument(), "Arguments", "name and value", button_text="Add", array_title="Argument"
    )
    ruled = knext.BoolParameter("Shown", "rules", False, is_advanced=True).rule(
        knext.And(knext.OneOf(made, [1, 2]), knext.OneOf(flag, [True])), knext.Effect.SHOW
    )
    with_input = knext.BoolParameter("With input", "rules", False).rule(
        knext.DialogContextCondition(lambda ctx: ctx.get_input_specs()[0] is not None), knext.Effect.HIDE
    )

    def configure(self, ctx, schema):
        if self.mode == "HIDDEN":
            raise knext.InvalidParametersError("hidden is not possible")
        if self.column is None and schema is not None:
            self.column = schema.column_names[0]
        ctx.set_warning("first")
        ctx.set_warning("second")
        return knext.Schema.from_columns(
            [knext.Column(knext.string(), "name"), knext.Column(knext.string(), "value")]
        )

    def execute(self, ctx, table):
        values = {
            "mode": self.mode,
            "column": self.column,
            "arguments": [[a.name, a.value] for a in self.arguments],
            "credential": self.credential,
            "naive": self.naive,
            "made": self.made,
        }
        self.flag = False
        return as_table(list(values), [json.dumps(v) for v in values.values()])


@knext.node("Old and new", knext.NodeType.OTHER, "icons/icon.png", category, id="versions")
@knext.output_table("Out", "nothing")
class Versions:
    """Has settings of several versions.

    They are loaded from old documents.
    """

    first = knext.StringParameter("First", "since the beginning", "one")
    second = knext.StringParameter("Second", "since 1.1.0", lambda v: f"two of {v}", since_version="1.1.0")

    def _modify_parameters(self, parameters):
        if "zeroth" in parameters:
            parameters["first"] = parameters["zeroth"]
        return parameters

    def configure(self, ctx):
        return None

    def execute(self, ctx):
        return as_table([], [])
