"""What KNIME's Python side talks to in place of a Java process: the gateway, and objects that cross it."""

import dataclasses
import functools
import json
import uuid
import zoneinfo
from typing import ClassVar

from .java_types import JAVA_VALUE_FACTORIES, list_of, struct

TABLE_CLASS = "org.knime.core.node.BufferedDataTable"
CREDENTIAL_CLASS = "org.knime.credentials.base.CredentialPortObject"


class RigError(RuntimeError):
    """The rig was used wrongly, or KNIME would refuse here."""


@functools.cache
def _java_error_class():
    from py4j.protocol import Py4JJavaError

    class JavaError(Py4JJavaError):
        def __init__(self, message):
            Exception.__init__(self, message)
            self.errmsg = message
            name = type("Class", (), {"getName": lambda _: "java.lang.RuntimeException"})
            members = {"getMessage": lambda _: message, "getClass": lambda _: name()}
            self.java_exception = type("JavaException", (), members)()

        def __str__(self):  # as py4j has it: with the stack trace of the Java side
            return (
                "An error occurred while calling o1.call.\n: java.lang.RuntimeException: "
                f"{self.errmsg}\n\tat org.knime.core.Some.call(Some.java:1)\n"
            )

    return JavaError


def java_error(message):
    """An exception of the Java side, as py4j raises it."""
    return _java_error_class()(message)


class JavaObject:
    """An object of Java's, as py4j shows it: that there is no such method is only found when it is called."""

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)

        def call(*given):
            from py4j.protocol import Py4JError

            kinds = [type(value).__name__ for value in given]
            raise Py4JError(
                f"An error occurred while calling o1.{name}. Trace:\n"
                f"py4j.Py4JException: Method {name}({kinds}) does not exist"
            )

        return call


class _Jvm:
    """A path of attributes that ends in one of the few Java calls which the Arrow backend makes."""

    def __init__(self, path=()):
        self._path = path

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return _Jvm((*self._path, name))

    def __call__(self, *args):
        *_, outer, last = (None, *self._path)
        if last == "PythonColumnarSchemaBuilder":
            return _ColumnarSchemaBuilder()
        if last.endswith("Spec") and outer == "DataSpec":
            return {"varBinarySpec": "variable_width_binary"}.get(last, last.removesuffix("Spec").lower())
        if last == "StructDataSpec":
            return struct(*args[0])
        if last == "ListDataSpec":
            return list_of(args[0])
        if last == "getSupportedTimeZones":
            return sorted(zoneinfo.available_timezones())
        if last == "getTypeNameForLogicalTypeString":
            java_class = json.loads(args[0])["value_factory_class"]
            if java_class not in JAVA_VALUE_FACTORIES:
                raise RuntimeError(f"no such value factory: {java_class}")
            return JAVA_VALUE_FACTORIES[java_class][1]
        raise RigError(f"Java call that is not modelled: {'.'.join(self._path)}{args}")


class _ColumnarSchemaBuilder:
    def __init__(self):
        self.columns = []

    def addColumn(self, spec):
        self.columns.append(spec)

    def build(self):
        return list(self.columns)


class ClientServer:
    jvm = _Jvm()
    _gateway_client = None

    @staticmethod
    def new_array(_, size):
        return [None] * size


def _is_convertible(value):
    if value is None or isinstance(value, (bool, int, float, str, bytes, bytearray)):
        return True
    if isinstance(value, (list, tuple, set)):
        return all(_is_convertible(entry) for entry in value)
    if isinstance(value, dict):
        return all(_is_convertible(entry) for pair in value.items() for entry in pair)
    return False


class JavaMap(dict):
    """py4j raises AttributeError for values that it cannot turn into Java objects."""

    def __setitem__(self, key, value):
        if not _is_convertible(value):
            raise AttributeError(f"'{type(value).__name__}' object has no attribute '_get_object_id'")
        super().__setitem__(key, value)


class JavaSink:
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


class JavaSource:
    """PythonArrowDataSource over a finished Arrow file."""

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


class ViewSink:
    def __init__(self, path):
        self.path, self.report = str(path), False

    def getIdentifier(self):
        return "org.knime.python3.views"

    def getOutputFilePath(self):
        return self.path

    def setCanBeUsedInReport(self, flag):
        self.report = flag


class JavaTable:
    def __init__(self, source):
        self._source = source

    def getJavaClassName(self):
        return TABLE_CLASS

    def getDataSource(self):
        return self._source


class JavaSpec:
    def __init__(self, class_name, data):
        self._class_name, self._data = class_name, data

    def getJavaClassName(self):
        return self._class_name

    def toJsonString(self):
        return json.dumps(self._data)


class JavaBinary:
    def __init__(self, class_name, path, spec):
        self._class_name, self._path, self._spec = class_name, path, spec

    def getJavaClassName(self):
        return self._class_name

    def getFilePath(self):
        return self._path

    def getSpec(self):
        return self._spec


class JavaExtensionPort:
    """PythonExtensionPortObject(Spec): goes through a registered converter of port objects."""

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


class FileStoreFile:
    def __init__(self, path, key):
        self._path, self._key = str(path), key

    def get_key(self):
        return self._key

    def get_file_path(self):
        return self._path


@dataclasses.dataclass
class CredentialPort:
    """What an Authenticator delivers; not available: it is connected, but was not executed."""

    schema: str = "Bearer"
    parameters: str = ""
    expires_after: float | None = None  # seconds since 1970
    available: bool = True
    known: ClassVar[dict[str, "CredentialPort"]] = {}

    def __post_init__(self):
        self.xml = f"<config key='{uuid.uuid4()}'/>"
        if self.available:
            CredentialPort.known[self.xml] = self


class ToolResult:
    """PythonToolResult, a Java record: its fields are methods."""

    def __init__(self, message, outputs, view_node_ids):
        self._fields = (message, outputs, view_node_ids)

    def message(self):
        return self._fields[0]

    def outputs(self):
        return self._fields[1]

    def viewNodeIds(self):
        return self._fields[2]
