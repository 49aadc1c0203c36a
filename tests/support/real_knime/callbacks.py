"""What a node's process asks of Java while the node is configured, executed or its dialog opens."""

import json
import uuid

from .java_side import CredentialPort, FileStoreFile, JavaSink, ViewSink, java_error
from .java_types import column_metadata


class JavaCallback:
    """The Java callbacks of a node: for execution, configuration and dialog.

    Attributes:
        out_flow_variables: What the node set; None until it did.
        failure: What went wrong: ``message``, ``details``, ``invalid_settings``.
        logs: (severity, text).
        files: Paths of what the node gave to ports, by key.
        view_sink: Where the node's view went.
    """

    def __init__(self, host, flow_variables=None, phase="execute"):
        self.host, self.phase = host, phase
        self.in_flow_variables = dict(flow_variables or {})
        self.out_flow_variables = None
        self.failure = None
        self.logs = []
        self.files = {}
        self.view_sink = None

    def _only_in_execute(self, also="execute"):
        if self.phase not in ("execute", also):
            raise RuntimeError(f"Java: not available in {self.phase}")

    def log(self, message, severity):
        self.logs.append((severity, message))

    def set_failure(self, message, details, invalid_settings):
        self.failure = {"message": message, "details": details, "invalid_settings": invalid_settings}

    def get_flow_variables(self):
        return dict(self.in_flow_variables)

    def set_flow_variables(self, variables):
        self.out_flow_variables = dict(variables)

    def create_sink(self):
        self._only_in_execute(also="view")
        return JavaSink(self.host.new_file(".arrow"))

    def create_filestore_file(self):
        self._only_in_execute()
        key, path = str(uuid.uuid4()), self.host.new_file("")
        self.files[key] = path
        return FileStoreFile(path, key)

    def create_view_sink(self):
        self._only_in_execute()
        if self.view_sink is None:
            self.view_sink = ViewSink(self.host.new_file(".html"))
        return self.view_sink

    def get_preferred_value_types_as_json(self, schema_json):
        schema = json.loads(schema_json)["schema"]
        return json.dumps([column_metadata(traits) for traits in schema["traits"][1:]])

    def create_file_store(self):
        self._only_in_execute(also="view")
        key, path = f"fs-{uuid.uuid4().hex}", self.host.new_file("")
        self.host.file_stores[key] = str(path)
        return [str(path), key]

    def file_store_key_to_absolute_path(self, key):
        if key not in self.host.file_stores:
            raise RuntimeError(f"Java: unknown file store key {key!r}")
        return self.host.file_stores[key]

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


def _credential(xml):
    if xml not in CredentialPort.known:
        raise java_error("the credential is not available (upstream node not executed?)")
    return CredentialPort.known[xml]
