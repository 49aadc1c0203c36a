"""What a node asks its context for, and what it may do to flow variables."""

import dataclasses

from tests.headless.api.tools import raises


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
