"""What a node's process asks of Java, in its dialog, configured, executed, and while its view is open.

The classes have the methods that KNIME's have: `CloseablePythonNodeProxy` makes one callback for each of its
methods, and `DefaultViewCallback` is that of a view.
"""

import json
import uuid

from .java_side import CredentialPort, FileStoreFile, JavaObject, JavaSink, ViewSink, java_error
from .java_types import column_metadata


class _Callback(JavaObject):
    """What all have.

    Attributes:
        logs: (severity, text).
    """

    def __init__(self, host):
        self.host = host
        self.logs = []

    def log(self, message, severity):
        self.logs.append((severity, message))

    def get_auth_schema(self, xml):
        return _credential(xml).schema

    def get_auth_parameters(self, xml):
        return _credential(xml).parameters

    def get_expires_after(self, xml):
        seconds = _credential(xml).expires_after
        if seconds is None:
            return None
        members = {
            "getEpochSeconds": lambda _: int(seconds),
            "getNanoSeconds": lambda _: int(seconds % 1 * 1e9),
        }
        return type("ExpiryDate", (), members)()


class DialogCallback(_Callback):
    """That of ``getDialogRepresentation``.

    Attributes:
        failure: What went wrong: ``message``, ``details``, ``invalid_settings``.
    """

    def __init__(self, host, flow_variables=None):
        super().__init__(host)
        self.in_flow_variables = dict(flow_variables or {})
        self.failure = None

    def set_failure(self, message, details, invalid_settings):
        self.failure = {"message": message, "details": details, "invalid_settings": invalid_settings}

    def get_flow_variables(self):
        return dict(self.in_flow_variables)


class ConfigureCallback(DialogCallback):
    """That of ``configure``.

    Attributes:
        out_flow_variables: What the node set; None until it did.
    """

    def __init__(self, host, flow_variables=None):
        super().__init__(host, flow_variables)
        self.out_flow_variables = None

    def set_flow_variables(self, variables):
        self.out_flow_variables = dict(variables)

    def get_preferred_value_types_as_json(self, schema_json):
        return _preferred_value_types(schema_json)

    def create_sink(self):
        raise java_error("Cannot create arrow data sink in configure")

    def create_filestore_file(self):
        raise java_error("Cannot create filestore in configure")

    def create_view_sink(self):
        raise java_error("Cannot create view in configure")


class ExecuteCallback(ConfigureCallback):
    """That of ``execute``, which alone creates file stores.

    Attributes:
        files: Paths of what the node gave to ports, by key.
        view_sink: Where the node's view went.
    """

    def __init__(self, host, flow_variables=None):
        super().__init__(host, flow_variables)
        self.files = {}
        self.view_sink = None

    def create_sink(self):
        return JavaSink(self.host.new_file(".arrow"))

    def create_filestore_file(self):
        key, path = str(uuid.uuid4()), self.host.new_file("")
        self.files[key] = path
        return FileStoreFile(path, key)

    def create_view_sink(self):
        if self.view_sink is None:
            self.view_sink = ViewSink(self.host.new_file(".html"))
        return self.view_sink

    def create_file_store(self):
        key, path = f"fs-{uuid.uuid4().hex}", self.host.new_file("")
        self.host.file_stores[key] = str(path)
        return [str(path), key]

    def file_store_key_to_absolute_path(self, key):
        return _path_of(self.host, key)


class ViewCallback(_Callback):
    """That of a view's data service: it makes tables and reads file stores, and creates none."""

    def get_preferred_value_types_as_json(self, schema_json):
        return _preferred_value_types(schema_json)

    def create_sink(self):
        return JavaSink(self.host.new_file(".arrow"))

    def file_store_key_to_absolute_path(self, key):
        return _path_of(self.host, key)


def _preferred_value_types(schema_json):
    schema = json.loads(schema_json)["schema"]
    return json.dumps([column_metadata(traits) for traits in schema["traits"][1:]])


def _path_of(host, key):
    if key not in host.file_stores:
        raise java_error(f"unknown file store key {key!r}")
    return host.file_stores[key]


def _credential(xml):
    if xml not in CredentialPort.known:
        raise java_error("the credential is not available (upstream node not executed?)")
    return CredentialPort.known[xml]
