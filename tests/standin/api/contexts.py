"""What a node asks its context for, and what it may do to flow variables."""

import dataclasses
from pathlib import Path

from tests.standin.api.tools import raises


class JavaSide:
    """What a unit test puts behind a context, in place of KNIME's Java side."""

    def __init__(self):
        self.told = []

    def get_credential_names(self):
        return ("me",)

    def get_credentials(self, identifier):
        return ["user", "word", identifier]

    def get_input_specs(self):
        return ["spec", "more"]

    def get_input_port_map(self):
        return {"Many": (0, 1)}

    def get_output_port_map(self):
        return {}

    def set_warning(self, *told):
        self.told.append(told)

    set_progress = set_warning

    def is_canceled(self):
        return True

    def get_workflow_dir(self):
        return "workflow"

    def get_workflow_temp_dir(self):
        return "temp"

    def get_knime_home_dir(self):
        return "home"


def behind(ask):
    """What a context says that asks such a Java side."""
    return lambda knext, _: ask(knext.ExecutionContext(JavaSide(), {"v": 1}), knext)


def port_numbers(context, knext):
    from knime.extension.nodes import Port, PortGroup

    ports = [Port(knext.PortType.TABLE, "One", ""), PortGroup(knext.PortType.TABLE, "Many", "")]
    asked = knext.ConfigurationContext(JavaSide(), {}, ports, ports)
    return [asked.get_connected_input_port_numbers(), asked.get_connected_output_port_numbers()]


def told(context, knext):
    context.set_warning(5)
    context.set_progress(1)
    context.set_progress(0.5, "half")
    return [list(given) for given in context._java_ctx.told]


#: Contexts that a unit test makes.
def version_of_extension():
    from knime.extension.parameter import _extension_version

    return str(_extension_version)


OWN_CONTEXTS = {
    "version of the extension": (lambda k, g: version_of_extension(), "1.2.0"),
    "variables": (behind(lambda c, _: c.flow_variables["v"]), 1),
    "credentials": (
        behind(lambda c, _: [c.get_credential_names(), c.get_credentials("you").password]),
        [["me"], "word"],
    ),
    "what it tells": (behind(told), [["5"], [1.0], [0.5, "half"]]),
    "canceled": (behind(lambda c, _: c.is_canceled()), True),
    "folders": (
        behind(
            lambda c, _: [
                c.get_workflow_temp_dir(),
                Path(c.get_workflow_data_area_dir()).as_posix(),
                c.get_knime_home_dir(),
            ]
        ),
        ["temp", "workflow/data", "home"],
    ),
    "numbers of ports": (behind(port_numbers), [[1, 2], [1, 0]]),
    "numbers of unknown ports": (
        behind(lambda c, _: c.get_connected_input_port_numbers()),
        raises(AssertionError),
    ),
    "specs of a dialog": (
        lambda k, _: k.DialogCreationContext(
            JavaSide(), {}, lambda specs, ports: [specs, ports]
        ).get_input_specs(),
        [["spec", "more"], {"Many": [0, 1]}],
    ),
}


def variables(name, value):
    def case(knext, given):
        given.context.flow_variables[name] = value
        return given.context.flow_variables[name]

    return case


def asked(function):
    return lambda knext, given: function(given.context)


def port_type(knext, ask):
    from knime.extension import nodes

    return ask(nodes)


def again(knext, nodes):
    loud = nodes.get_port_type_for_id("org.example.loud")
    return knext.port_type("Again", loud.object_class, type("Spec", (knext.PortObjectSpec,), {}))


def own_type(nodes, knext):
    name = "org.knime.credentials.base.CredentialPortObject"
    by_spec = nodes.get_port_type_for_spec_type(knext.CredentialPortObjectSpec)
    return [nodes.has_port_type_for_id(name), by_spec.id == name, by_spec.spec_class.__name__]


CONTEXTS = {
    "version of the extension": (lambda k, g: version_of_extension(), "1.2.0"),
    "no variable": (asked(lambda c: c.flow_variables["nothing"]), raises(KeyError)),
    "variable or not": (
        asked(lambda c: [c.flow_variables.get("nothing"), "given" in c.flow_variables]),
        [None, True],
    ),
    "boolean variable": (variables("x", True), True),
    "text variable": (variables("x", "y"), "y"),
    "list variable": (variables("x", [1.5, 2.5]), [1.5, 2.5]),
    "reserved variable": (variables("knime.x", 1), raises(ValueError)),
    "reserved variable without a dot": (variables("knimex", 1), raises(ValueError)),
    "number as a name": (variables(1, 1), raises(TypeError)),
    "variable taken out": (asked(lambda c: c.flow_variables.pop("given")), raises(RuntimeError)),
    "variables cleared": (asked(lambda c: c.flow_variables.clear()), raises(RuntimeError)),
    "variables updated": (
        asked(lambda c: [c.flow_variables.update(a=1, b="x"), c.flow_variables["b"]]),
        [None, "x"],
    ),
    "variables replaced": (asked(lambda c: setattr(c, "flow_variables", {})), raises(AttributeError)),
    "variables of a dictionary": (asked(lambda c: sorted({**c.flow_variables})), ["given"]),
    "credentials": (asked(lambda c: c.get_credential_names()), ["me"]),
    "credential": (
        asked(lambda c: [str(c.get_credentials("me").username), c.get_credentials("me").credential_name]),
        ["user", "me"],
    ),
    "credential changed": (
        asked(lambda c: setattr(c.get_credentials("me"), "password", "x")),
        raises(dataclasses.FrozenInstanceError),
    ),
    "no credential": (asked(lambda c: c.get_credentials("you")), raises(KeyError)),
    "sizes": (
        asked(lambda c: [c.get_connected_input_port_numbers(), c.get_connected_output_port_numbers()]),
        [[1], [1]],
    ),
    "warning that is no text": (asked(lambda c: c.set_warning(5)), None),
    "progress": (
        asked(lambda c: [c.set_progress(0), c.set_progress(True, "x"), c.set_progress(1.00001)]),
        [None] * 3,
    ),
    "progress of no number": (asked(lambda c: c.set_progress(float("nan"))), None),
    "progress below": (asked(lambda c: c.set_progress(-0.1)), raises(ValueError)),
    "progress of none": (asked(lambda c: c.set_progress(None)), raises(TypeError)),
    "progress with a number": (asked(lambda c: c.set_progress(0.5, 5)), raises(TypeError)),
    "canceled": (asked(lambda c: c.is_canceled()), False),
    "folders": (
        asked(
            lambda c: [
                isinstance(f(), str)
                for f in (c.get_workflow_temp_dir, c.get_workflow_data_area_dir, c.get_knime_home_dir)
            ]
        ),
        [True] * 3,
    ),
    "variables joined": (asked(lambda c: c.flow_variables | {"a": 1}), raises(TypeError)),
    "variables copied": (asked(lambda c: c.flow_variables.copy()["given"]), 1),
    "specs": (asked(lambda c: c.get_input_specs()), raises(AttributeError)),
    "port type by id": (
        lambda k, g: port_type(k, lambda n: n.get_port_type_for_id("org.example.loud").name),
        "Loud words",
    ),
    "unknown port type": (
        lambda k, g: port_type(k, lambda n: n.get_port_type_for_id("nothing")),
        raises(KeyError),
    ),
    "known port type": (
        lambda k, g: port_type(
            k, lambda n: [n.has_port_type_for_id("org.example.loud"), n.has_port_type_for_id("x")]
        ),
        [True, False],
    ),
    "KNIME's own port type by id": (
        lambda k, g: port_type(k, lambda n: own_type(n, k)),
        [True, True, "CredentialPortObjectSpec"],
    ),
    "port type by spec": (
        lambda k, g: port_type(k, lambda n: n.get_port_type_for_spec_type(k.Schema)),
        raises(KeyError),
    ),
    "port type twice": (lambda k, g: port_type(k, lambda n: again(k, n)), raises(ValueError)),
}
