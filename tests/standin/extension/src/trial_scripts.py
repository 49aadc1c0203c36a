"""A node that runs a case of the API."""

import json

import knime.extension as knext
from trial_base import as_table, category


@knext.node("Script", knext.NodeType.OTHER, "icons/icon.png", category)
@knext.input_table("In", "a table")
@knext.output_table("Out", "what the case gives")
class Script:
    """Runs a case while it executes.

    The case is given its context and its input.
    """

    case = knext.StringParameter("Case", "its name", "")

    def configure(self, ctx, schema):
        return None

    def execute(self, ctx, table):
        from tests.standin.api.cases import RUNNING
        from tests.standin.api.tools import Given, outcome

        case, _ = RUNNING[self.case]
        return as_table(["outcome"], [json.dumps(outcome(case, Given(ctx, table)))])
