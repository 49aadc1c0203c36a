import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from knime_mcp.tools.protocol import jsonrpc
from knime_mcp.types.errors import ProtocolError

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


bracketed = st.recursive(
    st.none() | st.text(alphabet='[]{}"\\a', max_size=6),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text(alphabet='[]{}"\\', max_size=3), inner, max_size=3)
    ),
    max_leaves=30,
)


@given(bracketed, st.integers(1, 6), st.booleans(), st.booleans())
def test_what_looks_shallow_is_shallow(value, levels, as_bytes, indented):
    text = json.dumps(value, indent=1 if indented else None)
    found = jsonrpc.is_surely_shallow(text.encode() if as_bytes else text, levels)
    assert not (found and jsonrpc.is_deeper(value, levels))
    assert jsonrpc.is_surely_shallow(text, 200)  # whatever its texts hold


@given(bracketed, st.integers(1, 6), st.booleans(), st.booleans())
def test_the_depth_is_the_same_whether_values_or_the_text_are_looked_at(value, levels, as_bytes, many):
    if many:  # too many to walk over
        value = [list(range(2000)), value]
    text = json.dumps(value)
    looked_at = text.encode() if as_bytes else text
    assert jsonrpc.is_deeper(value, levels, looked_at) is jsonrpc.is_deeper(value, levels)


@pytest.mark.parametrize("width", [1, 5000])
@pytest.mark.parametrize(("levels", "fine"), [(jsonrpc.DEEPEST - 1, True), (jsonrpc.DEEPEST, False)])
def test_the_depth_is_bounded_beside_many_values(width, levels, fine):
    text = json.dumps(["}"] * width)[:-1] + "," + "[" * levels + "]" * levels + "]"
    if fine:
        assert len(jsonrpc.decode(text)) == width + 1
        return
    with pytest.raises(ProtocolError, match="too deeply"):
        jsonrpc.decode(text.encode())


@given(st.binary(), st.text(alphabet='[]{}"\\ a'))
def test_the_look_at_a_text_ends_whatever_the_text_is(data, text):
    assert jsonrpc.is_surely_shallow(data, 5) in (True, False)
    assert jsonrpc.is_surely_shallow(text, 5) in (True, False)


@given(st.binary())
def test_any_bytes_decode_or_raise_our_error(data):
    try:
        value = jsonrpc.decode(data)
    except ProtocolError:
        return
    json.dumps(value, ensure_ascii=False).encode()  # no lone surrogates


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (r'{"a": "\ud800"}', {"a": "\ufffd"}),
        (r'{"\udfff": ["x\uDBFF"]}', {"\ufffd": ["x\ufffd"]}),
        (r'{"a": "\ud83d\ude00"}', {"a": "\U0001f600"}),
        (r'{"a": "\ud83d\ude00", "b": "\\ud83d\ude00"}', {"a": "\U0001f600", "b": "\\ud83d\ufffd"}),
        ("\ufeff[1]", [1]),
        ("[NaN, -Infinity]", [None, None]),
        (b'{"a": "\xff"}', {"a": "\ufffd"}),
    ],
)
def test_text_that_would_break_a_table_is_repaired(text, value):
    assert jsonrpc.decode(text) == value


@pytest.mark.parametrize("text", ["", "{", "[" * 100_000, "1" * 5000, "{'a': 1}", "nope"])
def test_what_is_not_json_is_a_protocol_error(text):
    with pytest.raises(ProtocolError):
        jsonrpc.decode(text)


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


@given(json_values)
def test_errors_are_read_from_anything(value):
    error = jsonrpc.error_of(value)
    assert error is None or isinstance(error.code, int)


def test_an_error_keeps_code_message_and_any_data():
    error = jsonrpc.error_of({"error": {"code": 0, "message": "x", "data": ""}})
    assert error == jsonrpc.RpcError(0, "x", "")


def test_params_are_never_null():
    assert jsonrpc.request(1, "tools/list", {})["params"] == {}
    assert "params" not in jsonrpc.notification("notifications/initialized")
