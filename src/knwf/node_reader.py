"""Reads the settings file of one native node: returns the node and its problems. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from .boundary import BOUNDARY_FACTORIES
from .concatenate import CONCATENATE_FACTORY, concatenate_inputs
from .configuration import CONFIGURATION_FACTORIES
from .nodes import PYTHON_FACTORY, is_fixed_group
from .parameters import from_model, is_json_model
from .settings import Config, KnwfError
from .string_to_path import STRING_TO_PATH_FACTORY
from .table_creator import TABLE_CREATOR_FACTORY
from .workflow import NativeNode, NodeState, PortGroup, Problem, VariableControl
from .workflow_to_tool import WORKFLOW_TO_TOOL_FACTORY

if TYPE_CHECKING:
    from .workflow import Position

_BUNDLE: Final = ("node-bundle-name", "node-bundle-symbolic-name", "node-bundle-vendor")
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


def read_node(settings: Config, node_id: int, position: Position) -> tuple[NativeNode, list[Problem]]:
    """Reads a node.

    Args:
        settings: The root of the node's settings file.
        node_id: Id in the workflow.
        position: Place on the canvas.

    Raises:
        KnwfError: The settings name no factory, so that the kind of node is unknown.
    """
    factory = settings.text("factory")
    if not factory:
        raise KnwfError("its settings do not say which node it is: the key 'factory' is missing")
    factory_settings = settings.config("factory_settings") or Config("factory_settings")
    name = settings.text("name") or settings.text("node-name") or factory.rpartition(".")[2]
    where = f"node {node_id} ({name})"
    outputs = len((settings.config("ports") or Config("ports")).configs())
    groups = _port_groups(settings, factory)
    model = settings.config("model")
    annotation = settings.config("nodeAnnotation")
    state, problems = _state(settings, where)
    problems += [
        Problem("error", where, f"the key {key!r} is missing in its settings")
        for key in _REQUIRED
        if key not in settings
    ]
    problems += _model_problems(model, where)
    bundle_name, symbolic_name, vendor = (settings.text(key) for key in _BUNDLE)
    node = NativeNode(
        id=node_id,
        name=name,
        factory=factory,
        factory_settings=factory_settings,
        model=model,
        outputs=outputs,
        inputs=_inputs(factory, groups, outputs),
        port_groups=groups,
        variables=_controls(settings.config("variables")),
        position=position,
        state=state,
        annotation=settings.text("customName") if annotation is None else annotation.text("text"),
        description=settings.text("customDescription") or None,
        bundle=(bundle_name, symbolic_name, vendor),
        other=tuple(child for child in settings if child.key not in _UNDERSTOOD),
    )
    return node, problems


def _state(settings: Config, where: str) -> tuple[NodeState, list[Problem]]:
    text = settings.text("state")
    if text in NodeState.__members__:
        return NodeState[text], []
    # Other states are those of running nodes, which a file has only by accident.
    return NodeState.IDLE, [
        Problem("warning", where, f"its state {text!r} is taken for IDLE")
    ] if text else []


def _model_problems(model: Config | None, where: str) -> list[Problem]:
    if model is None or not is_json_model(model):
        return []
    try:
        from_model(model)
    except KnwfError as error:
        return [Problem("error", where, f"its parameters are broken: {error}")]
    return []


def _port_groups(settings: Config, factory: str) -> tuple[PortGroup, ...]:
    creation = settings.config("node_creation_config")
    if creation is None:
        return ()
    return tuple(_port_group(group, factory) for group in creation.configs())


def _port_group(group: Config, factory: str) -> PortGroup:
    if factory == PYTHON_FACTORY and is_fixed_group(group.key):
        return PortGroup(group.key, fixed=True)
    if "object_class" in group:
        return PortGroup(group.key, (group.text("object_class"),), exchangeable=True)
    return PortGroup(group.key, tuple(port.text("object_class") for port in group.configs()))


def _inputs(factory: str, groups: tuple[PortGroup, ...], outputs: int) -> int | None:
    """The number of inputs, None if neither the file nor the kind of node tells.

    Files of Python nodes name all ports; those of other nodes name at most the ports that a user can change.
    """
    if factory == TABLE_CREATOR_FACTORY or factory in CONFIGURATION_FACTORIES:
        return 0
    if factory in BOUNDARY_FACTORIES:
        return 1
    if factory in (STRING_TO_PATH_FACTORY, WORKFLOW_TO_TOOL_FACTORY):
        return 1 + sum(group.count for group in groups)
    if factory == CONCATENATE_FACTORY:
        return concatenate_inputs(groups)
    total = sum(group.count for group in groups)
    return total - outputs if factory == PYTHON_FACTORY and groups and total >= outputs else None


def _controls(variables: Config | None) -> tuple[VariableControl, ...]:
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
            pending += [((*path, inner.key), inner) for inner in reversed(config.configs())]
    return tuple(controls)
