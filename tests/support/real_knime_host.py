"""
real_knime_host - load and run a KNIME pure-Python extension under the REAL knime-python
sources, outside KNIME Analytics Platform (AP).  Compatibility rig.

What is real and what is faked
------------------------------
REAL (imported from a knime-python checkout, unmodified files): knime.extension,
knime.api.*, knime._arrow.* (Arrow-backed Table, sinks, sources, extension types), the node
backend `_node_backend_launcher` (loadExtension / retrieveNodesAsJson / _PythonNodeProxy:
getParameters, getSchema, setParameters, validateParameters, getDialogRepresentation,
configure, execute, getDataService), the markdown parser, JavaPortTypeRegistry.
FAKED: everything behind py4j (no JVM): the gateway object, callbacks, contexts, table
sinks/sources (plain Arrow IPC files on disk), filestores (files in a temp dir), credentials,
flow variables, progress, cancellation, tool execution, view sink.
Two launcher helpers that need a live py4j connection are replaced (`_to_java_list`,
`_create_linked_hashmap`).  What Java would do afterwards is *checked*, not executed:
`check_java_readable` (value factory known? Arrow storage equal to the Java DataSpec? RowIDs
unique?), `describe_extension` (icons, XML well-formedness, Node XSD), `check_knwf`.

Requirements: Python 3.9+ with pyarrow, pandas<3 (AP ships 2.3), py4j, pyyaml, pytz,
python-dateutil, markdown<3.11 (lxml for XSD checks).
With pandas>=3 the rig switches `future.infer_string` off, because the real
Table.from_pandas cannot handle pandas' new `str` dtype.

Use as a library
----------------
    import sys; sys.path.insert(0, "<folder of this file>")
    import real_knime_host as rig

    host = rig.load_extension("/path/to/knime.yml")          # AP order: types, then extension
    rig.describe_extension(host)                             # nodes, categories, problems
    t = rig.table_from_pyarrow(pa.table({"a": ["x", "y"]}))  # real ArrowSourceTable on disk
    ctx = rig.make_exec_context(credentials={"c": ("user", "secret")},
                                flow_variables={"v": 1},
                                tool_handler=lambda tool, params, inputs, hints: ("ok", [], []))
    r = rig.run_node(host, "MyNodeClass", [t], parameters={"url": "http://..."}, context=ctx)
    r.ok, r.failure, r.outputs[0].to_pylist(), r.warnings, r.flow_variables, r.view_html

  * `inputs`  - one entry per DECLARED input port: a table for a Port, None for an unconnected
    optional port, a list for a port group.  Tables may be knext.Table, pa.Table or DataFrame;
    custom port objects are instances of the port's object_class; credential ports take a
    rig.CredentialPort("Bearer", "token").
  * `parameters` - partial; merged (deep) over the node's defaults, then pushed through the
    real validateParameters + setParameters, as AP does on load.
  * `register_value_factory(...)` registers a PythonValueFactory the way Java would;
    `column_of(values, value_type)` makes an Arrow column of a logical type.
  * `get_dialog(host, node, input_schemas)` returns the JSON Forms document the dialog gets.
  * `data_service(host, node, inputs)` gives the JSON-RPC endpoint of a node with a static view.
  * `to_settings_xml / from_settings_xml` port AP's JSON<->NodeSettings mapping;
    `check_knwf(path, host)` checks a workflow archive and feeds its settings to the real node.

Command line
------------
    real_knime_host.py dump  KNIME_YML [--out DIR]   JSON of nodes/params/schema/dialog/description
    real_knime_host.py check KNIME_YML               problems only; exit 1 if any error
    real_knime_host.py knwf  FILE.knwf [KNIME_YML]   check a workflow archive
    real_knime_host.py selftest                      the rig's own tests

One Python process = one extension (as in AP): call load_extension once per process, or
`reset()` in between (best effort).
Environment: KNIME_PYTHON_ROOT (required: a checkout of github.com/knime/knime-python), KNIME_LLM_ROOT
(optional: a checkout of knime/knime-python-llm, used for knime.types.message), KNIME_CORE_GIT (optional:
a git directory of knime/knime-core, used for the node XSD), KNIME_JSON_GIT (optional: a git directory of
knime/knime-json, used for knime.types.json, i.e. logical type of `dict`; the self-test needs it),
RIG_MCP_TOOLS=1 to take knime.types.tool from knime-python's origin/mcp-tools branch instead
of the checkout.
"""

import argparse
import copy
import dataclasses
import importlib
import io
import json
import logging
import os
import shutil
import subprocess
import sys
import tempfile
import uuid
import warnings
import zipfile
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any, Callable, Dict, List, Optional, Sequence

KNIME_PYTHON_ROOT = os.environ.get("KNIME_PYTHON_ROOT", "")
KNIME_LLM_ROOT = os.environ.get("KNIME_LLM_ROOT", "")
KNIME_CORE_GIT = os.environ.get("KNIME_CORE_GIT", "")
KNIME_JSON_GIT = os.environ.get("KNIME_JSON_GIT", "")

_BDT = "org.knime.core.node.BufferedDataTable"
_CRED = "org.knime.credentials.base.CredentialPortObject"
_V2 = "org.knime.core.data.v2."
_TOOL = "org.knime.core.node.agentic.tool."


# ---------------------------------------------------------------------------------------
# Java value factories we know: class -> (DataSpec JSON | None = any, cell type name,
#                                         preferred value class)
# DataSpec JSON is what Java's DataSpecSerializer would send.
# ---------------------------------------------------------------------------------------
def struct_(*inner):
    return {"type": "struct", "inner_types": list(inner)}


def list_of(inner):
    return {"type": "list", "inner_type": inner}


_PORT = struct_("string", "string", "string", "string")  # name, description, type, spec
_VAL = "org.knime.core.data."
JAVA_VALUE_FACTORIES: Dict[str, tuple] = {
    _V2 + "value.DefaultRowKeyValueFactory": ("string", "RowID", _VAL + "StringValue"),
    _V2 + "value.IntValueFactory": ("int", "Number (Integer)", _VAL + "IntValue"),
    _V2 + "value.LongValueFactory": ("long", "Number (Long)", _VAL + "LongValue"),
    _V2 + "value.DoubleValueFactory": ("double", "Number (Float)", _VAL + "DoubleValue"),
    _V2 + "value.StringValueFactory": ("string", "String", _VAL + "StringValue"),
    _V2 + "value.BooleanValueFactory": ("boolean", "Boolean", _VAL + "BooleanValue"),
    # void is stored as string by the Python side (pyarrow bug work-around)
    _V2 + "value.VoidValueFactory": (None, "?", _VAL + "DataValue"),
    _V2 + "value.IntListValueFactory": (list_of("int"), "List", _VAL + "collection.ListDataValue"),
    _V2 + "value.LongListValueFactory": (list_of("long"), "List", _VAL + "collection.ListDataValue"),
    _V2 + "value.DoubleListValueFactory": (list_of("double"), "List", _VAL + "collection.ListDataValue"),
    _V2 + "value.StringListValueFactory": (list_of("string"), "List", _VAL + "collection.ListDataValue"),
    _V2 + "value.BooleanListValueFactory": (list_of("boolean"), "List", _VAL + "collection.ListDataValue"),
    _V2 + "value.ListValueFactory": (None, "List", _VAL + "collection.ListDataValue"),
    _V2 + "value.SetValueFactory": (None, "Set", _VAL + "collection.SetDataValue"),
    # all cells without a factory of their own, such as XML; the class is in the logical type
    _V2 + "value.cell.DictEncodedDataCellValueFactory": (None, "?", _VAL + "DataValue"),
    _V2 + "time.LocalDateValueFactory": ("long", "Local Date", _VAL + "time.localdate.LocalDateValue"),
    _V2 + "time.LocalTimeValueFactory": ("long", "Local Time", _VAL + "time.localtime.LocalTimeValue"),
    _V2 + "time.LocalDateTimeValueFactory": (struct_("long", "long"), "Local Date Time", _VAL + "time.localdatetime.LocalDateTimeValue"),
    _V2 + "time.ZonedDateTimeValueFactory2": (struct_("long", "long", "int", "string"), "Zoned Date Time", _VAL + "time.zoneddatetime.ZonedDateTimeValue"),
    _V2 + "time.DurationValueFactory": (struct_("long", "int"), "Duration", _VAL + "time.duration.DurationValue"),
    _V2 + "time.PeriodValueFactory": (struct_("int", "int", "int"), "Period", _VAL + "time.period.PeriodValue"),
    "org.knime.core.data.image.png.PNGImageValueFactory": (struct_("string", "variable_width_binary"), "PNG Image", _VAL + "image.png.PNGImageValue"),
    # knime-json (part of AP's base installation in practice)
    "org.knime.core.data.json.JSONValueFactory": (struct_("string", "variable_width_binary"), "JSON", _VAL + "json.JSONValue"),
    # knime-core master, since 5.5
    _TOOL + "WorkflowToolValueFactory": (
        struct_("string", struct_("string", "string", "string", list_of(_PORT), list_of(_PORT), "int")),
        "WorkflowTool", _TOOL + "ToolValue"),
    # KNIME AI extension (org.knime.ai.core)
    "org.knime.ai.core.data.message.MessageValueFactory": (
        struct_("string", list_of(struct_("string", "variable_width_binary")),
                list_of(struct_("string", "string", "string")), "string", "string"),
        "Message", "org.knime.ai.core.data.message.MessageValue"),
}
# only on knime-core branch mcp-tools: ports are LISTS there, though the branch's own Python
# writes JSON strings into fields 4/5 (see knime-api-facts.md section 6)
MCP_BRANCH_TOOL_SPEC = struct_(
    "string",
    struct_("int", "string", "string", "string", list_of(_PORT), list_of(_PORT), "int", "string", "string", "string"))


class RigError(RuntimeError):
    """The rig itself was misused or AP would refuse at this point."""


# ---------------------------------------------------------------------------------------
# py4j / JVM stand-ins
# ---------------------------------------------------------------------------------------
class _Jvm:
    """Attribute path that resolves the handful of JVM calls the Arrow backend makes."""

    def __init__(self, path=()):
        self._path = path

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return _Jvm(self._path + (name,))

    def __call__(self, *args):
        full = ".".join(self._path)
        last = self._path[-1]
        if last == "PythonColumnarSchemaBuilder":
            return _ColumnarSchemaBuilder()
        if last.endswith("Spec") and len(self._path) > 1 and self._path[-2] == "DataSpec":
            return {"varBinarySpec": "variable_width_binary"}.get(last, last[: -len("Spec")].lower())
        if last == "StructDataSpec":
            return struct_(*args[0])
        if last == "ListDataSpec":
            return list_of(args[0])
        if last == "getSupportedTimeZones":
            import zoneinfo

            return sorted(zoneinfo.available_timezones())
        if last == "getTypeNameForLogicalTypeString":
            cls = json.loads(args[0])["value_factory_class"]
            if cls not in JAVA_VALUE_FACTORIES:
                raise RuntimeError("no such value factory: " + cls)
            return JAVA_VALUE_FACTORIES[cls][1]
        raise RigError(f"JVM call not modelled by the rig: {full}{args}")


class _ColumnarSchemaBuilder:
    def __init__(self):
        self.columns = []

    def addColumn(self, spec):
        self.columns.append(spec)

    def build(self):
        return list(self.columns)


class _FakeClientServer:
    jvm = _Jvm()
    _gateway_client = None

    @staticmethod
    def new_array(_cls, n):
        return [None] * n


class FakePy4JJavaError(Exception):
    """Replaced in bootstrap() by a subclass of py4j's Py4JJavaError."""


def _py4j_convertible(v) -> bool:
    if v is None or isinstance(v, (bool, int, float, str, bytes, bytearray)):
        return True
    if isinstance(v, (list, tuple, set)):
        return all(_py4j_convertible(x) for x in v)
    if isinstance(v, dict):
        return all(_py4j_convertible(x) for kv in v.items() for x in kv)
    return False


class _JavaMap(dict):
    """py4j raises AttributeError for values it cannot turn into Java objects."""

    def __setitem__(self, k, v):
        if not _py4j_convertible(v):
            raise AttributeError(f"'{type(v).__name__}' object has no attribute '_get_object_id'")
        super().__setitem__(k, v)


class _JavaSink:
    """PythonArrowDataSink."""

    def __init__(self, path):
        self.path, self.offsets, self.columnar_schema, self.size = str(path), [], None, None

    def getIdentifier(self):
        return "org.knime.python3.arrow"

    def getAbsolutePath(self):
        return self.path

    def reportBatchWritten(self, offset):
        self.offsets.append(offset)

    def setColumnarSchema(self, schema):
        self.columnar_schema = schema

    def setFinalSize(self, size):
        self.size = size


class _JavaSource:
    """PythonArrowDataSource over a finished Arrow IPC file."""

    def __init__(self, path, column_names):
        self.path, self._names = str(path), list(column_names)

    def getIdentifier(self):
        return "org.knime.python3.arrow"

    def getAbsolutePath(self):
        return self.path

    def isFooterWritten(self):
        return True

    def hasColumnNames(self):
        return True

    def getColumnNames(self):
        return self._names  # without the RowID


class _ViewSink:
    def __init__(self, path):
        self.path, self.report = str(path), False

    def getIdentifier(self):
        return "org.knime.python3.views"

    def getOutputFilePath(self):
        return self.path

    def setCanBeUsedInReport(self, flag):
        self.report = flag


class _JavaTable:
    def __init__(self, source):
        self._source = source

    def getJavaClassName(self):
        return _BDT

    def getDataSource(self):
        return self._source


class _JavaSpec:
    def __init__(self, class_name, data):
        self._class_name, self._data = class_name, data

    def getJavaClassName(self):
        return self._class_name

    def toJsonString(self):
        return json.dumps(self._data)


class _JavaBinary:
    def __init__(self, class_name, path, spec):
        self._class_name, self._path, self._spec = class_name, path, spec

    def getJavaClassName(self):
        return self._class_name

    def getFilePath(self):
        return self._path

    def getSpec(self):
        return self._spec


@dataclasses.dataclass
class CredentialPort:
    """Input for a PortType.CREDENTIAL port (object, or spec in a dialog): what an Authenticator
    or Secrets node would deliver.  available=False: connected, but not executed yet."""
    schema: str = "Bearer"
    parameters: str = ""
    expires_after: Optional[float] = None  # seconds since the epoch
    available: bool = True
    known = {}

    def __post_init__(self):
        self.xml = f"<config key='{uuid.uuid4()}'/>"
        if self.available:
            CredentialPort.known[self.xml] = self


class _JavaExtensionPort:
    """PythonExtensionPortObject(Spec): goes through a registered port object converter."""

    def __init__(self, class_name, text=None, spec=None):
        self._class_name, self._text, self._spec = class_name, text, spec

    def getJavaClassName(self):
        return self._class_name

    def getIntermediateRepresentation(self):
        return self

    def getStringRepresentation(self):
        return self._text

    def getSpec(self):
        return self._spec


class _FileStoreFile:
    def __init__(self, path, key):
        self._path, self._key = str(path), key

    def get_key(self):
        return self._key

    def get_file_path(self):
        return self._path


class JavaCallback:
    """Union of the Java callbacks (execution, configuration, dialog, view) of a node."""

    def __init__(self, host, flow_variables=None, phase="execute"):
        self.host, self.phase = host, phase
        self.in_flow_variables = dict(flow_variables or {})
        self.out_flow_variables: Optional[dict] = None
        self.failure: Optional[dict] = None
        self.logs: List[tuple] = []
        self.sinks: List[_JavaSink] = []
        self.files: Dict[str, str] = {}
        self.view_sink: Optional[_ViewSink] = None

    def _only(self, *phases):
        if self.phase not in phases:
            raise RuntimeError(f"Java: not available in {self.phase}")

    def log(self, msg, severity):
        self.logs.append((severity, msg))

    def set_failure(self, message, details, invalid_settings):
        self.failure = {"message": message, "details": details, "invalid_settings": invalid_settings}

    def get_flow_variables(self):
        return dict(self.in_flow_variables)

    def set_flow_variables(self, variables):
        self.out_flow_variables = dict(variables)

    def create_sink(self):
        self._only("execute", "view")
        s = _JavaSink(self.host.new_file(".arrow"))
        self.sinks.append(s)
        return s

    def create_filestore_file(self):
        self._only("execute")
        key = str(uuid.uuid4())
        path = self.host.new_file("")
        self.files[key] = str(path)
        return _FileStoreFile(path, key)

    def create_view_sink(self):
        self._only("execute")
        if self.view_sink is None:
            self.view_sink = _ViewSink(self.host.new_file(".html"))
        return self.view_sink

    def get_preferred_value_types_as_json(self, schema_json):
        schema = json.loads(schema_json)["schema"]
        return json.dumps([_column_metadata(t) for t in schema["traits"][1:]])

    # file stores of FileStorePythonValueFactory; note: a view data service has no
    # create_file_store in AP (DefaultViewCallback)
    def create_file_store(self):
        self._only("execute")
        key = "fs-" + uuid.uuid4().hex
        path = self.host.new_file("")
        self.host.file_stores[key] = str(path)
        return [str(path), key]

    def file_store_key_to_absolute_path(self, key):
        if key not in self.host.file_stores:
            raise RuntimeError(f"Java: unknown file store key {key!r}")
        return self.host.file_stores[key]

    def get_auth_schema(self, xml):
        return self._credential(xml).schema

    def get_auth_parameters(self, xml):
        return self._credential(xml).parameters

    def get_expires_after(self, xml):
        e = self._credential(xml).expires_after
        if e is None:
            return None
        return type("ExpiryDate", (), {"getEpochSeconds": lambda s: int(e), "getNanoSeconds": lambda s: int(e % 1 * 1e9)})()

    def _credential(self, xml):
        if xml not in CredentialPort.known:
            raise FakePy4JJavaError("the credential is not available (upstream node not executed?)")
        return CredentialPort.known[xml]


class ToolResult:
    """PythonToolResult record: accessors are methods, as with a Java record."""

    def __init__(self, message, outputs, output_ids=None, view_node_ids=None):
        self._v = (message, outputs, output_ids, view_node_ids)

    def message(self):
        return self._v[0]

    def outputs(self):
        return self._v[1]

    def outputIds(self):
        return self._v[2]

    def viewNodeIds(self):
        return self._v[3]


class _WorkflowInfo:
    def __init__(self, project_id, workflow_id, input_ids):
        self._v = (project_id, workflow_id, input_ids)

    def projectId(self):
        return self._v[0]

    def workflowId(self):
        return self._v[1]

    def inputPortIds(self):
        return self._v[2]


class JavaContext:
    """PythonConfigurationContext / PythonExecutionContext / PythonViewContext in one.

    cancel: False, True, a callable() -> bool, or an int n = report cancelled from the n-th
    is_canceled() call on (1-based).  The framework itself calls it once after execute().
    tool_handler(tool, parameters: dict, inputs: [pa.Table], hints) -> message
        or (message, [pa.Table]|None) or (message, outputs, view_node_ids); outputs None = failed.
    combined_tool_handler(tool, parameters, input_ids, hints) ->
        (message, outputs, output_ids, view_node_ids)
    Recorded: progress, warnings, tool_calls.
    """

    def __init__(self, credentials=None, flow_variables=None, cancel=False, tool_handler=None,
                 combined_tool_handler=None, workflow_dir=None, node_id="Node 0:1", view_data=None):
        self.credentials = dict(credentials or {})
        self.flow_variables = dict(flow_variables or {})
        self.cancel, self.cancel_checks = cancel, 0
        self.tool_handler, self.combined_tool_handler = tool_handler, combined_tool_handler
        self.workflow_dir = workflow_dir
        self.node_id, self.view_data = node_id, view_data
        self.progress: List[tuple] = []
        self.warnings: List[str] = []
        self.tool_calls: List[dict] = []
        self.input_port_map: Dict[str, List[int]] = {}
        self.output_port_map: Dict[str, List[int]] = {}
        self.host: Optional["Host"] = None

    # --- base
    def get_credential_names(self):
        return list(self.credentials)

    def get_credentials(self, identifier):
        if identifier not in self.credentials:
            raise FakePy4JJavaError(f'No credentials stored to name "{identifier}"')
        c = self.credentials[identifier]
        return [c[0], c[1], identifier]

    def get_input_port_map(self):
        return self.input_port_map

    def get_output_port_map(self):
        return self.output_port_map

    # --- configure
    def set_warning(self, message):
        self.warnings.append(message)

    def get_node_id(self):
        return self.node_id

    # --- execute
    def set_progress(self, progress, message=None):
        self.progress.append((progress, message))

    def is_canceled(self):
        self.cancel_checks += 1
        if callable(self.cancel):
            return bool(self.cancel())
        if isinstance(self.cancel, bool):
            return self.cancel
        return self.cancel_checks >= self.cancel

    def get_workflow_temp_dir(self):
        d = self.host.dir / "wf_tmp"
        d.mkdir(exist_ok=True)
        return str(d)

    def get_workflow_dir(self):
        d = Path(self.workflow_dir) if self.workflow_dir else self.host.dir / "workflow"
        d.mkdir(exist_ok=True, parents=True)
        return str(d)

    def get_knime_home_dir(self):
        d = self.host.dir / "knime_home"
        d.mkdir(exist_ok=True)
        return str(d)

    def get_view_data(self):
        return self.view_data

    # --- tools
    def _record(self, kind, tool_table, parameters, inputs, hints):
        tool = _read_tool(tool_table)
        if not isinstance(parameters, str):
            raise RigError("Java expects the tool parameters as a JSON string")
        bad = {k: v for k, v in dict(hints).items() if not (isinstance(k, str) and isinstance(v, str))}
        if bad:
            raise RigError(f"execution hints must be Map<String,String>; offending: {bad}")
        call = {"kind": kind, "tool": tool, "parameters": json.loads(parameters) if parameters else {},
                "inputs": inputs, "hints": dict(hints)}
        self.tool_calls.append(call)
        return call

    def execute_tool(self, tool_table, parameters, inputs, hints):
        tables = [read_sink(i.getPythonArrowDataSink()) for i in inputs]
        call = self._record("isolated", tool_table, parameters, tables, hints)
        if self.tool_handler is None:
            raise FakePy4JJavaError("no tool handler configured in the rig")
        out = self.tool_handler(call["tool"], call["parameters"], tables, call["hints"])
        if isinstance(out, str):
            out = (out, [])
        message, outputs, view_ids = (tuple(out) + (None, None))[:3]
        return ToolResult(message, None if outputs is None else [_java_table(self.host, t) for t in outputs],
                          None, view_ids or [])

    def execute_tool_in_combined_workflow(self, tool_table, parameters, input_ids, hints):
        call = self._record("combined", tool_table, parameters, list(input_ids), hints)
        if self.combined_tool_handler is None:
            raise FakePy4JJavaError("Executing a tool with input IDs is not supported here.")
        message, outputs, output_ids, view_ids = self.combined_tool_handler(
            call["tool"], call["parameters"], call["inputs"], call["hints"])
        return ToolResult(message, None if outputs is None else [_java_table(self.host, t) for t in outputs],
                          output_ids, view_ids or [])

    def init_combined_tools_workflow(self, inputs, exec_mode, remove_failed):
        if exec_mode not in ("DEFAULT", "DETACHED", "DEBUG"):
            raise FakePy4JJavaError(f"No enum constant ExecutionMode.{exec_mode}")
        return _WorkflowInfo("virtual-project", "0:99", [f"1#{i + 1}" for i in range(len(inputs))])

    def get_combined_tools_workflow(self):
        raise RigError("workflow ports are not modelled")


def _read_tool(tool_table):
    t = read_sink(tool_table.getPythonArrowDataSink())
    if t.num_rows != 1:
        raise RigError("a tool table must have exactly one row")
    problems = check_java_readable(t)
    if problems:
        raise RigError("Java could not read the tool cell: " + "; ".join(problems))
    return t.column(1).to_pylist()[0]


# ---------------------------------------------------------------------------------------
# bootstrap
# ---------------------------------------------------------------------------------------
_state: Dict[str, Any] = {"booted": False, "launcher": None, "logs": []}
_SRC = ["org.knime.python3.nodes", "org.knime.python3", "org.knime.python3.arrow", "org.knime.python3.views"]


def bootstrap(root: Optional[str] = None, mcp_tools: Optional[bool] = None):
    """Put the real sources on sys.path in AP's order and import the node backend."""
    if _state["booted"]:
        return _state["launcher"]
    root = root or KNIME_PYTHON_ROOT
    if not root:
        raise RigError("set KNIME_PYTHON_ROOT to a checkout of github.com/knime/knime-python")
    if mcp_tools is None:
        mcp_tools = os.environ.get("RIG_MCP_TOOLS") == "1"
    if "knime" in sys.modules and getattr(sys.modules["knime"], "__file__", None):
        raise RigError("a regular package named 'knime' is already imported; it would hide the real API")
    front = [f"{root}/{p}/src/main/python" for p in _SRC]
    types = [f"{root}/org.knime.python3.arrow.types/src/main/python"]
    if os.path.isdir(f"{KNIME_LLM_ROOT}/org.knime.ai.core/src/main/python"):
        types.append(f"{KNIME_LLM_ROOT}/org.knime.ai.core/src/main/python")
    def from_git(git, rev_path, name):
        src = subprocess.run(["git", "-C", git, "show", rev_path], capture_output=True, text=True, check=True).stdout
        d = tempfile.mkdtemp(prefix="knime_rig_types_")
        os.makedirs(f"{d}/knime/types")
        Path(f"{d}/knime/types/{name}.py").write_text(src)
        return d

    if os.path.isdir(KNIME_JSON_GIT):
        types.append(from_git(KNIME_JSON_GIT, "HEAD:org.knime.json/src/python/knime/types/json.py", "json"))
    if mcp_tools:
        types.insert(0, from_git(
            root, "origin/mcp-tools:org.knime.python3.arrow.types/src/main/python/knime/types/tool.py", "tool"))
    for p in front + types:
        if not os.path.isdir(p):
            raise RigError(f"missing source folder {p}")
    _state["front"], _state["types"] = front, types
    sys.path[0:0] = front + types

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import pandas as pd

        if int(pd.__version__.split(".")[0]) >= 3:
            pd.set_option("future.infer_string", False)
        launcher = importlib.import_module("_node_backend_launcher")
    import knime
    import knime._backend._gateway as kg
    import knime._views  # noqa: F401  (preloaded by AP: registers the view sink)
    from py4j.protocol import Py4JJavaError

    if getattr(knime, "__file__", None):
        raise RigError(f"'knime' resolves to a regular package ({knime.__file__}); the real one is a namespace package")

    global FakePy4JJavaError

    class _FakePy4JJavaError(Py4JJavaError):
        def __init__(self, message):
            Exception.__init__(self, message)
            self.errmsg = message
            self.java_exception = type("E", (), {
                "getMessage": lambda s: message,
                "getClass": lambda s: type("C", (), {"getName": lambda c: "java.lang.RuntimeException"})()})()

        def __str__(self):  # as py4j has it: with the stack trace of the Java side
            return ("An error occurred while calling o1.call.\n: java.lang.RuntimeException: "
                    f"{self.errmsg}\n\tat org.knime.core.Some.call(Some.java:1)\n")

    FakePy4JJavaError = _FakePy4JJavaError
    kg.client_server = _FakeClientServer()
    launcher._to_java_list = lambda xs: None if xs is None else list(xs)
    launcher._create_linked_hashmap = _JavaMap
    _state.update(booted=True, launcher=launcher, mcp_tools=mcp_tools)
    register_ap_value_factories(mcp_tools)
    return launcher


def traits_from_spec(spec, logical_type=None):
    """The DataTraits JSON Java sends for a value factory without dict encoding."""
    t = {"logical_type": logical_type} if logical_type else {}
    if isinstance(spec, str):
        return {"type": "simple", "traits": t}
    if spec["type"] == "list":
        return {"type": "list", "traits": t, "inner": traits_from_spec(spec["inner_type"])}
    return {"type": "struct", "traits": t, "inner": [traits_from_spec(s) for s in spec["inner_types"]]}


def logical_type_json(java_class: str) -> str:
    return json.dumps({"value_factory_class": java_class}, separators=(",", ":"))


def register_value_factory(java_class: str, data_spec, python_module: str, python_class: str,
                           value_type: str, type_name: Optional[str] = None, default: bool = True,
                           java_known: bool = True):
    """Register a PythonValueFactory as AP does from the extension point.

    java_known=False registers it on the Python side only, to see what happens when the Java
    ValueFactory does not exist (check_java_readable will complain, as AP would fail).
    """
    import knime.api.types as kt

    kt.register_python_value_factory(
        python_module, python_class, type_name or java_class.rsplit(".", 1)[-1], json.dumps(data_spec),
        json.dumps(traits_from_spec(data_spec, logical_type_json(java_class))), value_type, default)
    if java_known and default:
        JAVA_VALUE_FACTORIES.setdefault(java_class, (data_spec, type_name or java_class, java_class))


def register_ap_value_factories(mcp_tools=False):
    """Value factories contributed by AP's own plugin.xml files (subset with known specs)."""
    xmls = [Path(KNIME_PYTHON_ROOT) / "org.knime.python3.arrow.types/plugin.xml",
            Path(KNIME_LLM_ROOT) / "org.knime.ai.core/plugin.xml"]
    todo = []
    for x in xmls:
        if not x.is_file():
            continue
        for ext in ET.parse(x).getroot().findall("extension"):
            if ext.get("point") != "org.knime.python3.types.PythonValueFactory":
                continue
            for mod in ext.findall("Module"):
                for vf in mod.findall("PythonValueFactory"):
                    default = (vf.get("isDefaultPythonRepresentation") or "true").lower() == "true"
                    todo.append((default, mod.get("moduleName"), vf))
    if mcp_tools:
        JAVA_VALUE_FACTORIES[_TOOL + "ToolValueFactory"] = (MCP_BRANCH_TOOL_SPEC, "Tool", _TOOL + "ToolValue")
        el = ET.Element("PythonValueFactory", {
            "PythonClassName": "ToolValueFactory", "ValueFactory": _TOOL + "ToolValueFactory",
            "ValueTypeName": "knime.types.tool.Tool"})
        todo.append((True, "knime.types.tool", el))
    for default, module, vf in sorted(todo, key=lambda t: not t[0]):  # defaults first, as AP does
        java = vf.get("ValueFactory")
        known = JAVA_VALUE_FACTORIES.get(java)
        if known is None or known[0] is None:
            continue
        register_value_factory(java, known[0], module, vf.get("PythonClassName"), vf.get("ValueTypeName"),
                               known[1], default)
    if os.path.isdir(KNIME_JSON_GIT):
        java = "org.knime.core.data.json.JSONValueFactory"
        register_value_factory(java, JAVA_VALUE_FACTORIES[java][0], "knime.types.json", "JsonValueFactory",
                               "builtins.dict", "JSON")


def _column_metadata(traits):
    lt = traits.get("traits", {}).get("logical_type")
    cls = json.loads(lt)["value_factory_class"] if lt else None
    if cls not in JAVA_VALUE_FACTORIES:
        raise RuntimeError(f"Java: Unknown ValueFactory class '{cls}'")
    _, name, pref = JAVA_VALUE_FACTORIES[cls]
    return {"preferred_value_type": pref, "displayed_column_type": name}


# ---------------------------------------------------------------------------------------
# extension loading
# ---------------------------------------------------------------------------------------
@dataclasses.dataclass
class Host:
    id: str
    version: str
    root: Path
    yaml: dict
    backend: Any
    dir: Path
    log: list
    file_stores: Dict[str, str] = dataclasses.field(default_factory=dict)

    def new_file(self, suffix):
        return self.dir / (uuid.uuid4().hex + suffix)

    def add_file_store(self, key: str, data: bytes = b"") -> str:
        """A file store that a cell of an input table may refer to by key."""
        path = self.new_file("")
        path.write_bytes(data)
        self.file_stores[key] = str(path)
        return key

    @property
    def nodes(self):
        import knime.extension.nodes as kn

        return kn._nodes

    def proxy(self, node_id):
        if node_id not in self.nodes:
            raise RigError(f"no node id {node_id!r}; have {sorted(self.nodes)}")
        return self.backend.createNodeFromExtension(node_id)


class _ListHandler(logging.Handler):
    def __init__(self, sink):
        super().__init__(logging.DEBUG)
        self.sink = sink

    def emit(self, record):
        if not record.name.startswith(("py4j", "asyncio")):
            self.sink.append((record.levelname, record.name, record.getMessage()))


def load_extension(path_to_knime_yml: str, **boot) -> Host:
    """Parse knime.yml and load the extension module exactly as the launcher would."""
    import yaml

    yml = Path(path_to_knime_yml).resolve()
    if yml.is_dir():
        yml = yml / "knime.yml"
    if yml.name != "knime.yml":
        raise RigError("AP looks for a file called knime.yml")
    data = yaml.safe_load(yml.read_text())
    for k in ("name", "group_id", "extension_module"):
        if not isinstance(data.get(k), str) or not data[k]:
            raise RigError(f"knime.yml: '{k}' missing or not a string (AP would fail)")
    version = data.get("version")
    if version is not None and not isinstance(version, str):
        raise RigError(f"knime.yml: version {version!r} is not a string: ClassCastException in AP; quote it")
    version = version or "0.0.0"
    ext_id = f"{data['group_id']}.{data['name']}"
    rel = Path(data["extension_module"])
    module_dir, module = (yml.parent / rel).parent, rel.name

    launcher = bootstrap(**boot)
    import knime.extension.nodes as kn

    if kn._nodes:
        raise RigError("an extension is already loaded in this process; call reset() first")
    # AP: script dir, python3, arrow, views, <module dir>, type modules
    idx = len(_state["front"])
    sys.path.insert(idx, str(module_dir))
    log: list = []
    handler = _ListHandler(log)
    logging.getLogger().addHandler(handler)
    logging.getLogger().setLevel(logging.DEBUG)
    backend = launcher._KnimeNodeBackend()
    for register in (backend.registerKnimeToPyPortObjectConverter, backend.registerPyToKnimePortObjectConverter):
        register("_port_impl", "CredentialConverter", _CRED, _CRED + "Spec", "Credential")
    before = set(sys.modules)
    try:
        backend.loadExtension(ext_id, module, version)
    except Exception:
        sys.path.remove(str(module_dir))
        raise
    _state["ext"] = (str(module_dir), set(sys.modules) - before, handler)
    host = Host(ext_id, version, yml.parent, data, backend, Path(tempfile.mkdtemp(prefix="knime_rig_")), log)
    _state["host"] = host
    return host


def reset():
    """Forget the loaded extension (best effort: module-level state elsewhere survives)."""
    import knime.extension.nodes as kn

    if "ext" not in _state:
        return
    module_dir, modules, handler = _state.pop("ext")
    for m in modules:
        f = getattr(sys.modules.get(m), "__file__", None) or ""
        if f.startswith(module_dir):
            sys.modules.pop(m, None)
    if module_dir in sys.path:
        sys.path.remove(module_dir)
    logging.getLogger().removeHandler(handler)
    kn._nodes.clear()
    kn._categories.clear()
    host = _state.pop("host", None)
    if host:
        shutil.rmtree(host.dir, ignore_errors=True)


# ---------------------------------------------------------------------------------------
# tables
# ---------------------------------------------------------------------------------------
class _TmpBackend:
    """Install a real Arrow backend on knime.api.table outside run_node."""

    def __init__(self, host, phase="execute", callback=None):
        self.host, self.cb = host, callback or JavaCallback(host, phase=phase)

    def __enter__(self):
        import knime._arrow._table as kat
        import knime._backend._gateway as kg
        import knime.api.table as kt

        self.old = kt._backend
        kt._backend = kat._ArrowBackend(lambda: kg.data_sink_mapper(self.cb.create_sink()))
        kt._backend.file_store_handler = self.cb
        return kt._backend

    def __exit__(self, *exc):
        import knime.api.table as kt

        kt._backend.close()
        kt._backend = self.old
        return False


def _host(host=None) -> Host:
    host = host or _state.get("host")
    if host is None:
        bootstrap()
        host = Host("rig", "0.0.0", Path("."), {}, None, Path(tempfile.mkdtemp(prefix="knime_rig_")), [])
        _state["host"] = host
    return host


def column_of(values: Sequence, value_type: type, host=None):
    """Arrow array of a logical type; values are encoded by its registered value factory."""
    import pyarrow as pa
    import knime.api.schema as ks

    bootstrap()
    dtype = ks.logical(value_type).to_pyarrow()
    with _TmpBackend(_host(host)):
        storage = [None if v is None else dtype.encode(v) for v in values]
    return pa.ExtensionArray.from_storage(dtype, pa.array(storage, type=dtype.storage_type))


def table_from_pyarrow(data, row_ids: str = "auto", host=None):
    """Write `data` to an Arrow file through the real sink and hand back the real
    ArrowSourceTable that a node receives in execute()."""
    import pyarrow as pa
    import knime._arrow._table as kat
    import knime._backend._gateway as kg
    import knime.api.table as kt

    host = _host(host)
    bootstrap()
    with _TmpBackend(host):
        if isinstance(data, pa.Table):
            table = kt.Table.from_pyarrow(data, row_ids=row_ids)
        elif isinstance(data, kt.Table):
            table = data
        elif hasattr(data, "to_records"):  # pandas
            table = kt.Table.from_pandas(data, row_ids=row_ids)
        else:
            raise RigError(f"cannot make a table of {type(data)}")
        sink = kt._backend.create_sink()
        table._write_to_sink(sink)
        sink.close()
        path = sink._java_data_sink.path
    problems = check_java_readable(pa.ipc.open_file(pa.memory_map(path)).read_all())
    if problems:
        raise RigError("input table is not something AP could produce: " + "; ".join(problems))
    src = kat.ArrowSourceTable(kg.data_source_mapper(_JavaSource(path, table.column_names)))
    src._host_path = path
    src._inject_metadata(JavaCallback(host).get_preferred_value_types_as_json)
    return src


def _java_table(host, data) -> _JavaTable:
    path = getattr(data, "_host_path", None)
    if path is None:
        data = table_from_pyarrow(data, host=host)
        path = data._host_path
    return _JavaTable(_JavaSource(path, data.column_names))


def read_sink(java_sink: _JavaSink):
    """pa.Table (first column = RowID) as Java would find it in the file of a closed sink."""
    import pyarrow as pa

    if java_sink.size is None:
        raise RigError("sink was not closed")
    with pa.OSFile(java_sink.path) as f:
        return pa.ipc.open_file(f).read_all()


def _arrow_spec(t):
    """DataSpec JSON of an Arrow storage type."""
    import pyarrow as pa
    import pyarrow.types as pat

    if isinstance(t, pa.ExtensionType):
        return _arrow_spec(t.storage_type)
    if pat.is_struct(t):
        return struct_(*[_arrow_spec(t.field(i).type) for i in range(t.num_fields)])
    if pat.is_list(t) or pat.is_large_list(t):
        return list_of(_arrow_spec(t.value_type))
    names = {"string": "string", "large_binary": "variable_width_binary", "bool": "boolean", "int32": "int",
             "int64": "long", "double": "double", "float": "float", "int8": "byte", "null": "void"}
    return names.get(str(t), f"?{t}")


def check_java_readable(table, strict_names=True) -> List[str]:
    """What AP's Java side would choke on when it opens this Arrow table."""
    import pyarrow as pa
    import pyarrow.types as pat
    import knime._arrow._types as katy
    import knime._arrow._dictencoding as kas

    out = []
    names = table.schema.names
    if len(set(names)) != len(names):
        out.append(f"duplicate column names {names}")
    for i, f in enumerate(table.schema):
        t = f.type
        if kas.is_struct_dict_encoded(t) or katy.is_dict_encoded_value_factory_type(t):
            continue
        if not katy.is_value_factory_type(t):
            out.append(f"column {f.name!r}: no logical type (plain Arrow {t})")
            continue
        try:
            cls = json.loads(t.logical_type)["value_factory_class"]
            has_cell = "data_type" in json.loads(t.logical_type)
        except Exception:
            out.append(f"column {f.name!r}: logical type is not JSON: {t.logical_type!r}")
            continue
        if has_cell:
            continue
        if cls not in JAVA_VALUE_FACTORIES:
            out.append(f"column {f.name!r}: unknown Java ValueFactory {cls} -> 'Unknown ValueFactory class' in AP")
            continue
        want = JAVA_VALUE_FACTORIES[cls][0]
        got = _arrow_spec(t)
        if want is not None and want != got:
            out.append(f"column {f.name!r}: storage {json.dumps(got)} but {cls.rsplit('.', 1)[-1]} wants {json.dumps(want)}")

        def walk(st, path):
            if isinstance(st, pa.ExtensionType):
                walk(st.storage_type, path)
            elif pat.is_struct(st):
                fields = [st.field(k).name for k in range(st.num_fields)]
                if fields != [str(k) for k in range(len(fields))]:
                    out.append(f"column {f.name!r}{path}: struct fields {fields} are not '0','1',..")
                for k in range(st.num_fields):
                    walk(st.field(k).type, f"{path}.{k}")
            elif pat.is_list(st) or pat.is_large_list(st):
                walk(st.value_type, path + "[]")

        if strict_names:
            walk(t, "")
    if table.num_columns and table.num_rows:
        c0 = table.column(0)
        ids = []
        for chunk in c0.chunks:
            ids += (chunk.storage if isinstance(chunk, pa.ExtensionArray) else chunk).to_pylist()
        if any(r is None for r in ids):
            out.append("null RowID")
        if len(set(ids)) != len(ids):
            dup = sorted({r for r in ids if r is not None and ids.count(r) > 1})[:3]
            out.append(f"duplicate RowIDs, e.g. {dup}")
    return out


# ---------------------------------------------------------------------------------------
# ports
# ---------------------------------------------------------------------------------------
def _flatten_inputs(node, inputs, kn):
    ports = node.input_ports
    if len(inputs) != len(ports):
        raise RigError(f"{len(inputs)} inputs given, node declares {len(ports)}: {[p.name for p in ports]}")
    flat, pmap = [], {}
    for i, (port, val) in enumerate(zip(ports, inputs)):
        if isinstance(port, kn.PortGroup):
            vals, key = list(val or []), port.name
        elif port.optional:
            vals, key = ([] if val is None else [val]), port.name
        else:
            if val is None:
                raise RigError(f"input port {port.name!r} is not optional")
            vals, key = [val], f"Input {port.name} # {i}"
        if key in pmap:
            raise RigError(f"two ports map to the same port group id {key!r} in AP")
        pmap[key] = list(range(len(flat), len(flat) + len(vals)))
        flat += [(port, v) for v in vals]
    return flat, pmap


def _output_map(node, groups, kn):
    pmap, n = {}, 0
    for i, port in enumerate(node.output_ports):
        cnt = (groups or {}).get(port.name, 1) if isinstance(port, kn.PortGroup) else 1
        key = port.name if isinstance(port, kn.PortGroup) else f"Output {port.name} # {i}"
        pmap[key] = list(range(n, n + cnt))
        n += cnt
    return pmap, n


def _java_spec(host, port, obj, kn, ks):
    if obj is None:
        return None
    if port.type == kn.PortType.TABLE:
        if isinstance(obj, ks._ColumnarView):
            obj = obj.get()
        if not isinstance(obj, ks.Schema):
            obj = obj.schema if hasattr(obj, "_host_path") else table_from_pyarrow(obj, host=host).schema
        schema = obj
        d = schema.serialize()
        d["columnMetaData"] = [None] + [_column_metadata(t) for t in d["schema"]["traits"][1:]]
        return _JavaSpec("org.knime.core.data.DataTableSpec", d)
    if port.type == kn.PortType.BINARY:
        return _JavaSpec("org.knime.python3.nodes.ports.PythonBinaryBlobPortObjectSpec", {"id": port.id})
    if port.type == kn.PortType.CREDENTIAL:
        if not isinstance(obj, CredentialPort):
            raise RigError(f"give port {port.name!r} a real_knime_host.CredentialPort")
        return _JavaExtensionPort(_CRED + "Spec", json.dumps({"data": obj.xml}))
    if port.type in (kn.PortType.WORKFLOW, kn.PortType.IMAGE, kn.PortType.HUB_AUTHENTICATION):
        raise RigError(f"input ports of type {port.type} are not modelled")
    spec = obj.spec if hasattr(obj, "spec") else obj
    ptype = host.backend._port_type_registry.get_port_type_for_spec_type(type(spec))
    data = {"id": ptype.id, "data": json.loads(json.dumps(spec.serialize()))}
    if issubclass(ptype.object_class, kn.ConnectionPortObject):
        data.update(node_id="upstream", port_idx=0)
        return _JavaSpec("org.knime.python3.nodes.ports.PythonTransientConnectionPortObjectSpec", data)
    return _JavaSpec("org.knime.python3.nodes.ports.PythonBinaryBlobPortObjectSpec", data)


def _java_object(host, port, obj, kn, ks, launcher):
    if port.type == kn.PortType.TABLE:
        return _java_table(host, obj)
    spec = _java_spec(host, port, obj, kn, ks)
    if port.type == kn.PortType.CREDENTIAL:
        return _JavaExtensionPort(_CRED, None, spec)
    blob = "org.knime.python3.nodes.ports.PythonBinaryBlobFileStorePortObject"
    path = str(host.new_file(""))
    if port.type == kn.PortType.BINARY:
        Path(path).write_bytes(obj)
        return _JavaBinary(blob, path, spec)
    ptype = host.backend._port_type_registry.get_port_type_for_spec_type(type(obj.spec))
    if issubclass(ptype.object_class, kn.ConnectionPortObject):
        launcher._PortTypeRegistry._connection_port_data["upstream:0"] = obj.to_connection_data()
        return _JavaBinary("org.knime.python3.nodes.ports.PythonTransientConnectionPortObject", None, spec)
    kn.save_port_object(obj, path)
    return _JavaBinary(blob, path, spec)


# ---------------------------------------------------------------------------------------
# running nodes
# ---------------------------------------------------------------------------------------
class OutputTable:
    def __init__(self, arrow):
        self.arrow = arrow
        self.problems = check_java_readable(arrow)

    @property
    def column_names(self):
        return self.arrow.schema.names[1:]

    @property
    def row_ids(self):
        import pyarrow as pa

        return [x for c in self.arrow.column(0).chunks
                for x in (c.storage if isinstance(c, pa.ExtensionArray) else c).to_pylist()]

    @property
    def logical_types(self):
        return {f.name: json.loads(f.type.logical_type)["value_factory_class"] for f in self.arrow.schema}

    def to_pylist(self):
        with _TmpBackend(_host()):  # file store values decode lazily and need a backend
            cols = {n: self.arrow.column(n).to_pylist() for n in self.column_names}
        return [dict(zip(cols, r)) for r in zip(*cols.values())] if cols else [{}] * self.arrow.num_rows

    def as_input(self, host=None):
        """The same data as input table of a downstream node."""
        import pyarrow as pa

        return table_from_pyarrow(self.arrow.rename_columns(["<RowID>"] + self.column_names), "keep", host)

    def __repr__(self):
        return f"OutputTable({self.column_names}, rows={self.arrow.num_rows}, problems={self.problems})"


@dataclasses.dataclass
class NodeResult:
    ok: bool
    failure: Optional[dict]
    outputs: list
    specs: list
    warnings: list
    flow_variables: Optional[dict]
    progress: list
    logs: list
    view_html: Optional[str]
    parameters: dict
    problems: list
    context: JavaContext


def make_exec_context(**kw) -> JavaContext:
    """See JavaContext for the arguments."""
    bootstrap()
    return JavaContext(**kw)


def _deep_merge(base, over):
    out = copy.deepcopy(base)
    for k, v in (over or {}).items():
        if k not in out:
            raise RigError(f"unknown parameter {k!r}; have {sorted(out)}")
        out[k] = _deep_merge(out[k], v) if isinstance(v, dict) and isinstance(out[k], dict) and "mode" not in out[k] else v
    return out


def default_parameters(host, node_id) -> dict:
    return json.loads(host.proxy(node_id).getParameters())


def apply_parameters(host, proxy, parameters, version=None) -> dict:
    """validate + set, in the order AP uses when it loads settings."""
    params = json.loads(proxy.getParameters())
    params["model"] = _deep_merge(params["model"], parameters)
    text = json.dumps(params)
    err = proxy.validateParameters(text, version or host.version)
    if err is not None:
        raise RigError(f"validateParameters: {err}")
    proxy.setParameters(text, version or host.version)
    return params


def _run(host, proxy, method, cb, ctx, args):
    proxy.initializeJavaCallback(cb)
    return getattr(proxy, method)(*args, ctx)


def run_node(host: Host, node_id: str, inputs: Sequence = (), parameters: Optional[dict] = None,
             context: Optional[JavaContext] = None, execute: bool = True, configure: bool = True,
             output_groups: Optional[Dict[str, int]] = None, flow_variables: Optional[dict] = None,
             credentials: Optional[dict] = None) -> NodeResult:
    """configure() then execute(), each on a FRESH node instance with re-applied parameters,
    because AP may use different Python processes for the two."""
    launcher = bootstrap()
    import knime.api.schema as ks
    import knime.extension.nodes as kn

    ctx = context or JavaContext()
    ctx.host = host
    if credentials:
        ctx.credentials.update(credentials)
    if flow_variables:
        ctx.flow_variables.update(flow_variables)
    problems, specs, outputs, view, params = [], [], [], None, {}
    cb = JavaCallback(host, ctx.flow_variables, "configure")
    logs: list = []
    carried = parameters
    flow_out = None
    node = host.proxy(node_id)._node
    flat, ctx.input_port_map = _flatten_inputs(node, list(inputs), kn)
    ctx.output_port_map, n_out = _output_map(node, output_groups, kn)

    if configure:
        proxy = host.proxy(node_id)
        try:
            params = apply_parameters(host, proxy, carried)
        except RigError as e:
            cb.set_failure(str(e), "", True)
        if cb.failure is None:
            in_specs = [_java_spec(host, p, v, kn, ks) for p, v in flat]
            res = _run(host, proxy, "configure", cb, ctx, (in_specs,))
            if cb.failure is None:
                if len(res) != n_out:
                    cb.set_failure(f"Python node configure returned wrong number of output port specs "
                                   f"({len(res)} instead of {n_out})", "", False)
                specs = [None if s is None else json.loads(s.toJsonString()) for s in res]
                for s in specs:
                    for tr in ((s or {}).get("schema", {}) or {}).get("traits", []):
                        lt = tr.get("traits", {}).get("logical_type")
                        cls = json.loads(lt)["value_factory_class"] if lt and lt.startswith("{") else None
                        if cls not in JAVA_VALUE_FACTORIES:
                            problems.append(f"configure: Java cannot resolve column type {lt!r}")
            # auto-configure: AP stores what the node set on itself in configure()
            carried = json.loads(proxy.getParameters())["model"]
            flow_out = cb.out_flow_variables
        logs += cb.logs

    if execute and cb.failure is None:
        merged = dict(ctx.flow_variables)
        merged.update(flow_out or {})
        cb = JavaCallback(host, merged, "execute")
        proxy = host.proxy(node_id)
        proxy._node  # fresh instance
        try:
            params = apply_parameters(host, proxy, carried)
        except RigError as e:
            cb.set_failure(str(e), "", True)
        if cb.failure is None:
            in_objs = [_java_object(host, p, v, kn, ks, launcher) for p, v in flat]
            res = _run(host, proxy, "execute", cb, ctx, (in_objs,))
            flow_out = cb.out_flow_variables if cb.out_flow_variables is not None else flow_out
            if cb.failure is None:
                if len(res) != n_out:
                    problems.append(f"execute returned {len(res)} port objects, AP expects {n_out}")
                for o in res:
                    cls = o.getJavaClassName()
                    if cls == _BDT:
                        t = OutputTable(read_sink(o.getPythonArrowDataSink()))
                        problems += [f"output table: {p}" for p in t.problems]
                        outputs.append(t)
                    elif hasattr(o, "getImageBytes"):
                        import base64

                        outputs.append(base64.b64decode(o.getImageBytes()))
                    elif hasattr(o, "getFileStoreKey"):
                        path = cb.files[o.getFileStoreKey()]
                        data = Path(path).read_bytes() if os.path.isfile(path) else path
                        outputs.append((json.loads(o.getSpec().toJsonString()), data))
                    else:
                        outputs.append(o)
                k = 0
                for s, o in zip(specs, outputs):
                    if s and isinstance(o, OutputTable) and s["columnNames"][1:] != o.column_names:
                        problems.append(f"output {k}: columns {o.column_names} but configure promised {s['columnNames'][1:]}")
                    elif s and isinstance(o, OutputTable):
                        want = [json.loads(t["traits"]["logical_type"])["value_factory_class"]
                                for t in s["schema"]["traits"][1:] if t["traits"].get("logical_type")]
                        got = list(o.logical_types.values())[1:]
                        if want != got:
                            problems.append(f"output {k}: column types {got} but configure promised {want}")
                    k += 1
                if cb.view_sink:
                    view = Path(cb.view_sink.path).read_text(encoding="utf-8")
            params = json.loads(proxy.getParameters())
        logs += cb.logs
    return NodeResult(cb.failure is None, cb.failure, outputs, specs, ctx.warnings, flow_out, ctx.progress,
                      logs, view, params, problems, ctx)


def get_dialog(host: Host, node_id: str, input_schemas: Optional[Sequence] = None, parameters=None,
               context: Optional[JavaContext] = None) -> dict:
    """{"data","schema","ui_schema"} as sent to the dialog.  input_schemas: per declared input
    port a knext.Schema / table / spec, None (= connected port without spec), or a list."""
    bootstrap()
    import knime.api.schema as ks
    import knime.extension.nodes as kn

    proxy = host.proxy(node_id)
    node = proxy._node
    ctx = context or JavaContext()
    ctx.host = host
    flat, pmap = [], {}
    given = list(input_schemas) if input_schemas is not None else [
        [] if isinstance(p, kn.PortGroup) else None for p in node.input_ports]
    for i, (p, v) in enumerate(zip(node.input_ports, given)):
        group = isinstance(p, kn.PortGroup)
        vals = list(v or []) if group else ([] if (p.optional and v is None) else [v])
        pmap[p.name if group or p.optional else f"Input {p.name} # {i}"] = list(range(len(flat), len(flat) + len(vals)))
        flat += [(p, x) for x in vals]
    ctx.input_port_map = pmap
    ctx.output_port_map, _ = _output_map(node, None, kn)
    specs = [_java_spec(host, p, v, kn, ks) for p, v in flat]
    ctx.get_input_specs = lambda: specs
    cb = JavaCallback(host, ctx.flow_variables, "dialog")
    proxy.initializeJavaCallback(cb)
    params = json.loads(proxy.getParameters())
    params["model"] = _deep_merge(params["model"], parameters)
    text = proxy.getDialogRepresentation(json.dumps(params), host.version, ctx)
    if text is None:
        raise RigError("dialog: " + cb.failure["message"] + "\n" + cb.failure["details"])
    return json.loads(text)


def data_service(host: Host, node_id: str, inputs: Sequence = (), parameters=None,
                 context: Optional[JavaContext] = None):
    """Callable rpc(method, *params) on the node's view data service (flow variables are
    always empty there and no file stores can be created, as in AP)."""
    launcher = bootstrap()
    import knime.api.schema as ks
    import knime.extension.nodes as kn

    ctx = context or JavaContext()
    ctx.host = host
    proxy = host.proxy(node_id)
    apply_parameters(host, proxy, parameters)
    flat, ctx.input_port_map = _flatten_inputs(proxy._node, list(inputs), kn)
    cb = JavaCallback(host, {}, "view")
    proxy.initializeJavaCallback(cb)
    svc = proxy.getDataService(ctx, [_java_object(host, p, v, kn, ks, launcher) for p, v in flat])

    def rpc(method, *params):
        out = json.loads(svc.handleJsonRpcRequest(json.dumps(
            {"jsonrpc": "2.0", "id": 1, "method": method, "params": list(params)})))
        if "error" in out:
            raise RuntimeError(out["error"])
        return out["result"]

    rpc.service, rpc.context = svc, ctx
    return rpc


# ---------------------------------------------------------------------------------------
# descriptions
# ---------------------------------------------------------------------------------------
_NODE_TYPES = {"Source", "Sink", "Learner", "Predictor", "Manipulator", "Visualizer", "Other"}


def _fragment(text):
    """NodeDescriptionBuilder.parseDocumentFragment; None becomes the text 'null'."""
    return ET.fromstring("<fragment>" + ("null" if text is None else text) + "</fragment>")


def node_description_xml(n: dict, host: Host) -> str:
    """The knimeNode XML AP builds (order of elements as in NodeDescriptionBuilder)."""
    def put(parent, tag, text, **attrs):
        e = ET.SubElement(parent, tag, {k.replace("_", "-"): v for k, v in attrs.items()})
        f = _fragment(text)
        e.text = f.text
        e.extend(list(f))
        return e

    root = ET.Element("knimeNode", {"icon": str(host.root / n["icon_path"]), "type": n["node_type"],
                                    "deprecated": str(n["is_deprecated"]).lower()})
    ET.SubElement(root, "name").text = n["name"]
    put(root, "shortDescription", n["short_description"] or n["name"])
    full = ET.SubElement(root, "fullDescription")
    put(full, "intro", n["full_description"] or n["name"])
    for tab in n["tabs"]:
        t = ET.SubElement(full, "tab", {"name": tab["name"]})
        if (tab["description"] or "").strip():
            put(t, "description", tab["description"])
        for o in tab["options"]:
            put(t, "option", o["description"], name=o["name"])
    for o in n["options"]:
        put(full, "option", o["description"], name=o["name"])
    ports = ET.SubElement(root, "ports")
    for tag, key in (("in", "input_port_specifier"), ("out", "output_port_specifier")):
        dyn = [p for p in n[key] if p["group"] or (tag == "in" and p["optional"])]
        for p in n[key]:
            if p not in dyn:
                put(ports, tag + "Port", p["description"], name=p["name"], index=str(p["description_index"]))
        for p in dyn:
            e = put(ports, "dyn" + tag.capitalize() + "Port", p["description"], name=p["name"])
            e.set("group-identifier", p["name"])
            e.set("insert-before", str(p["description_index"]))
    if n["views"]:
        views = ET.SubElement(root, "views")
        for i, v in enumerate(n["views"]):
            put(views, "view", v["description"], name=v["name"], index=str(i))
    if n["keywords"]:
        kws = ET.SubElement(root, "keywords")
        for k in n["keywords"]:
            ET.SubElement(kws, "keyword").text = k
    return ET.tostring(root, encoding="unicode")


_xsd = None


def _node_xsd():
    global _xsd
    if _xsd is None:
        try:
            from lxml import etree

            src = subprocess.run(["git", "-C", KNIME_CORE_GIT, "show",
                                  "master:org.knime.core/src/eclipse/org/knime/core/node/Node_v4.1.xsd"],
                                 capture_output=True, check=True).stdout
            _xsd = etree.XMLSchema(etree.fromstring(src))
        except Exception as e:  # XSD checks are a bonus
            _xsd = e
    return _xsd


def describe_extension(host: Host) -> dict:
    """Nodes and categories as AP gets them, plus a list of (severity, where, what)."""
    log0 = len(host.log)
    problems: list = []
    try:
        nodes = json.loads(host.backend.retrieveNodesAsJson())
    except ImportError as e:
        raise RigError(f"the real markdown parser cannot be imported ({e}); it needs markdown<3.11, AP ships 3.8") from e
    cats = json.loads(host.backend.retrieveCategoriesAsJson())
    for lvl, name, msg in host.log[log0:]:
        if lvl in ("WARNING", "ERROR"):
            problems.append(("warning", name, msg))
    known = {c["path"].rstrip("/") + "/" + c["level_id"] for c in cats}
    for c in cats:
        for k in ("path", "level_id", "name", "description", "icon", "after"):
            if not isinstance(c[k], str):
                problems.append(("error", f"category {c['level_id']}", f"{k} must be a string (Java NPE otherwise)"))
        if isinstance(c["icon"], str) and not (host.root / c["icon"]).is_file():
            problems.append(("warning", f"category {c['level_id']}", f"icon {c['icon']!r} not found next to knime.yml"))
    for n in nodes:
        where = f"node {n['id']}"
        if n["icon_path"] is None:
            problems.append(("error", where, "icon_path None: NullPointerException, the WHOLE extension is lost"))
            continue
        icon = host.root / n["icon_path"]
        if not icon.is_file():
            problems.append(("warning", where, f"icon {n['icon_path']!r} not found (default icon is shown)"))
        if n["node_type"] not in _NODE_TYPES:
            problems.append(("warning", where, f"node type {n['node_type']!r} unknown"))
        if n["category"] not in known and not n["category"].startswith("/"):
            problems.append(("warning", where, f"category {n['category']!r} is not an absolute path"))
        try:
            xml = node_description_xml(n, host)
            n["_xml"] = xml
        except ET.ParseError as e:
            problems.append(("error", where, f"description is not well-formed XML ({e}): AP drops the WHOLE extension"))
            continue
        xsd = _node_xsd()
        if not isinstance(xsd, Exception):
            from lxml import etree

            doc = etree.fromstring(xml.replace("<knimeNode ", '<knimeNode xmlns="http://knime.org/node/v4.1" ', 1))
            if not xsd.validate(doc):
                for err in list(xsd.error_log)[:5]:
                    problems.append(("warning", where, f"Node XSD (coding warning in AP with assertions): {err.message}"))
        ids = [p["name"] for k in ("input_port_specifier",) for p in n[k] if p["group"] or p["optional"]]
        if len(ids) != len(set(ids)):
            problems.append(("error", where, f"duplicate dynamic/optional input port names {ids}"))
    for nid in host.nodes:
        try:
            p = host.proxy(nid)
            params = json.loads(p.getParameters())
            schema = json.loads(p.getSchema(host.version))
            err = p.validateParameters(json.dumps(params), host.version)
            if err:
                problems.append(("warning", f"node {nid}", f"default parameters do not validate: {err}"))
            back = from_settings_xml(to_settings_xml(params, schema, host.version))
            if _no_nulls(back[0]) != _no_nulls(params):
                problems.append(("warning", f"node {nid}", "default parameters do not survive the settings.xml round trip"))
        except Exception as e:
            problems.append(("error", f"node {nid}", f"{type(e).__name__}: {e}"))
    return {"id": host.id, "version": host.version, "nodes": nodes, "categories": cats, "problems": problems}


def _no_nulls(v):
    """Keys the schema knows but the parameters lack come back as null (ColumnFilter 'selected')."""
    if isinstance(v, dict):
        return {k: _no_nulls(x) for k, x in v.items() if x is not None}
    return [_no_nulls(x) for x in v] if isinstance(v, list) else v


def dump_node(host: Host, node_id: str) -> dict:
    """Everything AP can ask a node for without data."""
    p = host.proxy(node_id)
    params, schema = json.loads(p.getParameters()), json.loads(p.getSchema(host.version))
    out = {"parameters": params, "schema": schema, "settings_xml": to_settings_xml(params, schema, host.version)}
    try:
        out["dialog_unconnected"] = get_dialog(host, node_id)
    except Exception as e:
        out["dialog_unconnected_error"] = str(e).splitlines()[0]
    return out


# ---------------------------------------------------------------------------------------
# NodeSettings XML  (JsonNodeSettingsMapperUtil + JsonNodeSettings, re-implemented)
# ---------------------------------------------------------------------------------------
_NS = "http://www.knime.org/2008/09/XMLConfig"


def _entry(parent, key, typ, value):
    a = {"key": key, "type": typ}
    if value is None:
        a["isnull"] = "true"
    a["value"] = "" if value is None else ("true" if value is True else "false" if value is False else _esc(str(value)))
    return ET.SubElement(parent, "entry", a)


def _esc(s):
    """XMLUtils.escape: control characters, everything above U+D7FF and the first % of '%%'
    become %%ddddd (decimal UTF-16 code unit)."""
    units = s.encode("utf-16-le")
    u = [units[i] | units[i + 1] << 8 for i in range(0, len(units), 2)]
    return "".join(
        f"%%{c:05d}" if c < 32 or c > 0xD7FF or (c == 37 and u[i + 1 : i + 2] == [37]) else chr(c)
        for i, c in enumerate(u))


def _unesc(s):
    import re

    out = re.sub(r"%%(\d{5})", lambda m: chr(int(m.group(1))), s)
    return out.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def _json_kind(schema):
    if "oneOf" in schema:
        return "STRING"
    if "anyOf" in schema:
        return "STRING_ARRAY"
    t = schema["type"]
    if t == "array":
        k = _json_kind(schema["items"])
        return k + "_ARRAY" if k in ("DOUBLE", "FLOAT", "INT", "LONG", "BOOLEAN", "STRING") else "ARRAY"
    fmt = schema.get("format")
    return {"string": "STRING", "boolean": "BOOLEAN", "object": "OBJECT", "null": "NULL",
            "number": "FLOAT" if fmt == "float" else "DOUBLE",
            "integer": "LONG" if fmt == "int64" else "INT"}[t]


_ENTRY = {"DOUBLE": "xdouble", "FLOAT": "xfloat", "INT": "xint", "LONG": "xlong", "BOOLEAN": "xboolean", "STRING": "xstring"}


def _put_json(parent, key, value, schema):
    kind = _json_kind(schema)
    if kind in _ENTRY:
        if value is None and kind != "STRING":
            raise RigError(f"null for {kind} parameter {key!r}: IllegalArgumentException in AP")
        _entry(parent, key, _ENTRY[kind], value)
    elif kind == "OBJECT":
        c = ET.SubElement(parent, "config", {"key": key})
        _entry(c, "json-type_Internals", "xstring", "OBJECT")
        for k, s in schema.get("properties", {}).items():
            _put_json(c, k, (value or {}).get(k), s)
    elif kind.endswith("_ARRAY"):
        c = ET.SubElement(parent, "config", {"key": key})
        if not value:
            _entry(c, "json-type_Internals", "xstring", kind)
            _entry(c, "array-size", "xint", 0)
            _entry(c, "null_Internals", "xboolean", value is None)
        else:
            _entry(c, "array-size", "xint", len(value))
            for i, v in enumerate(value):
                _entry(c, str(i), _ENTRY[kind[:-6]], v)
    elif kind == "ARRAY":
        c = ET.SubElement(parent, "config", {"key": key})
        if value is None:
            _entry(c, "null_Internals", "xboolean", True)
        else:
            for i, v in enumerate(value):
                _put_json(c, str(i), v, schema["items"])
    else:
        c = ET.SubElement(parent, "config", {"key": key})
        _entry(c, "json-type_Internals", "xstring", kind)


def to_settings_xml(parameters: dict, schema: dict, version: str) -> str:
    """The <config key="model"> element of a node's settings.xml."""
    model = ET.Element("config", {"key": "model"})
    for k, s in schema["properties"]["model"].get("properties", {}).items():
        _put_json(model, k, parameters["model"].get(k), s)
    _entry(model, "json-type_Internals", "xstring", "OBJECT")
    _entry(model, "extension_version_Internals", "xstring", version)
    ET.indent(model, "    ")
    return ET.tostring(model, encoding="unicode")


def _local(e):
    return e.tag.rsplit("}", 1)[-1]


def _value(e):
    if e.get("isnull") == "true":
        return None
    t, v = e.get("type"), _unesc(e.get("value"))
    return {"xint": int, "xlong": int, "xdouble": float, "xfloat": float,
            "xboolean": lambda x: x == "true"}.get(t, str)(v)


def _get_json(e):
    if _local(e) == "entry":
        return _value(e)
    kids = {c.get("key"): c for c in e}
    kind = _value(kids["json-type_Internals"]) if "json-type_Internals" in kids else None
    if kind == "OBJECT":
        return {k: _get_json(c) for k, c in kids.items() if not k.endswith("_Internals")}
    if kind and kind.endswith("_ARRAY") or "array-size" in kids:
        if "null_Internals" in kids and _value(kids["null_Internals"]):
            return None
        return [_value(kids[str(i)]) for i in range(_value(kids["array-size"]))]
    if "null_Internals" in kids:
        return None
    if kind == "NULL":
        return None
    return [_get_json(kids[str(i)]) for i in range(len(kids))]


def from_settings_xml(model) -> tuple:
    """(parameters JSON with "model" root, version) from a model config (text or element)."""
    e = ET.fromstring(model) if isinstance(model, str) else model
    out, version = {}, "0.0.0"
    for c in e:
        k = c.get("key")
        if k == "extension_version_Internals":
            version = _value(c)
        elif not k.endswith("_Internals"):
            out[k] = _get_json(c)
    return {"model": out}, version


# ---------------------------------------------------------------------------------------
# workflow archives
# ---------------------------------------------------------------------------------------
PY_FACTORY = "org.knime.python3.nodes.extension.ExtensionNodeSetFactory$DynamicExtensionNodeFactory"


def _cfg(e):
    return {c.get("key"): c for c in e}


def check_knwf(path: str, host: Optional[Host] = None) -> dict:
    """Structural check of a .knwf against the keys the persistors read; Python nodes of `host`'s
    extension additionally have their settings pushed through the real node."""
    problems: list = []
    nodes: dict = {}
    z = zipfile.ZipFile(path)
    names = set(z.namelist())
    tops = {n.split("/", 1)[0] for n in names}
    wf = [n for n in names if n.count("/") == 1 and n.endswith("/workflow.knime")]
    if len(tops) != 1 or len(wf) != 1:
        problems.append(f"archive must have exactly one top folder holding workflow.knime; found {sorted(tops)[:5]}")
        return {"problems": problems, "nodes": {}, "connections": []}
    base = wf[0].rsplit("/", 1)[0]

    def load(name):
        r = ET.fromstring(z.read(name))
        if _local(r) != "config":
            problems.append(f"{name}: root is <{_local(r)}>, not <config>")
        for e in r.iter():
            if _local(e) not in ("config", "entry"):
                problems.append(f"{name}: element <{_local(e)}> not allowed")
            if _local(e) == "entry" and e.get("type") not in (
                    "xstring", "xint", "xdouble", "xfloat", "xlong", "xshort", "xbyte", "xchar", "xboolean",
                    "xpassword", "xtransientstring"):
                problems.append(f"{name}: bad entry type {e.get('type')}")
        return r

    w = _cfg(load(wf[0]))
    for k in ("version", "name", "state", "workflow_credentials", "nodes", "connections"):
        if k not in w:
            problems.append(f"workflow.knime: key {k!r} missing")
    version = _value(w["version"]) if "version" in w else None
    if version not in ("2.8.0", "2.10.0", "3.1.0", "3.7.0", "3.8.0", "4.1.0", "5.1.0"):
        problems.append(f"workflow.knime: version {version!r} is not a LoadVersion this rig accepts (5.1.0 is current)")
    for n in w.get("nodes", []):
        c = _cfg(n)
        for k in ("id", "node_settings_file", "node_type"):
            if k not in c:
                problems.append(f"{n.get('key')}: key {k!r} missing")
        nid = _value(c["id"])
        if nid in nodes:
            problems.append(f"duplicate node id {nid}")
        f = f"{base}/{_value(c['node_settings_file'])}"
        if f not in names:
            problems.append(f"node {nid}: {f} not in archive")
            continue
        s = _cfg(load(f))
        info = {"file": f, "type": _value(c["node_type"])}
        nodes[nid] = info
        if info["type"] != "NativeNode":
            continue
        for k in ("node_file", "flow_stack", "internal_node_subsettings", "state", "factory", "node-name",
                  "node-bundle-name", "node-bundle-symbolic-name", "node-bundle-vendor", "hasContent",
                  "ports", "filestores"):
            if k not in s:
                problems.append(f"node {nid}: key {k!r} missing in settings.xml")
        info["factory"] = _value(s["factory"])
        info["state"] = _value(s["state"])
        if info["state"] not in ("IDLE", "CONFIGURED", "EXECUTED"):
            problems.append(f"node {nid}: unusual state {info['state']}")
        if info["factory"] == PY_FACTORY:
            fs = {k: _value(e) for k, e in _cfg(s.get("factory_settings", [])).items()}
            info.update(fs)
            if set(fs) != {"extension_id", "node_id"}:
                problems.append(f"node {nid}: factory_settings must hold extension_id and node_id, has {sorted(fs)}")
            if "model" in s:
                info["parameters"], info["version"] = from_settings_xml(s["model"])
            if host and fs.get("extension_id") == host.id:
                if fs.get("node_id") not in host.nodes:
                    problems.append(f"node {nid}: extension has no node {fs.get('node_id')!r}")
                elif "parameters" in info:
                    p = host.proxy(fs["node_id"])
                    text = json.dumps(info["parameters"])
                    try:
                        err = p.validateParameters(text, info["version"])
                        if err:
                            problems.append(f"node {nid}: validateParameters: {err}")
                        else:
                            p.setParameters(text, info["version"])
                            extra = set(info["parameters"]["model"]) - set(json.loads(p.getParameters())["model"])
                            if extra:
                                problems.append(f"node {nid}: unknown parameters {sorted(extra)} (silently ignored by AP)")
                    except Exception as e:
                        problems.append(f"node {nid}: {type(e).__name__}: {e}")
    conns = []
    seen = set()
    for c in w.get("connections", []):
        v = {k: _value(e) for k, e in _cfg(c).items() if _local(e) == "entry"}
        for k in ("sourceID", "destID", "sourcePort", "destPort"):
            if k not in v:
                problems.append(f"{c.get('key')}: key {k!r} missing")
        conns.append((v.get("sourceID"), v.get("sourcePort"), v.get("destID"), v.get("destPort")))
        for end in ("sourceID", "destID"):
            if v.get(end) not in nodes:
                problems.append(f"{c.get('key')}: node {v.get(end)} does not exist")
        d = (v.get("destID"), v.get("destPort"))
        if d in seen and d[1] != 0:
            problems.append(f"{c.get('key')}: second connection into {d}")
        seen.add(d)
    return {"problems": problems, "nodes": nodes, "connections": conns, "version": version}


# ---------------------------------------------------------------------------------------
# self test
# ---------------------------------------------------------------------------------------
_SELFTEST_EXT = '''
import logging
from dataclasses import dataclass
from typing import Optional
import knime.extension as knext
import knime.api.types as kt

LOGGER = logging.getLogger(__name__)
cat = knext.category("/community", "rigtest", "Rig Test", "for the rig", "icon.png")


@dataclass
class Thing:
    name: str
    size: int
    note: Optional[str] = None


class ThingFactory(kt.PythonValueFactory):
    def __init__(self):
        super().__init__(Thing)

    def encode(self, v):
        return None if v is None else {"0": v.name, "1": v.size, "2": v.note}

    def decode(self, s):
        return None if s is None else Thing(s["0"], s["1"], s["2"])


class MySpec(knext.PortObjectSpec):
    def __init__(self, info): self.info = info
    def serialize(self): return {"info": self.info}
    @classmethod
    def deserialize(cls, data): return cls(data["info"])


class MyObj(knext.PortObject):
    def __init__(self, spec, data):
        super().__init__(spec)
        self.data = data
    def serialize(self): return self.data
    @classmethod
    def deserialize(cls, spec, storage): return cls(spec, storage)


my_port = knext.port_type("Mine", MyObj, MySpec)


class Mode(knext.EnumParameterOptions):
    A = ("Mode a", "first")
    B = ("Mode b", "second")


@knext.parameter_group("More")
class More:
    """Group *doc*."""
    n = knext.IntParameter("N", "how many", 3, min_value=1)
    text = knext.MultilineStringParameter("Text", "some text", "a\\nb")


@knext.node("Rig Source", knext.NodeType.SOURCE, "icon.png", cat, keywords=["k"])
@knext.output_table("Things", "the things")
@knext.output_port("Mine", "a custom port", my_port)
class RigSource:
    """Makes things.

    Long **text** with `a < b` & co.
    """
    mode = knext.EnumParameter("Mode", "the mode", Mode.A.name, Mode)
    cred = knext.StringParameter("Credential", "which", choices=lambda c: knext.DialogCreationContext.get_credential_names(c))
    flag = knext.BoolParameter("Flag", "a flag", False)
    x = knext.DoubleParameter("X", "an x", 1.5)
    more = More()

    def configure(self, ctx):
        if self.mode == "B":
            raise knext.InvalidParametersError("mode B not allowed")
        return (knext.Schema.from_columns([knext.Column(knext.logical(Thing), "thing"), knext.Column(knext.int64(), "n"),
                knext.Column(knext.logical(dict), "js"), knext.Column(knext.string(), "who")]), MySpec("i"))

    def execute(self, ctx):
        import pandas as pd
        who = ctx.get_credentials(self.cred).password if self.cred else "nobody"
        ctx.flow_variables["made"] = self.more.n
        ctx.set_progress(0.5, "half")
        n = self.more.n
        df = pd.DataFrame({"thing": pd.Series([Thing(f"t{i}", i) for i in range(n - 1)] + [None], dtype=knext.logical(Thing).to_pandas()),
                           "n": list(range(n)), "js": [{"i": i} for i in range(n)], "who": [who] * n})
        return knext.Table.from_pandas(df), MyObj(MySpec("i"), b"data")


@knext.node("Rig Agent", knext.NodeType.OTHER, "icon.png", cat)
@knext.input_table("In", "in")
@knext.input_table("Opt", "optional one", optional=True)
@knext.input_port("Mine", "custom", my_port)
@knext.input_table_group("Data", "more data")
@knext.output_table("Out", "out")
@knext.output_table_group("Extra", "extra")
@knext.output_view("V", "a view")
class RigAgent:
    """Calls a tool."""
    col = knext.ColumnParameter("Col", "which column", port_index=0, column_filter=lambda c: c.ktype == knext.logical(Thing))

    def configure(self, ctx, schema, opt, mine, data):
        if self.col is None:
            self.col = schema.column_names[0]
        return schema, [None] * ctx.get_connected_output_port_numbers()[1]

    def execute(self, ctx, table, opt, mine, data):
        import knime.types.tool as ktt
        tool = ktt.WorkflowTool("tool 1", "d", {"a": {"type": "string"}}, -1, [ktt.ToolPort("p", "", "Table", None)], [], "key1;key2")
        msg, outs, views = ctx._execute_tool(tool, {"a": "1"}, [table], {"execution-mode": "DEFAULT", "with-view-nodes": "False"})
        ctx.set_warning(f"{msg} {opt is None} {mine.data} {len(data)} {[t.name for t in table.to_pandas()[self.col] if t is not None]}")
        if ctx.is_canceled():
            raise RuntimeError("stopped")
        return table, [outs[0]] * ctx.get_connected_output_port_numbers()[1], knext.view_html("<!DOCTYPE html><p>hi</p>")


class Service:
    def __init__(self, ctx, table): self.ctx, self.table = ctx, table
    def rows(self, plus): return self.table.num_rows + plus
    def secret(self, name): return self.ctx.get_credentials(name).password
    def variables(self): return list(self.ctx.flow_variables)
    def fail(self): raise ValueError("no good")

    def call(self):
        import knime.types.tool as ktt
        tool = ktt.WorkflowTool("t", "d", {}, -1, [], [], "key1")
        project, workflow, ids = self.ctx._init_combined_tools_workflow([self.table], "DETACHED", True)
        msg, outs, out_ids, views = self.ctx._execute_tool_in_combined_workflow(tool, {"q": 1}, ids, {"execution-mode": "DETACHED"})
        return [msg, outs[0].num_rows, out_ids, ids]


@knext.node("Rig Auth", knext.NodeType.SINK, "icon.png", cat)
@knext.input_port("Auth", "a credential", knext.PortType.CREDENTIAL, optional=True)
class RigAuth:
    """Authenticates."""
    def configure(self, ctx, spec): pass
    def execute(self, ctx, cred):
        ctx.set_warning("none" if cred is None else f"{cred.spec.auth_schema} {cred.spec.auth_parameters} {cred.spec.expires_after}")


@knext.node("Rig View", knext.NodeType.VISUALIZER, "icon.png", cat)
@knext.input_table("In", "in")
@knext.output_view("V", "a static view", static_resources="static", index_html_path="index.html")
class RigView:
    """Shows things."""
    def configure(self, ctx, schema): pass
    def execute(self, ctx, table): pass
    def get_data_service(self, ctx, table): return Service(ctx, table)
'''


def selftest():
    import pyarrow as pa

    d = Path(tempfile.mkdtemp(prefix="rig_selftest_"))
    (d / "src").mkdir()
    (d / "src" / "rigtest_ext.py").write_text(_SELFTEST_EXT)
    (d / "static").mkdir()
    (d / "static" / "index.html").write_text("<!DOCTYPE html><p>static</p>")
    (d / "icon.png").write_bytes(b"\x89PNG\r\n\x1a\n")
    (d / "knime.yml").write_text('name: rigtest\ngroup_id: org.example\nversion: "1.2.3"\nextension_module: src/rigtest_ext\n')
    done = []

    def ok(label, cond, info=""):
        done.append(label)
        print(("PASS " if cond else "FAIL ") + label + ("" if cond else f": {info}"))
        if not cond:
            ok.bad += 1

    ok.bad = 0
    host = load_extension(str(d / "knime.yml"))
    thing_java = "org.example.ThingValueFactory"
    register_value_factory(thing_java, struct_("string", "long", "string"), "rigtest_ext", "ThingFactory", "rigtest_ext.Thing", "Thing")
    desc = describe_extension(host)
    ok("describe: no errors", not [p for p in desc["problems"] if p[0] == "error"], desc["problems"])
    n = {x["id"]: x for x in desc["nodes"]}
    ok("ids are class names", set(n) == {"RigSource", "RigAgent", "RigAuth", "RigView"}, set(n))
    ok("tab + options", [t["name"] for t in n["RigSource"]["tabs"]] == ["Options", "More"], n["RigSource"]["tabs"])
    ok("short description is the first line", n["RigSource"]["short_description"] == "Makes things.")
    ok("custom port id", n["RigSource"]["output_port_specifier"][1]["type_string"] == "org.example.rigtest.rigtest_ext.MyObj")

    r = run_node(host, "RigSource", parameters={"cred": "c", "more": {"n": 4}},
                 context=make_exec_context(credentials={"c": ("u", "pw")}, flow_variables={"v": 1}))
    ok("source runs", r.ok and not r.problems, (r.failure, r.problems))
    rows = r.outputs[0].to_pylist()
    ok("logical values round trip", type(rows[0]["thing"]).__name__ == "Thing" and rows[3]["thing"] is None and rows[1]["js"] == {"i": 1}, rows)
    ok("credential reached the node", rows[0]["who"] == "pw")
    ok("flow variables out", r.flow_variables.get("made") == 4 and r.flow_variables.get("v") == 1, r.flow_variables)
    ok("progress recorded", r.progress == [(0.5, "half")], r.progress)
    ok("custom port out", r.outputs[1] == ({"id": "org.example.rigtest.rigtest_ext.MyObj", "data": {"info": "i"}}, b"data"), r.outputs[1])
    bad = run_node(host, "RigSource", parameters={"mode": "B"})
    ok("InvalidParametersError -> invalid settings", not bad.ok and bad.failure["invalid_settings"], bad.failure)
    unk = run_node(host, "RigSource", parameters={"cred": "zzz"})
    ok("unknown credential -> KeyError text", not unk.ok and "zzz" in unk.failure["message"], unk.failure)

    mod = sys.modules["rigtest_ext"]
    tbl = r.outputs[0].as_input()
    host.add_file_store("key1"), host.add_file_store("key2")
    seen = {}

    def handler(tool, params, inputs, hints):
        seen.update(tool=tool, params=params, rows=inputs[0].num_rows, hints=hints)
        return "done", [pa.table({"r": ["x"]})], ["1#0"]

    mine = mod.MyObj(mod.MySpec("i"), b"zz")
    ctx = make_exec_context(tool_handler=handler)
    a = run_node(host, "RigAgent", [tbl, None, mine, [pa.table({"q": [1]}), pa.table({"q": [2]})]], context=ctx, output_groups={"Extra": 2})
    ok("agent runs", a.ok and not a.problems, (a.failure, a.problems))
    ok("tool decoded by Java side", seen.get("tool") and seen["tool"].name == "tool 1" and seen["tool"]._filestore_keys == "key1;key2", seen)
    ok("tool params + inputs", seen["params"] == {"a": "1"} and seen["rows"] == 4)
    ok("groups and optional", "done True b'zz' 2 ['t0', 't1', 't2']" == a.warnings[0], a.warnings)
    ok("view html", "hi" in (a.view_html or ""))
    ok("group outputs", len(a.outputs) == 3 and a.outputs[2].to_pylist() == [{"r": "x"}], a.outputs)
    ok("auto-configured parameter is carried", a.parameters["model"]["col"] == "thing", a.parameters)
    c = run_node(host, "RigAgent", [tbl, None, mine, []], context=make_exec_context(tool_handler=handler, cancel=1))
    ok("cancel seen", not c.ok and c.failure["message"] in ("stopped", "Canceled"), c.failure)
    f = run_node(host, "RigAgent", [tbl, None, mine, []], context=make_exec_context(tool_handler=lambda *x: ("boom", None)))
    ok("failed tool raises its message", not f.ok and f.failure["message"] == "boom", f.failure)

    c1 = run_node(host, "RigAuth", [CredentialPort("Bearer", "tok", 0.0)])
    c2 = run_node(host, "RigAuth", [None])
    c3 = run_node(host, "RigAuth", [CredentialPort(available=False)])
    ok("credential port", c1.warnings == ["Bearer tok 1970-01-01 00:00:00"] and c2.warnings == ["none"], (c1.failure, c1.warnings, c2.failure))
    ok("credential port not available", not c3.ok and "upstream nodes" in c3.failure["message"], c3.failure)

    rpc = data_service(host, "RigView", [tbl], context=make_exec_context(
        credentials={"c": ("u", "pw")}, flow_variables={"v": 1},
        combined_tool_handler=lambda tool, params, ids, hints: ("ok " + str(params), [pa.table({"r": ["x"]})], ["2#1"], [])))
    ok("data service: params and inputs", rpc("rows", 10) == 14)
    ok("data service: credentials yes, flow variables no", rpc("secret", "c") == "pw" and rpc("variables") == [])
    ok("data service: combined tools", rpc("call") == ["ok {'q': 1}", 1, ["2#1"], ["1#1"]])
    errs = []
    for m in ("fail", "nothing"):
        try:
            rpc(m)
        except RuntimeError as e:
            errs.append(e.args[0])
    ok("data service: errors", [e["code"] for e in errs] == [-32603, -32601] and "no good" in str(errs[0]), errs)

    dlg = get_dialog(host, "RigAgent", [tbl, None, mine, []])
    col = [e for e in dlg["ui_schema"]["elements"] if e["scope"].endswith("/col")][0]
    ok("dialog: filtered columns", [v["id"] for v in col["options"]["possibleValues"]] == ["thing"], col)
    dlg = get_dialog(host, "RigSource", context=make_exec_context(credentials={"c1": ("", ""), "c2": ("", "")}))
    ok("dialog: credential choices", [o["const"] for o in dlg["schema"]["properties"]["model"]["properties"]["cred"]["oneOf"]] == ["c1", "c2"])

    p = host.proxy("RigSource")
    params, schema = json.loads(p.getParameters()), json.loads(p.getSchema(host.version))
    x = to_settings_xml(params, schema, host.version)
    ok("settings.xml round trip", from_settings_xml(x) == (params, "1.2.3"), x)
    odd = "tab\tnl\n 100%% \U0001f600 \u00e9 <&>"
    ok("settings.xml escapes", _unesc(_esc(odd)) == odd and "%%00009" in _esc(odd), _esc(odd))
    register_value_factory("org.example.NoJava", "string", "rigtest_ext", "ThingFactory", "builtins.complex", java_known=False)
    try:
        table_from_pyarrow(pa.table({"t": column_of([None], complex)}))
        ok("value factory without Java is caught", False)
    except RigError as e:
        ok("value factory without Java is caught", "unknown Java ValueFactory" in str(e), e)
    src = table_from_pyarrow(pa.table({"a": pa.array([1, None], pa.int32()), "s": ["x", None]}))
    ok("real source table", type(src).__name__ == "ArrowSourceTable" and src.num_rows == 2 and [str(c.ktype) for c in src.schema] == ["Number (Integer)", "String"])
    reset()
    print(f"{len(done)} checks, {ok.bad} failed")
    return ok.bad


def main(argv=None):
    ap = argparse.ArgumentParser(description="run a KNIME Python extension under the real API without AP")
    sub = ap.add_subparsers(dest="cmd", required=True)
    for name in ("dump", "check"):
        s = sub.add_parser(name)
        s.add_argument("knime_yml")
        if name == "dump":
            s.add_argument("--out")
    s = sub.add_parser("knwf")
    s.add_argument("file")
    s.add_argument("knime_yml", nargs="?")
    sub.add_parser("selftest")
    a = ap.parse_args(argv)
    if a.cmd == "selftest":
        return 1 if selftest() else 0
    if a.cmd == "knwf":
        host = load_extension(a.knime_yml) if a.knime_yml else None
        r = check_knwf(a.file, host)
        print(json.dumps(r, indent=2, default=str))
        return 1 if r["problems"] else 0
    host = load_extension(a.knime_yml)
    d = describe_extension(host)
    if a.cmd == "check":
        for p in d["problems"]:
            print(": ".join(p))
        return 1 if any(p[0] == "error" for p in d["problems"]) else 0
    d["dump"] = {nid: dump_node(host, nid) for nid in host.nodes}
    text = json.dumps(d, indent=2)
    if a.out:
        os.makedirs(a.out, exist_ok=True)
        Path(a.out, "extension.json").write_text(text)
        for nid, x in d["dump"].items():
            Path(a.out, nid + ".settings.xml").write_text(x["settings_xml"])
    else:
        print(text)
    return 0


if __name__ == "__main__":
    sys.modules.setdefault("real_knime_host", sys.modules[__name__])
    sys.exit(main())
