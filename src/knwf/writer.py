"""Writes a workflow as a KNIME archive. `workflow_files` is pure, `write_workflow` writes the file.

Written are all settings that KNIME's loader needs, keeps or checks, but no data of executed nodes; so an
executed node is written as configured.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from .archive import is_unsafe, write_archive
from .check import check
from .settings import Config, Entry, KnwfError, array, boolean, integer, string, to_xml
from .workflow import (
    ANNOTATION_KEYS,
    FORMAT_VERSION,
    READABLE_VERSIONS,
    VARIABLE_ARRAYS,
    VARIABLE_ENTRIES,
    Annotation,
    NativeNode,
    NodeState,
    OtherNode,
    node_label,
)

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable

    from .workflow import (
        Connection,
        Node,
        PortGroup,
        VariableControl,
        Workflow,
        WorkflowVariable,
    )

_CONTROL_VERSION: Final = "V_2019_09_13"
#: KNIME keeps letters, digits and spaces of a node's name for its folder.
_NOT_IN_NODE_FOLDER: Final = re.compile("[^a-zA-Z0-9 ]")
#: Characters that file systems do not allow, or KNIME not in names of workflows.
_NOT_IN_WORKFLOW_FOLDER: Final = re.compile('[\x00-\x1f\x7f-\x9f\ud800-\udfff*?#:"<>%~|/\\\\]')
_WINDOWS_NAMES: Final = re.compile(r"(?i)(con|prn|aux|nul|com[0-9]|lpt[0-9])(\..*)?")
_MAX_NODE_FOLDER: Final = 60
#: File systems allow 255 bytes; KNIME may append to the name of a workflow.
_MAX_FOLDER_BYTES: Final = 200
_NODE_TYPES: Final = {"metanode": "MetaNode", "component": "SubNode"}


def write_workflow(workflow: Workflow, path: str | os.PathLike[str]) -> None:
    """Writes a workflow archive (``.knwf``), replacing the file as a whole.

    The same workflow gives the same bytes.

    Raises:
        KnwfError: `check` finds an error in the workflow, or a value cannot be written.
        OSError: The file cannot be written.
    """
    write_archive(path, folder_name(workflow.name), workflow_files(workflow))


def workflow_files(workflow: Workflow) -> dict[str, bytes]:
    """Makes the files of a workflow, by their path in its folder.

    Raises:
        KnwfError: `check` finds an error in the workflow, or a value cannot be written.
    """
    errors = [problem for problem in check(workflow) if problem.severity == "error"]
    if errors:
        more = f" (and {len(errors) - 1} more)" if len(errors) > 1 else ""
        raise KnwfError(f"this workflow cannot be written: {errors[0].where}: {errors[0].what}{more}")
    files = dict(workflow.files)
    unsafe = next((path for path in files if is_unsafe(path)), None)
    if unsafe is not None:
        raise KnwfError(f"this workflow cannot be written: {unsafe[:200]!r} is no path below its folder")
    folders = {node.settings_file.partition("/")[0] for node in workflow.nodes if isinstance(node, OtherNode)}
    for node in workflow.nodes:
        if isinstance(node, NativeNode):
            folder = _node_folder(node)
            if folder in folders:
                raise KnwfError(f"node {node.id}: its folder {folder!r} is also that of another node")
            try:
                files[f"{folder}/settings.xml"] = to_xml(_node_settings(node))
            except KnwfError as error:
                raise KnwfError(f"{node_label(node)}: {error}") from None
    files["workflow.knime"] = to_xml(_workflow_settings(workflow))
    return files


def folder_name(name: str) -> str:
    """The name of the archive's folder, which KNIME shows as the workflow's name.

    Characters that folder names do not allow become ``_``; ``workflow.knime`` then holds the original name.
    """
    plain = (
        _NOT_IN_WORKFLOW_FOLDER.sub("_", name).encode("utf-8")[:_MAX_FOLDER_BYTES].decode("utf-8", "ignore")
    )
    plain = plain.strip(" ").rstrip(".")
    if plain.startswith(".") or _WINDOWS_NAMES.fullmatch(plain):
        plain = f"_{plain[1:]}"
    return plain.rstrip(" .") or "Workflow"


def _node_folder(node: NativeNode) -> str:
    name = _NOT_IN_NODE_FOLDER.sub("_", node.name)[:_MAX_NODE_FOLDER].strip() or "Node"
    return f"{name} (#{node.id})"


def _workflow_settings(workflow: Workflow) -> Config:
    kept = {child.key: child for child in workflow.other}
    name = None if folder_name(workflow.name) == workflow.name else workflow.name
    children: list[Entry | Config] = [
        string("version", workflow.version if workflow.version in READABLE_VERSIONS else FORMAT_VERSION),
        string("name", name),  # None: KNIME takes the folder's name
        string("customDescription", workflow.description),
        string("state", NodeState.CONFIGURED if workflow.nodes else NodeState.IDLE),
        Config(
            "workflow_credentials",
            tuple(
                Config(f"credential_{i}", (string("name", known.name), string("login", known.login)))
                for i, known in enumerate(workflow.credentials)
            ),
        ),
        *kept.values(),
    ]
    if workflow.annotations:
        notes = (_annotation(f"annotation_{i}", note) for i, note in enumerate(workflow.annotations))
        children.append(Config("annotations", tuple(notes)))
    nodes = (_node_entry(node) for node in sorted(workflow.nodes, key=lambda node: node.id))
    children.append(Config("nodes", tuple(nodes)))
    lines = (_connection(f"connection_{i}", line) for i, line in enumerate(workflow.connections))
    children.append(Config("connections", tuple(lines)))
    if workflow.variables:
        variables = (_variable(f"Var_{i}", variable) for i, variable in enumerate(workflow.variables))
        children.append(Config("workflow_variables", tuple(variables)))
    return Config("workflow.knime", tuple(children))


def _node_entry(node: Node) -> Config:
    native = isinstance(node, NativeNode)
    place = node.position
    return Config(
        f"node_{node.id}",
        (
            integer("id", node.id),
            string(
                "node_settings_file", f"{_node_folder(node)}/settings.xml" if native else node.settings_file
            ),
            boolean("node_is_meta", not native),
            string("node_type", "NativeNode" if native else _NODE_TYPES[node.kind]),
            string("ui_classname", "org.knime.core.node.workflow.NodeUIInformation"),
            Config(
                "ui_settings",
                (array("extrainfo.node.bounds", "xint", (place.x, place.y, place.width, place.height)),),
            ),
        ),
    )


def _connection(key: str, connection: Connection) -> Config:
    return Config(
        key,
        (
            integer("sourceID", connection.source),
            integer("destID", connection.destination),
            integer("sourcePort", connection.source_port),
            integer("destPort", connection.destination_port),
            *connection.other,
        ),
    )


def _variable(key: str, variable: WorkflowVariable) -> Config:
    value: Entry | Config
    if variable.type in VARIABLE_ENTRIES:
        plain = None if isinstance(variable.value, tuple) else variable.value
        value = Entry("value", VARIABLE_ENTRIES[variable.type], plain)
    else:
        elements = variable.value if isinstance(variable.value, tuple) else ()
        value = array("value", VARIABLE_ARRAYS[variable.type], elements)
    return Config(key, (string("name", variable.name), string("class", variable.type), value))


def _annotation(key: str, note: Annotation) -> Config:
    values = {key: getattr(note, name) for key, name in ANNOTATION_KEYS.items()}
    entries = (integer(k, v) if isinstance(v, int) else string(k, v) for k, v in values.items())
    return Config(key, (*entries, integer("annotation-version", 20230412), note.styles.with_key("styles")))


def _node_settings(node: NativeNode) -> Config:
    """The settings file of a node, with KNIME's keys in KNIME's order."""
    name, symbolic_name, vendor = node.bundle
    state = NodeState.CONFIGURED if node.state is NodeState.EXECUTED else node.state
    children: list[Entry | Config] = [
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
        string("node-bundle-name", name),
        string("node-bundle-symbolic-name", symbolic_name),
        string("node-bundle-vendor", vendor),
        node.factory_settings.with_key("factory_settings"),
    ]
    if node.port_groups:
        children.append(Config("node_creation_config", tuple(_ports(group) for group in node.port_groups)))
    children += [
        string("name", node.name),
        boolean("hasContent", value=False),
        boolean("isInactive", value=False),
        Config("ports", tuple(_output(i) for i in range(1, node.outputs + 1))),
        Config("filestores", (string("file_store_location", None), string("file_store_id", None))),
        *node.other,
    ]
    return Config("settings.xml", tuple(children))


def _label(node: NativeNode) -> Config:
    """A node's label, with the look that KNIME gives to labels."""
    place = node.position
    x, y = place.x - 30, place.y + place.height + 10
    look = Annotation(
        node.annotation, x, y, place.width + 60, 20, border_size=0, border_color=0xFFFFFF, alignment="CENTER"
    )
    return _annotation("nodeAnnotation", look)


def _control_tree(controls: Iterable[VariableControl], depth: int = 0) -> tuple[Entry | Config, ...]:
    groups: dict[str, list[VariableControl]] = {}
    for control in controls:
        groups.setdefault(control.path[depth], []).append(control)
    tree: list[Entry | Config] = []
    for key, members in groups.items():
        leaf = next((control for control in members if len(control.path) == depth + 1), None)
        if leaf is None:
            tree.append(Config(key, _control_tree(members, depth + 1)))
        else:
            tree.append(
                Config(key, (string("used_variable", leaf.used), string("exposed_variable", leaf.exposed)))
            )
    return tuple(tree)


def _ports(group: PortGroup) -> Config:
    if group.exchangeable:
        return Config(group.id, tuple(string("object_class", java) for java in group.object_classes[:1]))
    added = () if group.fixed else enumerate(group.object_classes)
    return Config(group.id, tuple(Config(f"port_{i}", (string("object_class", java),)) for i, java in added))


def _output(index: int) -> Config:
    return Config(f"port_{index}", (integer("index", index), string("port_dir_location", None)))
