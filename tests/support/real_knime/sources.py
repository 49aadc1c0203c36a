"""KNIME's Python sources on the path of this process, in the order of KNIME's own, with value factories."""

import functools
import importlib
import json
import os
import subprocess
import sys
import tempfile
import warnings
import xml.etree.ElementTree as ET
from pathlib import Path

from .java_side import ClientServer, JavaMap, RigError
from .java_types import JAVA_VALUE_FACTORIES, PROTOTYPE_TOOL, logical_type_json, traits_of

KNIME_PYTHON_ROOT = os.environ.get("KNIME_PYTHON_ROOT", "")
KNIME_LLM_ROOT = os.environ.get("KNIME_LLM_ROOT", "")
KNIME_CORE_GIT = os.environ.get("KNIME_CORE_GIT", "")
KNIME_JSON_GIT = os.environ.get("KNIME_JSON_GIT", "")
#: Whether knime.types.tool is the prototype of knime-python's branch mcp-tools.
HAS_PROTOTYPE_TOOL = os.environ.get("RIG_MCP_TOOLS") == "1"

_SOURCES = "src/main/python"
API_FOLDERS = [
    f"{KNIME_PYTHON_ROOT}/{part}/{_SOURCES}"
    for part in (
        "org.knime.python3.nodes",
        "org.knime.python3",
        "org.knime.python3.arrow",
        "org.knime.python3.views",
    )
]


@functools.cache
def bootstrap():
    """Imports KNIME's launcher of node processes, with a modelled Java side; returns it."""
    if not KNIME_PYTHON_ROOT:
        raise RigError("set KNIME_PYTHON_ROOT to a checkout of github.com/knime/knime-python")
    folders = [*API_FOLDERS, *_type_folders()]
    for folder in folders:
        if not Path(folder).is_dir():
            raise RigError(f"missing source folder {folder}")
    sys.path[0:0] = folders
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        launcher = importlib.import_module("_node_backend_launcher")
    import knime
    import knime._backend._gateway as kg

    importlib.import_module("knime._views")  # KNIME does, too: it registers the sink of views
    if getattr(knime, "__file__", None):
        raise RigError(f"a regular package named 'knime' hides the real API: {knime.__file__}")
    kg.client_server = ClientServer()
    launcher._to_java_list = lambda entries: None if entries is None else list(entries)
    launcher._create_linked_hashmap = JavaMap
    _register_knimes_own()
    return launcher


def _type_folders():
    folders = [f"{KNIME_PYTHON_ROOT}/org.knime.python3.arrow.types/{_SOURCES}"]
    if HAS_PROTOTYPE_TOOL:
        place = f"origin/mcp-tools:org.knime.python3.arrow.types/{_SOURCES}/knime/types/tool.py"
        folders.insert(0, _from_git(KNIME_PYTHON_ROOT, place, "tool"))
    if KNIME_LLM_ROOT and Path(KNIME_LLM_ROOT, "org.knime.ai.core", _SOURCES).is_dir():
        folders.append(f"{KNIME_LLM_ROOT}/org.knime.ai.core/{_SOURCES}")
    if _has_json():
        folders.append(
            _from_git(KNIME_JSON_GIT, "HEAD:org.knime.json/src/python/knime/types/json.py", "json")
        )
    return folders


def _has_json():
    return bool(KNIME_JSON_GIT) and Path(KNIME_JSON_GIT).is_dir()


def _from_git(git, place, name):
    """A folder with one module of knime.types, from a git directory."""
    command = ["git", "-C", git, "show", place]
    source = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    folder = Path(tempfile.mkdtemp(prefix="knime_rig_types_"))
    (folder / "knime" / "types").mkdir(parents=True)
    (folder / "knime" / "types" / f"{name}.py").write_text(source, encoding="utf-8")
    return str(folder)


def register_value_factory(java_class, storage, module, factory, value_type, type_name=None, is_default=True):
    """Registers a Python value factory as KNIME does for one that an extension contributes."""
    import knime.api.types as kt

    name = type_name or java_class.rpartition(".")[2]
    kt.register_python_value_factory(
        module,
        factory,
        name,
        json.dumps(storage),
        json.dumps(traits_of(storage, logical_type_json(java_class))),
        value_type,
        is_default,
    )
    if is_default:
        JAVA_VALUE_FACTORIES.setdefault(java_class, (storage, name, java_class))


def _register_knimes_own():
    """The value factories of KNIME's own plugin.xml files whose storage is known here; defaults first."""
    found = [own for plugin in _plugins() for own in _contributions(plugin)]
    if HAS_PROTOTYPE_TOOL:
        java_class, entry = PROTOTYPE_TOOL
        JAVA_VALUE_FACTORIES[java_class] = entry
        found.append((True, java_class, "knime.types.tool", "ToolValueFactory", "knime.types.tool.Tool"))
    if _has_json():
        java_class = "org.knime.core.data.json.JSONValueFactory"
        found.append((True, java_class, "knime.types.json", "JsonValueFactory", "builtins.dict"))
    for is_default, java_class, *place in sorted(found, key=lambda own: not own[0]):
        storage, name, _ = JAVA_VALUE_FACTORIES.get(java_class, (None, None, None))
        if storage is not None:
            register_value_factory(java_class, storage, *place, name, is_default)


def _plugins():
    places = [
        Path(KNIME_PYTHON_ROOT, "org.knime.python3.arrow.types", "plugin.xml"),
        Path(KNIME_LLM_ROOT, "org.knime.ai.core", "plugin.xml"),
    ]
    return [ET.parse(place).getroot() for place in places if place.is_file()]


def _contributions(plugin):
    for extension in plugin.findall("extension[@point='org.knime.python3.types.PythonValueFactory']"):
        for module in extension.findall("Module"):
            for own in module.findall("PythonValueFactory"):
                is_default = own.get("isDefaultPythonRepresentation", "true").lower() == "true"
                place = (module.get("moduleName"), own.get("PythonClassName"), own.get("ValueTypeName"))
                yield (is_default, own.get("ValueFactory"), *place)
