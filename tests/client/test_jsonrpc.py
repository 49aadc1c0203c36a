import pytest
from hypothesis import given
from hypothesis import strategies as st

from knime_mcp.client.protocol import jsonrpc

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


@given(st.dictionaries(st.text(), json_values))
def test_what_is_encoded_is_decoded_the_same(message):
    data = jsonrpc.encode(message)
    assert b"\n" not in data
    assert jsonrpc.decode(data) == message


def test_nan_is_refused_on_the_way_out():
    with pytest.raises(ValueError, match="not JSON compliant"):
        jsonrpc.encode({"x": float("nan")})


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ({"id": 7, "result": {}}, True),
        ({"id": "7", "result": {}}, True),
        ({"id": 7, "error": {}}, True),
        ({"id": 8, "result": {}}, False),
        ({"id": 7, "method": "ping"}, False),
        ({"id": 7}, False),
        ({"id": None, "error": {}}, False),
    ],
)
def test_which_messages_answer_a_request(message, expected):
    assert jsonrpc.answers(message, 7) is expected


def test_an_error_keeps_code_message_and_any_data():
    error = jsonrpc.error_of({"error": {"code": 0, "message": "x", "data": ""}})
    assert error == jsonrpc.RpcError(0, "x", "")


def test_params_are_never_null():
    assert jsonrpc.request(1, "tools/list", {})["params"] == {}
    assert "params" not in jsonrpc.notification("notifications/initialized")
