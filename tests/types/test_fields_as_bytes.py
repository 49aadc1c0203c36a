import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from knime_mcp.types.errors import ToolFormatError
from knime_mcp.types.tool import MCPTool, WorkflowTool
from knime_mcp.types.tool_bytes import from_bytes, to_bytes
from tests.types.strategies import tools


@pytest.mark.requirement("T46")
@given(tools)
def test_reading_undoes_writing(tool):
    data = to_bytes(tool)
    assert data[0] == tool.tool_type
    assert from_bytes(data) == tool
    assert to_bytes(from_bytes(data)) == data


@pytest.mark.requirement("T46")
def test_type_byte_then_common_fields_then_those_of_the_type():
    def text(value):
        return b"\xff\xff\xff\xff" if value is None else len(value).to_bytes(4) + value

    mcp = MCPTool("n", "d", "{}", "https://h", "t")
    assert to_bytes(mcp) == b"\x01" + b"".join(map(text, [b"n", b"d", b"{}", None, b"https://h#tool=t"]))
    workflow = WorkflowTool("n", "", "", 2)
    common = b"\x00" + b"".join(map(text, [b"n", b"", b"", b"[]", b"[]"]))
    assert to_bytes(workflow) == common + b"\x00\x00\x00\x02" + text(None)


@given(tools, st.data())
def test_bytes_that_end_early_or_late_are_refused(tool, data):
    whole = to_bytes(tool)
    cut = data.draw(st.integers(0, len(whole) - 1))
    with pytest.raises(ToolFormatError, match="end within the field"):
        from_bytes(whole[:cut])
    with pytest.raises(ToolFormatError, match="3 unknown bytes follow"):
        from_bytes(whole + b"abc")


@given(st.binary(max_size=60))
def test_any_bytes_give_a_tool_or_the_right_error(data):
    with contextlib.suppress(ToolFormatError):
        assert from_bytes(data).name


def test_an_unknown_type_byte_names_the_value():
    with pytest.raises(ToolFormatError, match="type 9 is unknown") as caught:
        from_bytes(b"\x09" + to_bytes(WorkflowTool("n", "", ""))[1:])
    assert caught.value.field == "tool_type"


def test_text_that_is_no_utf8_names_the_field():
    data = to_bytes(MCPTool("n", "XY", "{}", "https://h", "n")).replace(b"XY", b"\xff\xfe")
    with pytest.raises(ToolFormatError, match="description"):
        from_bytes(data)
