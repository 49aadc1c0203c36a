"""Loads an extension as KNIME does, holds its nodes, tables and file stores, and describes it."""

# The stand-in's registries have KNIME's names, which are private.
# pyright: reportPrivateUsage=false

import contextlib
import importlib
import shutil
import sys
import tempfile
import threading
import traceback
import uuid
import weakref
from collections.abc import Generator, Mapping, Sequence
from pathlib import Path
from typing import Any, cast
from xml.etree import ElementTree

from knime.api import table as knime_table
from knime.extension import nodes as kn
from knime.extension import parameter as kp
from knime.extension.ports import PortGroup, PortTypeRegistry

from .column_types import register_all
from .node_results import HostError, NodeResult
from .node_run import NodeRun, Request, ViewService, open_dialog
from .port_values import source_table, through_json


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
        self._paths[key] = self._folder / uuid.uuid4().hex
        self._paths[key].write_bytes(data)

    def file_store_key_to_absolute_path(self, key: str) -> str:
        if key not in self._paths:
            raise RuntimeError(f"there is no file store with the key {key!r}")
        return str(self._paths[key])


class FileStoresOfView(FileStores):
    """The files of cells for a view, in which KNIME creates none."""

    def __init__(self, stores: FileStores) -> None:
        self._paths = stores._paths

    def create_file_store(self) -> tuple[str, str]:
        raise RuntimeError("KNIME creates no file stores in a view: hand the value on to execute()")


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
        self._backend_of_view = knime_table.Backend(FileStoresOfView(self.file_stores))
        self._entered: list[knime_table.Backend] = []
        self._lock = threading.Lock()

    def run_node(self, node_id: str, *inputs_and_parameters: Any, **options: Any) -> NodeResult:
        """Configures and executes a node, each on a fresh object and on a worker thread, as KNIME does.

        Args:
            node_id: the id in ``nodes``.
            inputs_and_parameters: those of a `Request`, and ``options`` its others.
            options: see there.

        Raises:
            HostError: there is no such node, or the inputs do not fit its ports.
        """
        return NodeRun(self, self._request(node_id, *inputs_and_parameters, **options)).result()

    def data_service(self, node_id: str, *inputs_and_parameters: Any, **options: Any) -> ViewService:
        """Makes the data service of a node's view. For the arguments see `run_node`."""
        return ViewService(self, self._request(node_id, *inputs_and_parameters, **options))

    def get_dialog(self, node_id: str, *specs_and_parameters: Any, **options: Any) -> dict[str, Any]:
        """The documents of a node's dialog: ``data``, ``schema`` and ``ui_schema``; see `run_node`.

        Inputs may be schemas and specs, too. Descriptions are the original Markdown, which KNIME converts to
        HTML. Raises HostError: the dialog would not open.
        """
        return open_dialog(self, self._request(node_id, *specs_and_parameters, **options))

    def _request(
        self,
        node_id: str,
        inputs: Sequence[Any] | None = None,
        parameters: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> Request:
        folder = Path(options.pop("workflow_dir", None) or self.folder / "workflow")
        given = {name: value for name, value in options.items() if value is not None}
        return Request(node_id, inputs, parameters or {}, workflow_dir=folder, **given)

    def load_parameters(
        self, node_id: str, saved: Mapping[str, Any], saved_version: str | None = None
    ) -> dict[str, Any]:
        """Loads a workflow's saved settings into a new node, checks them, and returns them as saved again.

        ``saved`` is the whole document, ``{"model": {…}}``, and ``saved_version`` the version of the
        extension that saved it, 0.0.0 by default. What the node's own checks raise is raised.
        """
        node = self.new_node(node_id)
        document = through_json(saved)
        kp.validate_parameters(node, document, saved_version)
        kp.inject_parameters(node, document, saved_version)
        return kp.extract_parameters(node)

    def describe(self) -> dict[str, Any]:
        """The extension as KNIME shows it: ``extension``, ``nodes``, ``categories`` and ``problems``."""
        return {
            "extension": {"id": self.id, "version": self.version},
            "nodes": [_described(self, node) for node in self.nodes.values()],
            "categories": [category.to_dict() for category in self.categories],
            "problems": problems(self),
        }

    def table(self, data: Any, row_ids: str = "auto") -> Any:
        """A table from Arrow data, as a node's execute() gets tables."""
        with self.tables_usable():
            return source_table(data, row_ids)

    def column_of(self, values: Sequence[Any], value_type: type) -> Any:
        """An Arrow array of Python values with a registered value factory; None stands for a missing cell."""
        import pyarrow as pa
        from knime.extension import logical

        dtype = logical(value_type).to_pyarrow()
        with self.tables_usable():
            storage = [None if value is None else dtype.encode(value) for value in values]
        return pa.ExtensionArray.from_storage(dtype, pa.array(storage, type=dtype.storage_type))

    def declared(self, node_id: str) -> kn.Node:
        """A node's declaration; HostError for an unknown id names the known ones."""
        if node_id not in self.nodes:
            raise HostError(f"there is no node {node_id!r}; nodes: {', '.join(sorted(self.nodes))}")
        return self.nodes[node_id]

    def new_node(self, node_id: str) -> Any:
        self.make_current()
        return self.declared(node_id).node_factory()

    def make_current(self) -> None:
        """Sets the process-wide version and port types of the API to those of this extension.

        KNIME has one process per extension. Here several may share one, so each host does this before its
        nodes are made; who asks the API without a node (as tests do) has to do it, too.
        """
        kp.set_extension_version(self.version)
        kn.port_types = self.port_types

    @contextlib.contextmanager
    def tables_usable(self, *, in_view: bool = False) -> Generator[None]:
        """Makes tables and file stores usable until exit. Several threads may enter at the same time."""
        backend = self._backend_of_view if in_view else self._backend
        with self._lock:
            self._entered.append(backend)
            self._choose_backend()
        try:
            yield
        finally:
            with self._lock:
                self._entered.remove(backend)
                self._choose_backend()

    def _choose_backend(self) -> None:
        # The API has one backend per process. KNIME executes and shows nodes in processes of their own; where
        # both are under way here, the view may create file stores, too.
        entered = self._entered
        is_executing = self._backend in entered
        knime_table._backend = self._backend if is_executing else entered[-1] if entered else None


_hosts: dict[Path, ExtensionHost] = {}


def load(knime_yml: Path) -> ExtensionHost:
    path = (knime_yml / "knime.yml" if knime_yml.is_dir() else knime_yml).resolve()
    if path not in _hosts:
        register_all()
        _hosts[path] = _load(path)
        _hosts[path].make_current()
    return _hosts[path]


def _load(path: Path) -> ExtensionHost:
    if path.name != "knime.yml":
        raise HostError(f"KNIME looks for a file named knime.yml, not {path.name}")
    document = _read(path)
    version: str = document.get("version") or "0.0.0"
    extension_id = f"{document['group_id']}.{document['name']}"
    host = ExtensionHost(path.parent, extension_id, version)
    module = path.parent / document["extension_module"]
    _import(host, module)
    host.make_current()
    try:
        found = problems(host)
    except Exception as error:
        raise HostError(f"KNIME would drop the extension {host.id}: {error}") from error
    errors = [f"{where}: {what}" for severity, where, what in found if severity == "error"]
    if errors:
        raise HostError(f"KNIME would drop the extension {host.id}: " + "; ".join(errors))
    return host


def _read(path: Path) -> dict[str, Any]:
    import yaml

    if not path.is_file():
        raise HostError(f"there is no {path}")
    loaded: Any = yaml.safe_load(path.read_text(encoding="utf-8"))
    if not isinstance(loaded, dict):
        raise HostError(f"{path} holds no keys")
    document = cast("dict[str, Any]", loaded)
    for key in ("name", "group_id", "extension_module"):
        if not isinstance(document.get(key), str) or not document[key]:
            raise HostError(f"{path}: '{key}' must be a string")
    version = document.get("version")
    if version is not None:
        if not isinstance(version, str):
            raise HostError(f"{path}: version {version!r} must be a string; put it in quotes")
        kp.Version.parse_version(version)
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
        raise HostError(f"KNIME would drop the extension {host.id}: {error}\n{details}") from error
    # The registries belong to the process, in which other extensions may be loaded as well.
    host.nodes = {key: node for key, node in kn._nodes.items() if _declares(host, node.module)}
    host.categories = [category for category in kn._categories if _declares(host, category.module)]


def _declares(host: ExtensionHost, module: str) -> bool:
    """Returns whether a module belongs to this extension, and not to another one in a folder inside."""
    file = getattr(sys.modules.get(module), "__file__", None)
    folders = Path(file).resolve().parents if file is not None else ()
    roots = {host.root, *(other.root for other in _hosts.values())}
    return next((folder for folder in folders if folder in roots), None) == host.root


Problem = tuple[str, str, str]
_MISSING = "Missing description."


def problems(host: ExtensionHost) -> list[Problem]:
    """The problems of an extension, as (severity, place, problem). KNIME drops extensions with errors."""
    categories = [problem for category in host.categories for problem in _category_problems(host, category)]
    return categories + [problem for node in host.nodes.values() for problem in _node_problems(host, node)]


def _descriptions(docstring: str | None) -> tuple[str, str]:
    """The short and the full description: the docstring's first line, and its other lines."""
    if docstring is None:
        return _MISSING, _MISSING
    lines = docstring.removeprefix("\n").splitlines()
    return lines[0], "\n".join(lines[1:]) if len(lines) > 1 else _MISSING


def _described(host: ExtensionHost, node: kn.Node) -> dict[str, Any]:
    made = host.new_node(node.id)
    short, full = _descriptions(made.__doc__)
    return {
        **node.to_dict(),
        "short_description": short,
        "full_description": full,
        "options": kp.extract_parameter_descriptions(made),
        "tabs": [],
    }


def _category_problems(host: ExtensionHost, category: kn.Category) -> list[Problem]:
    where = f"category {category.level_id}"
    found: list[Problem] = [
        ("error", where, f"{key} must be a string")
        for key, value in category.to_dict().items()
        if key != "locked" and not isinstance(value, str)
    ]
    if not (host.root / str(category.icon)).is_file():
        found.append(("warning", where, f"icon {category.icon!r} is not there, seen from knime.yml"))
    return found


def _node_problems(host: ExtensionHost, node: kn.Node) -> list[Problem]:
    where = f"node {node.id}"
    found: list[Problem] = []
    if not isinstance(node.icon_path, str):
        found.append(("error", where, "icon_path must be a string"))
    elif not (host.root / node.icon_path).is_file():
        found.append(("warning", where, f"icon {node.icon_path!r} is not there, seen from knime.yml"))
    docstring = host.new_node(node.id).__doc__
    if docstring in ("", "\n"):
        return [*found, ("error", where, "the docstring is empty; write a first line and more below it")]
    short, full = _descriptions(docstring)
    if _MISSING in (short, full):
        found.append(("warning", where, "the docstring needs a first line and more below it"))
    # KNIME's NodeDescriptionBuilder.java puts these two texts into XML unescaped; all others pass through
    # Markdown, which escapes.
    raw = {"first line of the docstring": short}
    if node.views[0] is not None:
        raw["description of the view"] = node.views[0].description
    for what, text in raw.items():
        if not _is_xml(text):
            found.append(("error", where, f"{what}: write & and < as &amp; and &lt;: {text!r}"))
    return found + _port_problems(where, node)


def _is_xml(text: str) -> bool:
    try:
        ElementTree.fromstring(f"<text>{text}</text>")  # the extension's own text
    except ElementTree.ParseError:
        return False
    return True


def _port_problems(where: str, node: kn.Node) -> list[Problem]:
    found: list[Problem] = []
    for side, ports in (("input", node.input_ports), ("output", node.output_ports)):
        for port in ports:
            if not isinstance(port.name, str) or not isinstance(port.description, str):  # pyright: ignore[reportUnnecessaryIsInstance]
                found.append(
                    ("error", where, f"{side} port {port.name}: name and description must be strings")
                )
        # KNIME uses the names of groups and optional ports as ids.
        names = [p.name for p in ports if isinstance(p, PortGroup) or p.optional]
        for name in {name for name in names if names.count(name) > 1}:
            found.append(("error", where, f"two {side} port groups or optional ports are named {name!r}"))
    return found
