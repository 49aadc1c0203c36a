"""Classes that nodes are made of: ports, specs, views, versions."""

from tests.standin.api.tools import made, raises


def shown(**members):
    return type("Shown", (), members)()


CLASSES = {
    "category of no module": (
        lambda k, _: eval('declare("/community/", "l", "n", "d", "i")', {"declare": k.category}),
        "/community/l",
    ),
    "optional port": (
        lambda k, _: k.input_table("P", "p", optional=None)(type("N", (), {})).input_ports[0].optional,
        None,
    ),
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
    "view without a picture": (lambda k, _: k.view_html("<p>").render(), raises(NotImplementedError)),
}


SPECS = {
    "binary": (
        lambda k, _: [
            k.BinaryPortObjectSpec("x").serialize(),
            k.BinaryPortObjectSpec.deserialize({"id": "y"}).id,
        ],
        [{"id": "x"}, "y"],
    ),
    "binary with a callback": (
        lambda k, _: k.BinaryPortObjectSpec.deserialize({"id": "y"}, None),
        raises(TypeError),
    ),
    "image": (
        lambda k, _: [
            k.ImagePortObjectSpec(k.ImageFormat.SVG).format,
            k.ImagePortObjectSpec("png").serialize(),
        ],
        ["svg", {"format": "png"}],
    ),
    "image of a number": (lambda k, _: k.ImagePortObjectSpec(5), raises(AttributeError)),
    "image of another format": (lambda k, _: k.ImagePortObjectSpec("gif").format, "gif"),
    "no credential": (lambda k, _: k.CredentialPortObjectSpec.deserialize({}).serialize(), {"data": None}),
    "credential": (
        lambda k, _: k.CredentialPortObjectSpec.deserialize({"data": "x"}).serialize(),
        {"data": "x"},
    ),
    "port types": (
        lambda k, _: [k.PortType.TABLE, k.PortType.WORKFLOW, k.PortType.HUB_AUTHENTICATION],
        ["PortType.TABLE", "PortType.WORKFLOW", "PortType.HUB_AUTHENTICATION"],
    ),
    "versions": (
        lambda k, _: [
            str(k.Version.parse_version(v))
            for v in (None, "1.2.3", k.Version(4, 5, 6), "+1.0.0", " 1 . 2 . 3 ")
        ],
        ["0.0.0", "1.2.3", "4.5.6", "1.0.0", "1.2.3"],
    ),
    "version of a number": (lambda k, _: k.Version.parse_version(1), raises(AttributeError)),
    "version with a letter": (lambda k, _: k.Version.parse_version("1.0.0a"), raises(ValueError)),
    "versions compared": (
        lambda k, _: [
            k.Version(1, 0, 0) == (1, 0, 0),
            k.Version(1, 2, 0) < k.Version(1, 10, 0),
            k.Version(1, 2, 3).minor,
        ],
        [True, True, 2],
    ),
    "node types": (
        lambda k, _: [kind.value for kind in k.NodeType],
        ["Source", "Sink", "Learner", "Predictor", "Manipulator", "Visualizer", "Other"],
    ),
    "image formats": (lambda k, _: [kind.value for kind in k.ImageFormat], ["png", "svg"]),
    "effects": (lambda k, _: [kind.value for kind in k.Effect], ["SHOW", "HIDE", "ENABLE", "DISABLE"]),
    "layouts": (
        lambda k, _: [kind.value for kind in k.LayoutDirection],
        ["VerticalLayout", "HorizontalLayout"],
    ),
    "invalid parameters": (
        lambda k, _: [str(k.InvalidParametersError("x")), issubclass(k.WorkflowExecutionError, RuntimeError)],
        ["x", True],
    ),
    "invalid parameters of nothing": (lambda k, _: k.InvalidParametersError(), raises(TypeError)),
}
