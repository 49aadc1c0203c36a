"""KNIME's own agents take our cells: the converter of knime-python-llm, unchanged, and a scripted model."""

import importlib
import json
import os
import sys
from pathlib import Path
from types import ModuleType

import jsonschema_rs
import langchain_core.tools
import pyarrow as pa
import pytest
from langchain_core.utils.function_calling import convert_to_openai_tool

from knime_mcp.tools.agent_parameters import agent_parameters, cell_names
from knime_mcp.tools.tool_segment import tool_cell
from knime_mcp.types.columns import ColumnForm, read_tools, write_tools
from knime_mcp.types.tool import MCPTool
from tests.support.hard_schemas import HARD
from tests.support.java_segments import as_a_model_gives, variables_of

pytestmark = pytest.mark.real_knime

TIMES = {"connect_timeout": 5.0, "idle_timeout": 30.0, "total_timeout": 60.0}


@pytest.fixture(scope="module")
def knimes():
    """The module of KNIME's AI extension that makes tools for models."""
    root = os.environ.get("KNIME_LLM_ROOT")
    assert root, "needs KNIME_LLM_ROOT, a checkout of knime-python-llm"
    package = ModuleType("knimes_agents")  # not "agents", which is a part of this project
    package.__path__ = [str(Path(root) / "src" / "agents")]
    sys.modules["knimes_agents"] = package
    if "langchain" not in sys.modules:  # KNIME imports LangChain's core under its old name
        sys.modules["langchain"] = ModuleType("langchain")
        sys.modules["langchain.tools"] = langchain_core.tools
    return importlib.import_module("knimes_agents._tool")


@pytest.fixture(scope="module")
def cells(host):
    """The cells of the hard list, written to a table and read by KNIME's own value factory."""
    names = cell_names(HARD)
    tools = [MCPTool(name, "Does it", schema, "https://h/mcp", name) for name, schema in HARD.items()]
    with host.executing():
        made = [tool_cell(tool, name, TIMES) for tool, name in zip(tools, names, strict=True)]
        column = write_tools(tools, ColumnForm.CARRIER, made)
        table = host.table(pa.table({"Tool": column}))
        values = table["Tool"].to_pyarrow().column("Tool").to_pylist()
        again = read_tools(table)
    assert again == tools
    return list(zip(tools, made, values, strict=True))


def test_the_list_is_hard_and_long(cells):
    assert len(cells) >= 60


@pytest.mark.parametrize("place", range(len(HARD)), ids=list(HARD))
def test_knimes_converter_makes_a_definition_that_is_valid(knimes, cells, place):
    """And what the model gives reaches KNIME's call, and fits the Configuration nodes."""
    tool, cell, value = cells[place]
    called = []

    class Context:
        def _execute_tool(self, given, parameters, inputs, hints):
            called.append((given, parameters))
            return "said", [], []

    converter = knimes.LangchainToolConverter(None, Context(), knimes.ExecutionMode.DEFAULT)
    made = converter.to_langchain_tool(value)
    definition = convert_to_openai_tool(made)["function"]
    assert definition["name"] == cell.name
    jsonschema_rs.meta.validate(
        {"$schema": "https://json-schema.org/draft/2020-12/schema", **definition["parameters"]}
    )
    parameters = agent_parameters(tool)
    given = as_a_model_gives(parameters, {})
    given = {own.knime_name: _some(own, given[own.knime_name]) for own in parameters}
    arguments = {"configuration": given} if parameters else {}
    assert made.invoke(arguments) == "said"
    ((_, sent),) = called
    assert (sent or {}) == given
    variables, _ = variables_of(cell.store, json.loads(json.dumps(given)))
    assert len(variables) == len(parameters)


def _some(parameter, given):
    """A value that fits what the model is shown."""
    kind = parameter.shown.get("type")
    if parameter.shown.get("enum"):
        return parameter.shown["enum"][0]
    return {"boolean": True, "integer": 5, "number": 0.5}.get(kind, given)
