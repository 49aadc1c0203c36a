import pytest
from hypothesis import given

from knime_mcp.types import tool_cells
from knime_mcp.types.arrow import encode_tools
from knime_mcp.types.errors import ToolFormatError
from knime_mcp.types.tool_cells import ToolValueFactory
from tests.types.strategies import cells


@pytest.mark.requirement("T7")
@given(cells)
def test_one_cell_is_stored_as_a_column_stores_it(tool):
    storage = ToolValueFactory().encode(tool)
    assert storage == encode_tools([tool])[0].as_py()
    assert ToolValueFactory().decode(storage) == tool


def test_an_unknown_discriminator_is_an_error():
    with pytest.raises(ToolFormatError, match="type 5 is unknown"):
        ToolValueFactory().decode({"0": 5, "1": "n"})


@pytest.mark.requirement("T37")
@pytest.mark.requirement("T41")
@pytest.mark.parametrize("name", ["WorkflowToolValueFactory", "MCPToolValueFactory"])
def test_the_old_factories_are_warned_aliases(name):
    with pytest.warns(DeprecationWarning, match=f"{name} is deprecated and goes in 2.0"):
        assert getattr(tool_cells, name) is ToolValueFactory


def test_another_name_is_no_attribute():
    with pytest.raises(AttributeError):
        _ = tool_cells.SomethingElse
