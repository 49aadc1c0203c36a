"""KNIME workflow archives (``.knwf``): ``workflow.knime``, read and written, around the nodes' own files.

A workflow that KNIME would open with complaints is read with the same complaints (`Workflow.problems`); only
files that are no workflow are refused. Unknown settings and files are kept, and written back. The same
workflow gives the same bytes.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, Literal, cast
from xml.parsers import expat

from .knwf_archive import is_unsafe, write_archive
from .node_file import annotation_settings, node_settings, read_annotation, read_node
from .settings_xml import (
    Config,
    KnwfError,
    SettingsEntry,
    array,
    array_values,
    boolean,
    from_xml,
    integer,
    string,
    to_xml,
    xml_text,
)
from .workflow_check import check
from .workflow_model import (
    FORMAT_VERSION,
    ORIGIN,
    READABLE_VERSIONS,
    VARIABLE_ARRAYS,
    VARIABLE_ENTRIES,
    CanvasPosition,
    Connection,
    NativeNode,
    Node,
    NodeState,
    OtherNode,
    VariableValue,
    Workflow,
    WorkflowCredential,
    WorkflowProblem,
    WorkflowVariable,
    is_too_old,
    node_label,
)

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping

_REQUIRED: Final = ("nodes", "connections")
_REQUIRED_WITH_VERSION: Final = ("state", "workflow_credentials")  # KNIME Hub's empty workflows have neither
_UNDERSTOOD: Final = frozenset(
    (
        *(*_REQUIRED, *_REQUIRED_WITH_VERSION),
        *("version", "name", "customDescription", "annotations", "workflow_variables"),
        *("created_by", "created_by_nightly"),  # the last writer, which is true of this file only
    )
)
METADATA_FILE: Final = "workflow-metadata.xml"
_METADATA_NAMESPACE: Final = "http://www.knime.org/core/node/workflow/metadata/v1.0"
#: Files that KNIME makes again, or that belong to one opened copy only.
_NOT_KEPT: Final = frozenset(("workflow.svg", ".knimeLock", ".savedWithData", ".artifacts"))


#: KNIME keeps letters, digits and spaces of a node's name for its folder.
_NOT_IN_NODE_FOLDER: Final = re.compile("[^a-zA-Z0-9 ]")
#: Characters that file systems do not allow, or KNIME not in names of workflows.
_NOT_IN_WORKFLOW_FOLDER: Final = re.compile('[\x00-\x1f\x7f-\x9f\ud800-\udfff*?#:"<>%~|/\\\\]')
_WINDOWS_NAMES: Final = re.compile(r"(?i)(con|prn|aux|nul|com[0-9]|lpt[0-9])(\..*)?")
_MAX_NODE_FOLDER: Final = 60
#: File systems allow 255 bytes; KNIME may append to the name of a workflow.
_MAX_FOLDER_BYTES: Final = 200
#: The nodes that are not read, by their type in the file.
_CONTAINERS: Final[Mapping[str, Literal["metanode", "component"]]] = {
    "MetaNode": "metanode",
    "SubNode": "component",
}
_CONTAINER_TYPES: Final = {kind: name for name, kind in _CONTAINERS.items()}
#: The keys of a connection, and its attributes for them.
_CONNECTION: Final = {
    "sourceID": "source",
    "destID": "destination",
    "sourcePort": "source_port",
    "destPort": "destination_port",
}


def read_files(name: str, files: Mapping[str, bytes]) -> Workflow:
    """Reads a workflow of its files by their path in its folder, such as those in a segment.

    KnwfError if its ``workflow.knime`` is missing or broken.
    """
    return _Reader(name, files).workflow()


def write_workflow(workflow: Workflow, path: str | os.PathLike[str]) -> None:
    """Writes a workflow archive, replacing the file as a whole; KnwfError if `check` finds an error."""
    write_archive(path, folder_name(workflow.name), workflow_files(workflow))


def workflow_files(workflow: Workflow) -> dict[str, bytes]:
    """The files of a workflow, by their path in its folder; KnwfError if `check` finds an error."""
    # A file that KNIME refuses is worse than none, as it is found when somebody opens it.
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
                files[f"{folder}/settings.xml"] = to_xml(node_settings(node))
            except KnwfError as error:
                raise KnwfError(f"{node_label(node)}: {error}") from None
    files["workflow.knime"] = to_xml(_workflow_settings(workflow))
    if workflow.description is not None:
        # What else the file says, such as tags and links, stays as long as the description is the same.
        kept = files.get(METADATA_FILE)
        if kept is None or _described(kept) != workflow.description:
            files[METADATA_FILE] = _metadata(workflow.description)
    return files


def _metadata(description: str) -> bytes:
    """The file from which KNIME reads a workflow's description since 5.1. It needs all elements here."""
    # The time is constant, so that the same workflow gives the same bytes.
    return (
        f'<?xml version="1.0" encoding="UTF-8"?>\n<workflow-metadata xmlns="{_METADATA_NAMESPACE}"'
        ' content-type="text/plain">\n    <last-modified>1980-01-01T00:00:00Z</last-modified>\n'
        f"    <description>{xml_text(description)}</description>\n</workflow-metadata>\n"
    ).encode()


def _described(metadata: bytes) -> str | None:
    """The description in the file of a workflow's metadata; None if it has none, or cannot be read."""
    parts: list[str] = []
    inside: list[str] = []
    parser = expat.ParserCreate(namespace_separator=" ")

    def refuse(*_: object) -> None:
        raise ValueError("metadata have no document type")

    def text(data: str) -> None:
        if len(inside) == 2 and inside[1].endswith(" description"):
            parts.append(data)

    parser.StartElementHandler = lambda name, _: inside.append(name)
    parser.EndElementHandler = lambda _: inside.pop()
    parser.CharacterDataHandler = text
    parser.StartDoctypeDeclHandler = refuse
    try:
        parser.Parse(metadata, True)
    except (expat.ExpatError, ValueError, LookupError):
        return None
    return "".join(parts) or None


def folder_name(name: str) -> str:
    """The name of the archive's folder, which KNIME shows as the workflow's name.

    Characters that folder names do not allow become ``_``; ``workflow.knime`` then holds the original name.
    """
    # Cut as bytes, as that is what file systems count, and perhaps within a character.
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
    children: list[SettingsEntry | Config] = [
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
        notes = (annotation_settings(f"annotation_{i}", note) for i, note in enumerate(workflow.annotations))
        children.append(Config("annotations", tuple(notes)))
    nodes = (_node_entry(node) for node in sorted(workflow.nodes, key=lambda node: node.id))
    children.append(Config("nodes", tuple(nodes)))
    lines = (
        Config(
            f"connection_{i}",
            (*(integer(key, getattr(line, name)) for key, name in _CONNECTION.items()), *line.other),
        )
        for i, line in enumerate(workflow.connections)
    )
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
            string("node_type", "NativeNode" if native else _CONTAINER_TYPES[node.kind]),
            string("ui_classname", "org.knime.core.node.workflow.NodeUIInformation"),
            Config(
                "ui_settings",
                (array("extrainfo.node.bounds", "xint", (place.x, place.y, place.width, place.height)),),
            ),
        ),
    )


def _variable(key: str, variable: WorkflowVariable) -> Config:
    value: SettingsEntry | Config
    if variable.type in VARIABLE_ENTRIES:
        plain = None if isinstance(variable.value, tuple) else variable.value
        value = SettingsEntry("value", VARIABLE_ENTRIES[variable.type], plain)
    else:
        elements = variable.value if isinstance(variable.value, tuple) else ()
        value = array("value", VARIABLE_ARRAYS[variable.type], elements)
    return Config(key, (string("name", variable.name), string("class", variable.type), value))


class _Reader:
    def __init__(self, name: str, files: Mapping[str, bytes]) -> None:
        self.name, self.stored = name, files
        self.root = from_xml(self._read("workflow.knime"), "workflow.knime")
        self.problems: list[WorkflowProblem] = []
        self.folders: set[str] = set()
        tops = {path.partition("/")[0] for path in files}
        self._spelling = {top.lower(): top for top in tops} | {top: top for top in tops}

    def workflow(self) -> Workflow:
        root = self.root
        version = self._version()
        for key in (*(_REQUIRED_WITH_VERSION if root.text("version") else ()), *_REQUIRED):
            if key not in root:
                self._problem("error", "workflow.knime", f"the key {key!r} is missing")
        nodes = tuple(node for config in self._section("nodes") if (node := self._node(config)) is not None)
        files = self._files(nodes)
        description = _described(files.get(METADATA_FILE, b""))
        if description is not None and files[METADATA_FILE] == _metadata(description):
            del files[METADATA_FILE]  # it says nothing else
        return Workflow(
            name=root.text("name") or self.name,
            nodes=nodes,
            connections=tuple(
                c for config in self._section("connections") if (c := self._connection(config))
            ),
            annotations=tuple(map(read_annotation, self._section("annotations"))),
            credentials=tuple(self._credential(config) for config in self._section("workflow_credentials")),
            variables=tuple(
                v for config in self._section("workflow_variables") if (v := self._variable(config))
            ),
            description=description or root.text("customDescription") or None,
            version=version,
            other=tuple(child for child in root if child.key not in _UNDERSTOOD),
            files=files,
            problems=tuple(self.problems[:1] if is_too_old(version) else self.problems),
        )

    def _problem(self, severity: Literal["error", "warning"], where: str, what: str) -> None:
        self.problems.append(WorkflowProblem(severity, where, what))

    def _version(self) -> str:
        version = self.root.text("version")
        if not version:
            old = "it says no version (KNIME 1, or empty from KNIME Hub); open and save it in a current KNIME"
            self._problem("warning", "workflow.knime", old)
            return "0.9.0"
        if is_too_old(version):
            old = f"it has the format {version}, from before KNIME 2.8"
            self._problem("error", "workflow.knime", f"{old}; open it in a current KNIME and save it")
        elif version not in READABLE_VERSIONS:
            what = f"it has the format {version!r}, which is not known here; some of it may be misread"
            self._problem("warning", "workflow.knime", what)
        elif version != FORMAT_VERSION:
            what = f"it has the older format {version}; a current KNIME writes {FORMAT_VERSION}"
            self._problem("warning", "workflow.knime", what)
        return version

    def _section(self, key: str) -> tuple[Config, ...]:
        section = self.root.config(key)
        return () if section is None else section.configs()

    def _node(self, config: Config) -> Node | None:
        node_id, file = config.integer("id"), self._settings_file(config)
        if node_id is None or not file:
            self._problem("error", "workflow.knime", f"{config.key!r} has no id or no settings file")
            return None
        position = _position(config)
        folder = file.rpartition("/")[0]
        name = folder.rpartition(" (#")[0] or file
        where = f"node {node_id} ({name})"
        kind = config.text("node_type") or ("MetaNode" if config.value("node_is_meta") else "NativeNode")
        try:
            self._claim_folder(folder)
            if kind != "NativeNode":
                if kind not in _CONTAINERS:
                    self._problem("error", where, f"it is a {kind!r}, which is no kind of node")
                    return OtherNode(node_id, name, "broken", file, position)
                what = f"it is a {_CONTAINERS[kind]}: kept as it is, but its inside is not read"
                self._problem("warning", where, what)
                return OtherNode(node_id, name, _CONTAINERS[kind], file, position)
            settings = from_xml(self._read(file), file)
            node, problems = read_node(settings, node_id, position)
        except KnwfError as error:
            self._problem("error", where, str(error))
            return OtherNode(node_id, name, "broken", file, position, str(error))
        self.problems += problems
        return node

    def _settings_file(self, config: Config) -> str:
        """The path of a node's settings; ignores the letter case of the folder, as KNIME does."""
        file = config.text("node_settings_file")
        folder, slash, name = file.partition("/")
        spelling = self._spelling.get(folder) or self._spelling.get(folder.lower(), folder)
        return f"{spelling}{slash}{name}"

    def _claim_folder(self, folder: str) -> None:
        """Refuses folders that several nodes use: a few nested metanodes could become millions."""
        if not folder or "/" in folder:
            raise KnwfError("its settings file is not in a folder of its own")
        if folder in self.folders:
            raise KnwfError(f"its folder {folder!r} is also that of another node")
        self.folders.add(folder)

    def _connection(self, config: Config) -> Connection | None:
        numbers = {name: config.integer(key) for key, name in _CONNECTION.items()}
        missing = [key for key, name in _CONNECTION.items() if numbers[name] is None]
        if missing:
            self._problem("error", "workflow.knime", f"{config.key!r} has no {', '.join(missing)}")
            return None
        rest = tuple(child for child in config if child.key not in _CONNECTION)
        return Connection(**cast("dict[str, int]", numbers), other=rest)

    def _credential(self, config: Config) -> WorkflowCredential:
        login = config.value("login")
        return WorkflowCredential(config.text("name", config.key), login if isinstance(login, str) else None)

    def _variable(self, config: Config) -> WorkflowVariable | None:
        name, kind = config.text("name"), config.text("class")
        value: VariableValue
        stored = config.get("value")
        try:
            if kind in VARIABLE_ENTRIES and isinstance(stored, SettingsEntry):
                value = stored.value
            elif kind in VARIABLE_ARRAYS and isinstance(stored, Config):
                value = cast("VariableValue", tuple(array_values(stored)))
            else:
                raise KnwfError(f"its type {kind!r} cannot be read")
        except KnwfError as error:
            self._problem("warning", f"workflow variable {name!r}", f"{error}; it is left out")
            return None
        return WorkflowVariable(name, kind, value)

    def _files(self, nodes: tuple[Node, ...]) -> dict[str, bytes]:
        """The files to keep unchanged; not those of native nodes, which hold only settings and data."""
        native = {node.id for node in nodes if isinstance(node, NativeNode)}
        entries = [config for config in self._section("nodes") if config.integer("id") in native]
        understood = {self._settings_file(config).rpartition("/")[0] for config in entries}
        left_out = {"workflow.knime", *_NOT_KEPT, *understood}
        kept = (path for path in sorted(self.stored) if path.partition("/")[0] not in left_out)
        return {path: self.stored[path] for path in kept}

    def _read(self, path: str) -> bytes:
        try:
            return self.stored[path]
        except KeyError:
            raise KnwfError(f"{path} is missing") from None


def _position(config: Config) -> CanvasPosition:
    bounds = (config.config("ui_settings") or config).config("extrainfo.node.bounds")
    numbers = () if bounds is None else [bounds.integer(str(i)) for i in range(4)]
    is_whole = len(numbers) == 4 and None not in numbers
    return CanvasPosition(*cast("list[int]", numbers)) if is_whole else ORIGIN
