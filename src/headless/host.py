"""Loads an extension as KNIME does, and holds its nodes, tables and file stores."""

# The stand-in's registries have KNIME's names, which are private.
# pyright: reportPrivateUsage=false

import contextlib
import importlib
import json
import shutil
import sys
import tempfile
import threading
import traceback
import uuid
import weakref
from collections.abc import Callable, Generator, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from knime.api import table as knime_table
from knime.extension import nodes as kn
from knime.extension import parameter as kp
from knime.extension.ports import PortTypeRegistry
from knime.extension.version import Version

from . import describe, ports, value_types
from .dialog import open_dialog
from .errors import HeadlessError
from .results import NodeResult
from .run import Run
from .services import Request, ToolHandler
from .tables import source_table


class FileStores:
    """The files of cells, by key."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._paths: dict[str, Path] = {}

    def create_file_store(self) -> tuple[str, str]:
        """The path and the key of a new file store. The caller writes the file."""
        key = uuid.uuid4().hex
        self._paths[key] = self._folder / key
        return str(self._paths[key]), key

    def add(self, key: str, data: bytes) -> None:
        """Adds a file store with a given key, for cells of input tables."""
        self._paths[key] = self._folder / uuid.uuid4().hex
        self._paths[key].write_bytes(data)

    def file_store_key_to_absolute_path(self, key: str) -> str:
        """The path of a file store.

        Raises:
            RuntimeError: there is no file store with this key.
        """
        if key not in self._paths:
            raise RuntimeError(f"there is no file store with the key {key!r}")
        return str(self._paths[key])


class ExtensionHost:
    """A loaded extension."""

    def __init__(self, root: Path, extension_id: str, version: str) -> None:
        self.root = root
        self.id = extension_id
        self.version = version
        self.port_types = PortTypeRegistry(extension_id)
        self.nodes: dict[str, kn.Node] = {}
        self.categories: list[kn.Category] = []
        self.folder = Path(tempfile.mkdtemp(prefix="knime_mcp_"))
        weakref.finalize(self, shutil.rmtree, self.folder, ignore_errors=True)
        self.file_stores = FileStores(self.folder)
        self._backend = knime_table.Backend(self.file_stores)
        self._users = 0
        self._lock = threading.Lock()

    def run_node(
        self,
        node_id: str,
        inputs: Sequence[Any] | None = None,
        parameters: Mapping[str, Any] | None = None,
        *,
        credentials: Mapping[str, tuple[str, str]] | None = None,
        flow_variables: Mapping[str, Any] | None = None,
        cancel: bool | int | Callable[[], bool] = False,
        tool_handler: ToolHandler | None = None,
        output_groups: Mapping[str, int] | None = None,
        workflow_dir: str | Path | None = None,
        on_progress: Callable[[float, str | None], None] | None = None,
        execute: bool = True,
    ) -> NodeResult:
        """Configures and executes a node, each on a fresh object and on a worker thread, as KNIME does.

        Args:
            node_id: the id in ``nodes``.
            inputs: one entry per declared port: a table (knext.Table, pyarrow.Table), a port object, a
                `CredentialPort` or bytes; None for an unconnected optional port; a list for a group. Without
                `inputs` nothing is connected.
            parameters: settings that differ from the defaults, nested like the groups.
            credentials: name -> (user name, password).
            flow_variables: the flow variables that arrive at the node.
            cancel: whether the node is canceled: from the start (True), from the n-th `is_canceled` on (a
                number from 1), or by a function.
            tool_handler: runs workflow tools: (tool, parameters, input tables as Arrow, hints) -> message,
                (message, tables) or (message, tables, view node ids); tables None: the tool failed.
            output_groups: the number of ports of output groups by name; 1 by default.
            workflow_dir: the folder of the workflow; a temporary folder by default.
            on_progress: called in the node's thread, with the progress that the node reports.
            execute: False stops after configure().

        Raises:
            HeadlessError: there is no such node, or the inputs do not fit its ports.
        """
        request = Request(
            node_id=node_id,
            inputs=None if inputs is None else list(inputs),
            parameters=dict(parameters or {}),
            credentials=dict(credentials or {}),
            flow_variables=dict(flow_variables or {}),
            cancel=cancel,
            tool_handler=tool_handler,
            output_groups=dict(output_groups or {}),
            workflow_dir=Path(workflow_dir) if workflow_dir is not None else self.folder / "workflow",
            on_progress=on_progress,
            execute=execute,
        )
        return Run(self, request).result()

    def get_dialog(
        self,
        node_id: str,
        input_schemas: Sequence[Any] | None = None,
        parameters: Mapping[str, Any] | None = None,
        *,
        credentials: Mapping[str, tuple[str, str]] | None = None,
        flow_variables: Mapping[str, Any] | None = None,
    ) -> dict[str, Any]:
        """The documents of a node's dialog: ``data``, ``schema`` and ``ui_schema``.

        Descriptions are the original Markdown, which KNIME converts to HTML.

        Args:
            node_id: the id in ``nodes``.
            input_schemas: per declared port a schema, table, spec, `CredentialPort` or None; a list for a
                group.
            parameters: settings that differ from the defaults.
            credentials: name -> (user name, password).
            flow_variables: the flow variables that arrive at the node.

        Raises:
            HeadlessError: the dialog would not open.
        """
        request = Request(
            node_id=node_id,
            inputs=list(input_schemas) if input_schemas is not None else None,
            parameters=dict(parameters or {}),
            credentials=dict(credentials or {}),
            flow_variables=dict(flow_variables or {}),
            output_groups={},
            workflow_dir=self.folder / "workflow",
        )
        return open_dialog(self, request)

    def load_parameters(
        self, node_id: str, saved: Mapping[str, Any], saved_version: str | None = None
    ) -> dict[str, Any]:
        """Loads a workflow's saved settings into a new node, checks them, and returns them as saved again.

        Args:
            node_id: the id in ``nodes``.
            saved: the whole document, ``{"model": {…}}``.
            saved_version: the version of the extension that saved the settings; 0.0.0 by default.

        Raises:
            Exception: checking or loading failed; the error is the node's own.
        """
        node = self.new_node(node_id)
        document = json.loads(json.dumps(saved))
        kp.validate_parameters(node, document, saved_version)
        kp.inject_parameters(node, document, saved_version)
        return kp.extract_parameters(node)

    def describe(self) -> dict[str, Any]:
        """The extension as KNIME shows it: ``extension``, ``nodes``, ``categories`` and ``problems``."""
        return describe.describe_extension(self)

    def port_object(self, output: tuple[dict[str, Any], Any]) -> Any:
        """The port object in an output of a custom port type, which can be the input of another node.

        Args:
            output: the entry of `NodeResult.outputs`: the spec's document with the type's id, and the data.

        Raises:
            HeadlessError: the extension has no port type with this id.
        """
        spec, data = output
        kind = self.port_types.of_id(spec["id"])
        if kind is None:
            raise HeadlessError(f"the extension {self.id} has no port type {spec['id']}")
        return ports.stored_object(kind, spec["data"], data)

    def table(self, data: Any, row_ids: str = "auto") -> Any:
        """A table from Arrow data, as a node's execute() gets tables.

        Raises:
            HeadlessError: KNIME has no such tables.
        """
        with self.tables_usable():
            return source_table(data, row_ids)

    def add_file_store(self, key: str, data: bytes = b"") -> str:
        """Adds a file store for cells of input tables; returns its key."""
        self.file_stores.add(key, data)
        return key

    def column_of(self, values: Sequence[Any], value_type: type) -> Any:
        """An Arrow array of Python values with a registered value factory; None stands for a missing cell."""
        import pyarrow as pa
        from knime.extension import logical

        dtype = logical(value_type).to_pyarrow()
        with self.tables_usable():
            storage = [None if value is None else dtype.encode(value) for value in values]
        return pa.ExtensionArray.from_storage(dtype, pa.array(storage, type=dtype.storage_type))

    def declared(self, node_id: str) -> kn.Node:
        """A node's declaration.

        Raises:
            HeadlessError: there is no such node.
        """
        if node_id not in self.nodes:
            raise HeadlessError(f"there is no node {node_id!r}; nodes: {', '.join(sorted(self.nodes))}")
        return self.nodes[node_id]

    def new_node(self, node_id: str) -> Any:
        """A fresh node object."""
        self.make_current()
        return self.declared(node_id).node_factory()

    def make_current(self) -> None:
        """Sets the process-wide version and port types of the API to those of this extension."""
        kp.set_extension_version(self.version)
        kn.port_types = self.port_types

    @contextlib.contextmanager
    def tables_usable(self) -> Generator[None]:
        """Makes tables and file stores usable until exit. Several threads may enter at the same time."""
        with self._lock:
            self._users += 1
            knime_table._backend = self._backend
        try:
            yield
        finally:
            with self._lock:
                self._users -= 1
                if not self._users:
                    knime_table._backend = None


_hosts: dict[Path, ExtensionHost] = {}


def load(knime_yml: Path) -> ExtensionHost:
    """See `knime_mcp.headless.load_extension`."""
    path = (knime_yml / "knime.yml" if knime_yml.is_dir() else knime_yml).resolve()
    if path not in _hosts:
        value_types.register_all()
        _hosts[path] = _load(path)
    return _hosts[path]


def _load(path: Path) -> ExtensionHost:
    if path.name != "knime.yml":
        raise HeadlessError(f"KNIME looks for a file named knime.yml, not {path.name}")
    document = _read(path)
    version: str = document.get("version") or "0.0.0"
    host = ExtensionHost(path.parent, f"{document['group_id']}.{document['name']}", version)
    module = path.parent / document["extension_module"]
    _import(host, module)
    host.make_current()
    try:
        found = describe.problems(host)
    except Exception as error:
        raise HeadlessError(f"KNIME would drop the extension {host.id}: {error}") from error
    errors = [f"{where}: {what}" for severity, where, what in found if severity == "error"]
    if errors:
        raise HeadlessError(f"KNIME would drop the extension {host.id}: " + "; ".join(errors))
    return host


def _read(path: Path) -> dict[str, Any]:
    import yaml

    if not path.is_file():
        raise HeadlessError(f"there is no {path}")
    loaded: Any = yaml.safe_load(path.read_text(encoding="utf-8"))
    if not isinstance(loaded, dict):
        raise HeadlessError(f"{path} holds no keys")
    document = cast("dict[str, Any]", loaded)
    for key in ("name", "group_id", "extension_module"):
        if not isinstance(document.get(key), str) or not document[key]:
            raise HeadlessError(f"{path}: '{key}' must be a string")
    version = document.get("version")
    if version is not None:
        if not isinstance(version, str):
            raise HeadlessError(f"{path}: version {version!r} must be a string; put it in quotes")
        Version.parse_version(version)
    return document


def _import(host: ExtensionHost, module: Path) -> None:
    """Imports the extension's module, with its folder first in ``sys.path`` as in KNIME's processes."""
    folder = str(module.parent.resolve())
    if folder not in sys.path:
        sys.path.insert(0, folder)
    kp.set_extension_version(None)  # KNIME knows the version only after the import
    kn.port_types = host.port_types
    try:
        importlib.import_module(module.name)
    except Exception as error:
        details = traceback.format_exc()
        raise HeadlessError(f"KNIME would drop the extension {host.id}: {error}\n{details}") from error
    host.nodes = {key: node for key, node in kn._nodes.items() if _declares(host, node.module)}
    host.categories = [category for category in kn._categories if _declares(host, category.module)]


def _declares(host: ExtensionHost, module: str) -> bool:
    """Returns whether a module belongs to this extension, and not to another one in a folder inside."""
    file = getattr(sys.modules.get(module), "__file__", None)
    folders = Path(file).resolve().parents if file is not None else ()
    roots = {host.root, *(other.root for other in _hosts.values())}
    return next((folder for folder in folders if folder in roots), None) == host.root
