"""Reads a KNIME workflow archive into the model; keeps unknown settings and files, and lists problems.

A workflow that KNIME would open with complaints is read with the same complaints (`Workflow.problems`); only
files that are no workflow are refused.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final, Literal, cast

from .archive import DEFAULT_LIMITS, Archive
from .node_reader import read_node
from .settings import Config, Entry, KnwfError, array_values, from_xml
from .workflow import (
    ANNOTATION_KEYS,
    FORMAT_VERSION,
    READABLE_VERSIONS,
    VARIABLE_ARRAYS,
    VARIABLE_ENTRIES,
    Annotation,
    Connection,
    NativeNode,
    Node,
    OtherNode,
    Position,
    Problem,
    VariableValue,
    Workflow,
    WorkflowCredential,
    WorkflowVariable,
    is_too_old,
)

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator

    from .archive import ArchiveLimits

_REQUIRED: Final = ("nodes", "connections")
_REQUIRED_WITH_VERSION: Final = ("state", "workflow_credentials")  # KNIME Hub's empty workflows have neither
_UNDERSTOOD: Final = frozenset(
    (
        *(*_REQUIRED, *_REQUIRED_WITH_VERSION),
        *("version", "name", "customDescription", "annotations", "workflow_variables"),
        *("created_by", "created_by_nightly"),  # the last writer, which is true of this file only
    )
)
#: Files that KNIME makes again, or that belong to one opened copy only.
_NOT_KEPT: Final = frozenset(("workflow.svg", ".knimeLock", ".savedWithData", ".artifacts"))


def read_workflow(path: str | os.PathLike[str], *, limits: ArchiveLimits = DEFAULT_LIMITS) -> Workflow:
    """Reads a workflow archive (``.knwf``).

    Args:
        path: The file.
        limits: Limits against archives that unpack to more than a machine can hold.

    Raises:
        KnwfError: The file is no zip file with one workflow, is unsafe or too large, or its
            ``workflow.knime`` is broken.
        OSError: The file cannot be read.
    """
    with Archive(path, limits) as archive:
        root = from_xml(archive.read("workflow.knime", settings=True), "workflow.knime")
        return _Reader(archive, root).workflow()


def read_inside(workflow: Workflow, node: OtherNode) -> Workflow:
    """Reads the workflow in a metanode or component.

    Args:
        workflow: The outer workflow, with the files of the metanode or component.
        node: The metanode or component.

    Raises:
        KnwfError: The ``workflow.knime`` inside is missing or broken.
    """
    folder = _Folder(workflow, node)
    root = from_xml(folder.read("workflow.knime", settings=True), "workflow.knime")
    return _Reader(folder, root).workflow()


class _Folder:
    """The files of a metanode or component in memory, with the interface of `Archive`."""

    def __init__(self, workflow: Workflow, node: OtherNode) -> None:
        start = f"{node.settings_file.rpartition('/')[0]}/"
        self.name = node.name
        self._files = {
            path[len(start) :]: data for path, data in workflow.files.items() if path.startswith(start)
        }

    def __iter__(self) -> Iterator[str]:
        return iter(self._files)

    def read(self, path: str, *, settings: bool = False) -> bytes:  # noqa: ARG002 - as `Archive.read`
        try:
            return self._files[path]
        except KeyError:
            raise KnwfError(f"{path} is missing") from None


class _Reader:
    """Reads ``workflow.knime`` and collects its problems."""

    def __init__(self, archive: Archive | _Folder, root: Config) -> None:
        self.archive = archive
        self.root = root
        self.problems: list[Problem] = []
        self.folders: set[str] = set()
        tops = {path.partition("/")[0] for path in archive}
        self._spelling = {top.lower(): top for top in tops} | {top: top for top in tops}

    def workflow(self) -> Workflow:
        root = self.root
        version = self._version()
        for key in (*(_REQUIRED_WITH_VERSION if root.text("version") else ()), *_REQUIRED):
            if key not in root:
                self._problem("error", "workflow.knime", f"the key {key!r} is missing")
        nodes = tuple(node for config in self._section("nodes") if (node := self._node(config)) is not None)
        return Workflow(
            name=root.text("name") or self.archive.name,
            nodes=nodes,
            connections=tuple(
                c for config in self._section("connections") if (c := self._connection(config))
            ),
            annotations=tuple(_annotation(config) for config in self._section("annotations")),
            credentials=tuple(self._credential(config) for config in self._section("workflow_credentials")),
            variables=tuple(
                v for config in self._section("workflow_variables") if (v := self._variable(config))
            ),
            description=root.text("customDescription") or None,
            version=version,
            other=tuple(child for child in root if child.key not in _UNDERSTOOD),
            files=self._files(nodes),
            problems=tuple(self.problems[:1] if is_too_old(version) else self.problems),
        )

    def _problem(self, severity: Literal["error", "warning"], where: str, what: str) -> None:
        self.problems.append(Problem(severity, where, what))

    def _version(self) -> str:
        version = self.root.text("version")
        if not version:
            old = "it says no version (KNIME 1, or empty from KNIME Hub); open and save it in a current KNIME"
            self._problem("warning", "workflow.knime", old)
            return "0.9.0"
        if is_too_old(version):
            what = (
                f"it has the format {version}, from before KNIME 2.8; open it in a current KNIME and save it"
            )
            self._problem("error", "workflow.knime", what)
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
        kind = config.text("node_type") or ("MetaNode" if config.value("node_is_meta") else "NativeNode")
        try:
            self._claim_folder(folder)
            if kind != "NativeNode":
                return self._container(OtherNode(node_id, name, _container_kind(kind), file, position), kind)
            settings = from_xml(self.archive.read(file, settings=True), file)
            node, problems = read_node(settings, node_id, position)
        except KnwfError as error:
            self._problem("error", f"node {node_id} ({name})", str(error))
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

    def _container(self, node: OtherNode, kind: str) -> OtherNode:
        where = f"node {node.id} ({node.name})"
        if node.kind == "broken":
            self._problem("error", where, f"it is a {kind!r}, which is no kind of node")
        else:
            self._problem("warning", where, f"it is a {node.kind}: kept as it is, but its inside is not read")
        return node

    def _connection(self, config: Config) -> Connection | None:
        keys = ("sourceID", "sourcePort", "destID", "destPort")
        numbers = [config.integer(key) for key in keys]
        missing = [key for key, number in zip(keys, numbers, strict=True) if number is None]
        if missing:
            self._problem("error", "workflow.knime", f"{config.key!r} has no {', '.join(missing)}")
            return None
        source, source_port, destination, destination_port = cast("list[int]", numbers)
        rest = tuple(child for child in config if child.key not in keys)
        return Connection(source, source_port, destination, destination_port, rest)

    def _credential(self, config: Config) -> WorkflowCredential:
        login = config.value("login")
        return WorkflowCredential(config.text("name", config.key), login if isinstance(login, str) else None)

    def _variable(self, config: Config) -> WorkflowVariable | None:
        name, kind = config.text("name"), config.text("class")
        value: VariableValue
        stored = config.get("value")
        try:
            if kind in VARIABLE_ENTRIES and isinstance(stored, Entry):
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
        kept: dict[str, bytes] = {}
        for path in self.archive:
            top = path.partition("/")[0]
            if path == "workflow.knime" or top in _NOT_KEPT or top in understood:
                continue
            try:
                kept[path] = self.archive.read(path)
            except KnwfError as error:
                self._problem("warning", path, f"{error}; it is left out")
        return kept


def _container_kind(node_type: str) -> Literal["metanode", "component", "broken"]:
    match node_type:
        case "MetaNode":
            return "metanode"
        case "SubNode":
            return "component"
        case _:
            return "broken"


def _position(config: Config) -> Position:
    bounds = (config.config("ui_settings") or config).config("extrainfo.node.bounds")
    numbers = () if bounds is None else [bounds.integer(str(i)) for i in range(4)]
    return Position(*cast("list[int]", numbers)) if len(numbers) == 4 and None not in numbers else Position()


def _annotation(config: Config) -> Annotation:
    """A note on the canvas; values that are missing or of another type get their default."""
    plain = Annotation("", border_size=0, border_color=0, styles=config.config("styles") or Config("styles"))
    stored = {name: config.value(key) for key, name in ANNOTATION_KEYS.items()}
    valid = {name: value for name, value in stored.items() if type(value) is type(getattr(plain, name))}
    if valid.get("content_type") != "text/html":
        valid["content_type"] = "text/plain"
    return replace(plain, **valid)  # pyright: ignore[reportArgumentType]
