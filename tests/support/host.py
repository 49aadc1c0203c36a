"""One interface over both hosts of nodes, so that the same node test runs on either.

By default that is the project's own host and stand-in; with KNIME_PYTHON_ROOT set it is KNIME's own Python
sources under the rig. Node modules must not be imported before `get_host` has loaded the extension: KNIME
loads an extension's module first, and port types can only be declared then.
"""

import functools
import json
import os
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

KNIME_YML = Path(__file__).parents[2] / "knime.yml"
REAL_KNIME = bool(os.environ.get("KNIME_PYTHON_ROOT"))
#: Whether there are JSON cells, which KNIME has from another extension.
HAS_JSON = not REAL_KNIME or bool(os.environ.get("KNIME_JSON_GIT"))


@functools.cache
def get_host() -> "Host":
    """This project's extension, loaded once per process."""
    return load_host(KNIME_YML)


def load_host(knime_yml: Path) -> "Host":
    """An extension on the host that this process uses. KNIME's sources take one extension per process."""
    return RealHost(knime_yml) if REAL_KNIME else StandInHost(knime_yml)


class Host:
    """A loaded extension. Results have the fields of `tests.support.knime_host.NodeResult` on both hosts."""

    #: Whether nodes run on KNIME's own sources.
    is_real: bool

    def run(
        self,
        node_id: str,
        inputs: Sequence[Any] = (),
        parameters: Mapping[str, Any] | None = None,
        *,
        credentials: Mapping[str, tuple[str, str]] | None = None,
        flow_variables: Mapping[str, Any] | None = None,
        cancel: bool | int | Callable[[], bool] = False,
        tool_handler: Callable[..., Any] | None = None,
        output_groups: Mapping[str, int] | None = None,
        workflow_dir: str | Path | None = None,
        view_data: Mapping[str, Any] | None = None,
        number: str = "1",
        execute: bool = True,
    ) -> Any:
        """Configures and executes a node; see `tests.support.knime_host.node_run.Request`."""
        raise NotImplementedError

    def dialog(
        self,
        node_id: str,
        input_schemas: Sequence[Any] | None = None,
        parameters: Mapping[str, Any] | None = None,
        *,
        credentials: Mapping[str, tuple[str, str]] | None = None,
        flow_variables: Mapping[str, Any] | None = None,
    ) -> dict[str, Any]:
        """The documents of a node's dialog. Descriptions are Markdown on one host and HTML on the other."""
        raise NotImplementedError

    def data_service(
        self,
        node_id: str,
        inputs: Sequence[Any] = (),
        parameters: Mapping[str, Any] | None = None,
        *,
        credentials: Mapping[str, tuple[str, str]] | None = None,
        tool_handler: Callable[..., Any] | None = None,
        view_data: Mapping[str, Any] | None = None,
    ) -> Any:
        """The service of a node's view: called with a method's name and arguments; `view_data` hands on."""
        raise NotImplementedError

    def load_parameters(
        self, node_id: str, saved: Mapping[str, Any], saved_version: str | None = None
    ) -> dict:
        """What a workflow's saved settings become when a new node loads, checks and saves them."""
        raise NotImplementedError

    def describe(self) -> dict[str, Any]:
        """``nodes``, ``categories``, ``problems`` as (severity, where, what)."""
        raise NotImplementedError

    def table(self, data: Any, row_ids: str = "auto") -> Any:
        """A table as a node's execute() gets it, of Arrow data."""
        raise NotImplementedError

    def column_of(self, values: Sequence[Any], value_type: type) -> Any:
        """An Arrow array of Python values with a registered value factory; None is a missing cell."""
        raise NotImplementedError

    def tool_column(self, tools: Sequence[Any]) -> Any:
        """An Arrow array of KNIME's own workflow tools (``knime.types.tool.WorkflowTool``) or None."""
        from knime.types.tool import WorkflowTool

        return self.column_of(tools, WorkflowTool)

    def credential_port(
        self,
        token: str = "",
        schema: str = "Bearer",
        expires_after: float | None = None,
        available: bool = True,
    ) -> Any:
        """What an Authenticator delivers to a port of type credential."""
        raise NotImplementedError

    def add_file_store(self, key: str, data: bytes = b"") -> str:
        """A file store that cells of input tables can name; returns the key."""
        raise NotImplementedError

    def executing(self) -> Any:
        """A context in which cells find their file stores, as while a node executes."""
        raise NotImplementedError

    def port_object(self, output: tuple[dict[str, Any], bytes]) -> Any:
        """The output of a custom port, as an object that can be given to another node's port."""
        from knime.extension.nodes import get_port_type_for_id

        spec, data = output
        port_type = get_port_type_for_id(spec["id"])
        try:
            read = port_type.spec_class.deserialize(spec["data"], None)
        except TypeError:
            read = port_type.spec_class.deserialize(spec["data"])
        return port_type.object_class.deserialize(read, data)


class StandInHost(Host):
    """The project's own host."""

    is_real = False

    def __init__(self, knime_yml: Path) -> None:
        from tests.support.knime_host import load_extension

        self.host = load_extension(knime_yml)
        self.load_parameters = self.host.load_parameters
        self.describe = self.host.describe
        self.data_service = self.host.data_service
        self.table = self.host.table
        self.column_of = self.host.column_of
        self.executing = self.host.tables_usable

    def add_file_store(self, key, data=b""):
        self.host.file_stores.add(key, data)
        return key

    def run(self, node_id, inputs=(), parameters=None, **options):
        return self.host.run_node(node_id, inputs, parameters, **options)

    def dialog(self, node_id, input_schemas=None, parameters=None, **options):
        return self.host.get_dialog(node_id, input_schemas, parameters, **options)

    def credential_port(self, token="", schema="Bearer", expires_after=None, available=True):
        from tests.support.knime_host import CredentialPort

        return CredentialPort(schema, token, expires_after, available)


class RealHost(Host):
    """KNIME's own Python sources."""

    is_real = True

    def __init__(self, knime_yml: Path) -> None:
        from tests.support import real_knime as rig

        self.rig = rig
        rig.bootstrap()
        self.host = rig.load_extension(str(knime_yml))

    def run(
        self,
        node_id,
        inputs=(),
        parameters=None,
        *,
        credentials=None,
        flow_variables=None,
        cancel=False,
        tool_handler=None,
        output_groups=None,
        workflow_dir=None,
        view_data=None,
        number="1",
        execute=True,
    ):
        context = self.rig.JavaContext(
            view_data=view_data,
            credentials=credentials,
            flow_variables=flow_variables,
            cancel=cancel,
            tool_handler=tool_handler,
            workflow_dir=workflow_dir,
            number=number,
        )
        return _on_worker_thread(
            lambda: self.rig.run_node(
                self.host,
                node_id,
                list(inputs),
                dict(parameters or {}),
                context,
                execute=execute,
                output_groups=dict(output_groups or {}),
            )
        )

    def dialog(self, node_id, input_schemas=None, parameters=None, *, credentials=None, flow_variables=None):
        context = self.rig.JavaContext(credentials=credentials, flow_variables=flow_variables)
        return self.rig.get_dialog(self.host, node_id, input_schemas, dict(parameters or {}), context)

    def data_service(self, node_id, inputs=(), parameters=None, **options):
        context = self.rig.JavaContext(**options)
        return self.rig.ViewService(self.host, node_id, list(inputs), dict(parameters or {}), context)

    def load_parameters(self, node_id, saved, saved_version=None):
        proxy = self.host.proxy(node_id)
        text = json.dumps(saved)
        error = proxy.validateParameters(text, saved_version)
        if error is not None:
            raise ValueError(error)
        proxy.setParameters(text, saved_version)
        return json.loads(proxy.getParameters())

    def describe(self):
        return self.rig.describe_extension(self.host)

    def table(self, data, row_ids="auto"):
        return self.rig.table_from_pyarrow(data, row_ids, self.host)

    def column_of(self, values, value_type):
        return self.rig.column_of(values, value_type, self.host)

    def credential_port(self, token="", schema="Bearer", expires_after=None, available=True):
        return self.rig.CredentialPort(schema, token, expires_after, available)

    def add_file_store(self, key, data=b""):
        return self.host.add_file_store(key, data)

    def executing(self):
        return self.rig.tables_usable(self.host)


def _on_worker_thread(work: Callable[[], Any]) -> Any:
    """KNIME never runs a node on the main thread."""
    results: list[Any] = []
    errors: list[BaseException] = []

    def call() -> None:
        try:
            results.append(work())
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=call, name="node")
    thread.start()
    thread.join()
    if errors:
        raise errors[0]
    return results[0]
