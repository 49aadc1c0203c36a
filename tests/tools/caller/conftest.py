"""The server and the helpers of the Caller's tests."""

import copy
import json

import pyarrow as pa
import pytest

from tests.support import peers


@pytest.fixture(scope="session")
def server():
    """A counting server; paths /one, /two and /old (HTTP+SSE)."""
    with peers.running(peers.counting()) as running:
        yield running


@pytest.fixture(scope="session")
def shapes():
    """The server with odd but legal replies."""
    with peers.running(peers.shapes()) as running:
        yield running


@pytest.fixture
def tools_of(host):
    """Makes the Provider's *Tools* table for URLs, as input for the Caller."""

    def tools(*urls, form="auto", **parameters):
        servers = None
        if len(urls) > 1:
            servers = host.table(pa.table({"url": list(urls)}))
        settings = {"column_form": form, **parameters}
        if servers is None:
            settings["server_url"] = urls[0]
        result = host.run("mcp_tool_provider", [servers, None], settings)
        assert result.ok, result.failure
        return result.outputs[0].as_input()

    return tools


@pytest.fixture
def call(host, tmp_path):
    """Runs the Caller; every test has a workflow of its own."""

    def run(tools=None, rows=None, credential=None, workflow_dir=None, stored=None, **parameters):
        options = {
            name: parameters.pop(name)
            for name in ("cancel", "tool_handler", "flow_variables", "execute")
            if name in parameters
        }
        options["credentials"] = stored or {}
        if isinstance(rows, dict):
            rows = host.table(pa.table(rows))
        elif isinstance(rows, pa.Table):
            rows = host.table(rows)
        if isinstance(parameters.get("arguments"), dict):
            parameters["arguments"] = [
                {"name": name, "value": value} for name, value in parameters["arguments"].items()
            ]
        return host.run(
            "mcp_tool_caller",
            [tools, rows, credential],
            parameters,
            workflow_dir=workflow_dir or tmp_path / "workflow",
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
def journals(tmp_path):
    """Reads the journals of the test's workflow, oldest first, each as a list of lines."""

    def read():
        return [
            [json.loads(line) for line in path.read_text("utf-8").splitlines()]
            for path in sorted((tmp_path / "workflow" / "data" / "mcp-audit").glob("*.jsonl"))
        ]

    return read
