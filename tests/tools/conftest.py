"""What tests of the nodes share: running the Caller, reading its results, a server with odd replies."""

import copy

import pyarrow as pa
import pytest

from tests.support import peers


@pytest.fixture(scope="session")
def shapes():
    """The server with odd but legal replies."""
    with peers.running(peers.shapes()) as running:
        yield running


@pytest.fixture
def call(host, tmp_path):
    """Runs the Caller; every test has a workflow of its own. Tables may be given as columns by name."""

    def as_input(table):
        columns = pa.table(table) if isinstance(table, dict) else table
        return host.table(columns) if isinstance(columns, pa.Table) else columns

    def run(tools=None, rows=None, credential=None, stored=None, **parameters):
        options = {
            name: parameters.pop(name)
            for name in ("cancel", "tool_handler", "flow_variables", "execute")
            if name in parameters
        }
        if isinstance(parameters.get("arguments"), dict):
            parameters["arguments"] = [
                {"name": name, "value": value} for name, value in parameters["arguments"].items()
            ]
        return host.run(
            "mcp_tool_caller",
            [as_input(tools), as_input(rows), credential],
            parameters,
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
