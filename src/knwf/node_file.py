"""Nodes in a workflow: their settings file, read and written, and new nodes of Python extensions.

Written are all settings that KNIME's loader needs, keeps or checks, but no data of executed nodes; so an
executed node is written as configured. Pure.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from .configuration_nodes import CONFIGURATION_FACTORIES
from .json_parameters import from_model, is_json_model, to_model
from .settings_xml import Config, KnwfError, SettingsEntry, boolean, integer, string
from .workflow_model import (
    ORIGIN,
    Annotation,
    CanvasPosition,
    NativeNode,
    NodeState,
    PortGroup,
    VariableControl,
    WorkflowProblem,
    object_class,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

PYTHON_FACTORY: Final = (
    "org.knime.python3.nodes.extension.ExtensionNodeSetFactory$DynamicExtensionNodeFactory"
)
#: The key of a fixed port of a Python node.
_FIXED_GROUP: Final = re.compile(r"(Input|Output) .* # [0-9]+", re.DOTALL)
#: The plug-in that brings the node: its name, symbolic name and vendor.
_BUNDLE: Final = ("node-bundle-name", "node-bundle-symbolic-name", "node-bundle-vendor")
#: The installable extension that has the plug-in.
_FEATURE: Final = ("node-feature-name", "node-feature-symbolic-name", "node-feature-vendor")
_REQUIRED: Final = (
    *("flow_stack", "internal_node_subsettings", "state", "factory", "node-name"),
    *_BUNDLE,
    *("hasContent", "filestores"),
)
#: Keys that are fields of the model, and keys about the data that the node had when it was saved.
_UNDERSTOOD: Final = frozenset(
    (
        *_REQUIRED,
        *("node_file", "model", "variables", "nodeAnnotation", "customName", "customDescription"),
        *("factory_settings", "node_creation_config", "name", "isInactive", "ports"),
        *("nodecontainer_message", "internalTables", "internalObjects", "execution.job", "job.manager.dir"),
    )
)
_CONTROL_VERSION: Final = "V_2019_09_13"
#: Keys of an annotation's settings and its attributes for them, in KNIME's order.
_ANNOTATION_KEYS: Final = {
    "text": "text",
    "contentType": "content_type",
    "bgcolor": "background",
    "x-coordinate": "x",
    "y-coordinate": "y",
    "width": "width",
    "height": "height",
    "alignment": "alignment",
    "borderSize": "border_size",
    "borderColor": "border_color",
    "defFontSize": "font_size",
}


def read_node(
    settings: Config, node_id: int, position: CanvasPosition
) -> tuple[NativeNode, list[WorkflowProblem]]:
    """Reads a node of the root of its settings file; returns it with its problems.

    KnwfError if the settings name no factory, so that the kind of node is unknown.
    """
    factory = settings.text("factory")
    if not factory:
        raise KnwfError("its settings do not say which node it is: the key 'factory' is missing")
    name = settings.text("name") or settings.text("node-name") or factory.rpartition(".")[2]
    where = f"node {node_id} ({name})"
    outputs = len((settings.config("ports") or Config("ports")).configs())
    created = settings.config("node_creation_config") or Config("node_creation_config")
    groups = tuple(_read_port_group(group, factory) for group in created.configs())
    model = settings.config("model")
    annotation = settings.config("nodeAnnotation")
    problems: list[WorkflowProblem] = []
    state = settings.text("state")
    if state and state not in NodeState.__members__:
        # Other states are those of running nodes, which a file has only by accident.
        problems.append(WorkflowProblem("warning", where, f"its state {state!r} is taken for IDLE"))
    for key in _REQUIRED:
        if key not in settings:
            problems.append(WorkflowProblem("error", where, f"the key {key!r} is missing in its settings"))
    if model is not None and is_json_model(model):
        try:
            from_model(model)
        except KnwfError as error:
            problems.append(WorkflowProblem("error", where, f"its parameters are broken: {error}"))
    bundle_name, symbolic_name, vendor = (settings.text(key) for key in _BUNDLE)
    node = NativeNode(
        id=node_id,
        name=name,
        factory=factory,
        factory_settings=settings.config("factory_settings") or Config("factory_settings"),
        model=model,
        outputs=outputs,
        inputs=_inputs(factory, groups, outputs),
        port_groups=groups,
        variables=_read_controls(settings.config("variables")),
        position=position,
        state=NodeState.__members__.get(state, NodeState.IDLE),
        annotation=settings.text("customName") if annotation is None else annotation.text("text"),
        description=settings.text("customDescription") or None,
        bundle=(bundle_name, symbolic_name, vendor),
        other=tuple(child for child in settings if child.key not in _UNDERSTOOD),
    )
    return node, problems


def node_settings(node: NativeNode) -> Config:
    """The settings file of a node, with KNIME's keys in KNIME's order."""
    # KNIME loads what is saved as idle with wrong settings silently with the defaults, and misses the data
    # of what is saved as executed.
    state = NodeState.CONFIGURED if node.state is NodeState.EXECUTED else node.state
    children: list[SettingsEntry | Config] = [
        string("node_file", "settings.xml"),
        Config("flow_stack"),
        Config("internal_node_subsettings", (string("memory_policy", "CacheSmallInMemory"),)),
    ]
    if node.model is not None:
        children.append(node.model.with_key("model"))
    if node.variables:
        tree = Config("tree", _control_tree(node.variables))
        children.append(Config("variables", (string("version", _CONTROL_VERSION), tree)))
    if node.annotation:
        children.append(_label(node))
    children += [
        string("customDescription", node.description),
        string("state", state),
        string("factory", node.factory),
        string("node-name", node.name),
        *map(string, _BUNDLE, node.bundle),
        node.factory_settings.with_key("factory_settings"),
    ]
    if node.port_groups:
        children.append(Config("node_creation_config", tuple(map(_port_settings, node.port_groups))))
    children += [
        string("name", node.name),
        boolean("hasContent", value=False),
        boolean("isInactive", value=False),
        Config("ports", tuple(map(_output, range(1, node.outputs + 1)))),
        Config("filestores", (string("file_store_location", None), string("file_store_id", None))),
        *node.other,
    ]
    return Config("settings.xml", tuple(children))


def _output(index: int) -> Config:
    return Config(f"port_{index}", (integer("index", index), string("port_dir_location", None)))


def _label(node: NativeNode) -> Config:
    """A node's label, with the look that KNIME gives to labels."""
    place = node.position
    x, y = place.x - 30, place.y + place.height + 10
    look = Annotation(
        node.annotation, x, y, place.width + 60, 20, border_size=0, border_color=0xFFFFFF, alignment="CENTER"
    )
    return annotation_settings("nodeAnnotation", look)


def read_annotation(config: Config) -> Annotation:
    """A note on the canvas; values that are missing or of another type get their default."""
    plain = Annotation("", border_size=0, border_color=0, styles=config.config("styles") or Config("styles"))
    stored = {name: config.value(key) for key, name in _ANNOTATION_KEYS.items()}
    valid = {name: value for name, value in stored.items() if type(value) is type(getattr(plain, name))}
    if valid.get("content_type") != "text/html":
        valid["content_type"] = "text/plain"
    return replace(plain, **valid)  # pyright: ignore[reportArgumentType]


def annotation_settings(key: str, note: Annotation) -> Config:
    values = {key: getattr(note, name) for key, name in _ANNOTATION_KEYS.items()}
    entries = (integer(k, v) if isinstance(v, int) else string(k, v) for k, v in values.items())
    return Config(key, (*entries, integer("annotation-version", 20230412), note.styles.with_key("styles")))


def _read_port_group(group: Config, factory: str) -> PortGroup:
    if factory == PYTHON_FACTORY and _FIXED_GROUP.fullmatch(group.key):
        return PortGroup(group.key, fixed=True)
    if "object_class" in group:
        return PortGroup(group.key, (group.text("object_class"),), exchangeable=True)
    return PortGroup(group.key, tuple(port.text("object_class") for port in group.configs()))


def _port_settings(group: PortGroup) -> Config:
    if group.exchangeable:
        return Config(group.id, tuple(string("object_class", java) for java in group.object_classes[:1]))
    added = () if group.fixed else enumerate(group.object_classes)
    return Config(group.id, tuple(Config(f"port_{i}", (string("object_class", java),)) for i, java in added))


def _inputs(factory: str, groups: tuple[PortGroup, ...], outputs: int) -> int | None:
    """The number of inputs, None if neither the file nor the kind of node tells.

    Files of Python nodes name all ports; those of other nodes name at most the ports that a user can change.
    """
    if factory in CONFIGURATION_FACTORIES:
        return 0
    total = sum(group.count for group in groups)
    return total - outputs if factory == PYTHON_FACTORY and groups and total >= outputs else None


def _read_controls(variables: Config | None) -> tuple[VariableControl, ...]:
    tree = None if variables is None else variables.config("tree") or variables
    if tree is None:
        return ()
    controls: list[VariableControl] = []
    pending: list[tuple[tuple[str, ...], Config]] = [((), tree)]
    while pending:
        path, config = pending.pop()
        if path and ("used_variable" in config or "exposed_variable" in config):
            used = config.text("used_variable") or None
            exposed = config.text("exposed_variable") or None
            controls += [VariableControl(path, used, exposed)] if used or exposed else []
        else:
            # Taken from the end, so that the controls are in the order of the file.
            pending += [((*path, inner.key), inner) for inner in reversed(config.configs())]
    return tuple(controls)


def _control_tree(controls: Iterable[VariableControl], depth: int = 0) -> tuple[SettingsEntry | Config, ...]:
    groups: dict[str, list[VariableControl]] = {}
    for control in controls:
        groups.setdefault(control.path[depth], []).append(control)
    tree: list[SettingsEntry | Config] = []
    for key, members in groups.items():
        leaf = next((control for control in members if len(control.path) == depth + 1), None)
        if leaf is None:
            tree.append(Config(key, _control_tree(members, depth + 1)))
        else:
            tree.append(
                Config(key, (string("used_variable", leaf.used), string("exposed_variable", leaf.exposed)))
            )
    return tuple(tree)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeclaredPort:
    """A port as a Python node declares it, and the number of such ports in this node."""

    name: str  # name of the port
    type: str = "PortType.TABLE"  # the port's type, as in `object_class`
    optional: bool = False  # whether the port can be absent
    group: bool = False  # whether a node can have any number of these ports
    present: int = 1  # the number of ports: 0 or 1 for an optional port, any number for a group, 1 for others


def extension_node(
    node_id: int,
    name: str,
    *,
    extension_id: str,
    extension_node_id: str,
    version: str,
    title: str = "",
    vendor: str = "",
    parameters: Mapping[str, Any] | None = None,
    schema: Mapping[str, Any] | None = None,
    inputs: Sequence[DeclaredPort] = (),
    outputs: Sequence[DeclaredPort] = (),
    variables: Sequence[VariableControl] = (),
    position: CanvasPosition = ORIGIN,
    annotation: str = "",
) -> NativeNode:
    """Makes a node of a Python extension, with all its declared ports in order.

    ``parameters`` is the *whole* JSON document ``{"model": {…}}``, as KNIME refuses one that lacks a
    parameter of this version; None leaves the defaults. ``schema`` is the node's, see
    `json_parameters.to_model`. ``title`` and ``vendor`` are the extension's in its ``knime.yml``
    (``description``, ``vendor``): by them KNIME tells a person which extension is missing, and looks for it.
    """
    groups_in = tuple(_port_group(port, "Input", i) for i, port in enumerate(inputs))
    groups_out = tuple(_port_group(port, "Output", i) for i, port in enumerate(outputs))
    # KNIME's bundler makes a plug-in with the extension's id, in a feature whose name has one word more.
    group, _, name_in_group = extension_id.rpartition(".")
    feature = (title or extension_id, f"{group}.features.{name_in_group}.feature.group", vendor)
    return NativeNode(
        id=node_id,
        name=name,
        factory=PYTHON_FACTORY,
        factory_settings=Config(
            "factory_settings", (string("extension_id", extension_id), string("node_id", extension_node_id))
        ),
        model=None if parameters is None else to_model(parameters, version, schema=schema),
        inputs=sum(group.count for group in groups_in),
        outputs=sum(group.count for group in groups_out),
        port_groups=groups_in + groups_out,
        variables=tuple(variables),
        position=position,
        annotation=annotation,
        bundle=(title or extension_id, extension_id, vendor),
        other=tuple(map(string, _FEATURE, feature)),
    )


def _port_group(port: DeclaredPort, direction: str, index: int) -> PortGroup:
    fixed = not (port.optional or port.group)
    if port.present < 0 or (not port.group and port.present > 1) or (fixed and port.present != 1):
        raise KnwfError(f"port {port.name!r} cannot be there {port.present} times")
    if fixed:
        return PortGroup(f"{direction} {port.name} # {index}", fixed=True)
    return PortGroup(port.name, (object_class(port.type),) * port.present)
