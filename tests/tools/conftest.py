"""What tests of the nodes share: running the Caller, reading its results, a server with odd replies."""

import copy
import importlib
import json
from contextlib import ExitStack

import pyarrow as pa
import pytest

from tests.support import peers
from tests.support.scripted_server import ScriptedServer, discover, http, modern, rpc


@pytest.fixture(scope="session")
def shapes():
    """The server with odd but legal replies."""
    with peers.running(peers.shapes()) as running:
        yield running


@pytest.fixture
def call(host, tmp_path):
    """Runs the Caller, with all columns; every test has a workflow of its own.

    Tables may be given as columns by name.
    """

    def as_input(table):
        columns = pa.table(table) if isinstance(table, dict) else table
        return host.table(columns) if isinstance(columns, pa.Table) else columns

    def run(tools=None, rows=None, credential=None, stored=None, **parameters):
        options = {
            name: parameters.pop(name)
            for name in ("cancel", "tool_handler", "flow_variables", "execute", "number")
            if name in parameters
        }
        if isinstance(parameters.get("arguments"), dict):
            parameters["arguments"] = [
                {"name": name, "value": value} for name, value in parameters["arguments"].items()
            ]
        return host.run(
            "mcp_tool_caller",
            [as_input(tools), as_input(rows), credential],
            {"all_columns": True, **parameters},
            workflow_dir=tmp_path / "workflow",
            credentials=stored or {},
            **options,
        )

    return run


@pytest.fixture
def rows_of():
    """The rows of *Results*, after checking that KNIME would take them."""

    def rows(result):
        assert result.ok, result.failure
        assert not result.problems
        assert not result.outputs[0].problems
        # KNIME's own Python cannot read a missing tool cell, so tools are looked at where they matter.
        table = copy.copy(result.outputs[0])
        tools = [name for name in table.column_names if name == "Tool"]
        object.__setattr__(table, "arrow", table.arrow.drop_columns(tools))
        return table.to_pylist()

    return rows


@pytest.fixture
def message():
    """What a node says that does not take its settings."""

    def said(result):
        assert not result.ok
        assert result.failure["invalid_settings"], result.failure
        return result.failure["message"]

    return said


def listing_server(tools=(), *, name="shop", instructions=None, wants=None, status=None, listing=None):
    """A server that lists tools.

    `wants`: headers without which it answers 401. `status`: what it answers everything with. `listing`: its
    reply instead of a list of the tools.
    """
    if status is not None:
        return ScriptedServer({"*": http(status, '{"error": "no"}'), "GET": http(405)})
    about = {"_meta": {"io.modelcontextprotocol/serverInfo": {"name": name, "version": "1.5"}}}
    if instructions is not None:
        about["instructions"] = instructions
    listed = listing or rpc({"tools": list(tools), "resultType": "complete"})
    script = modern(server__discover=discover(**about), tools__list=listed)
    return ScriptedServer({method: _guarded(reply, wants or {}) for method, reply in script.items()})


def _guarded(reply, wants):
    def guarded(request):
        if all(request.headers.get(name.lower()) == value for name, value in wants.items()):
            return reply(request) if callable(reply) else reply
        return http(401, '{"error": "no"}', headers={"WWW-Authenticate": "Bearer"})

    return guarded


@pytest.fixture
def serve():
    """Starts servers that end with the test; takes what `listing_server` takes."""
    with ExitStack() as stack:
        yield lambda *args, **options: stack.enter_context(listing_server(*args, **options))


@pytest.fixture
def cells(host):
    """Makes a column as KNIME's Java side writes it: its stored form, and the value factory's name."""

    def make(factory, storage, **more):
        from knime.api.types import get_converter

        arrow = importlib.import_module("knime._arrow._types" if host.is_real else "knime._arrow")
        text = json.dumps({"value_factory_class": factory, **more}, separators=(",", ":"))
        kind = arrow.LogicalTypeExtensionType(get_converter(text), storage.type, text)
        return pa.ExtensionArray.from_storage(kind, storage)

    return make
