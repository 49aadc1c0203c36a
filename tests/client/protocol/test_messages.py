import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from knime_mcp.client.protocol import messages
from knime_mcp.types.errors import ResultTooLarge

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


@given(st.dictionaries(st.text(), json_values))
def test_what_is_encoded_is_decoded_the_same(message):
    data = messages.encode(message)
    assert b"\n" not in data
    assert messages.decode(data) == message


def count_values(value):
    match value:
        case list():
            return 1 + max(len(value) - 1, 0) + sum(map(count_values, value))
        case dict():
            return 1 + max(len(value) - 1, 0) + sum(map(count_values, value.values()))
        case _:
            return 0


@given(st.lists(json_values, min_size=1), st.sampled_from([None, 2]), st.booleans(), st.booleans())
def test_values_are_counted_before_they_are_read(value, indent, ensure_ascii, as_text):
    text = json.dumps(value, indent=indent, ensure_ascii=ensure_ascii)
    data = text if as_text else text.encode("utf-8", "replace")
    messages.decode(data, values=count_values(value))
    with pytest.raises(ResultTooLarge, match=r"more than \d+ values"):
        messages.decode(data, values=count_values(value) - 1)


@pytest.mark.parametrize("text", ['"' + "a,[{" * 700_000 + '"', '["' + '\\\\\\",' * 800_000 + '"]'])
def test_what_stands_in_texts_is_no_value(text):
    assert messages.decode(text, values=10) == json.loads(text)


def test_nan_is_refused_on_the_way_out():
    with pytest.raises(ValueError, match="not JSON compliant"):
        messages.encode({"x": float("nan")})


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
    assert messages.answers(message, 7) is expected


def test_an_error_keeps_code_message_and_any_data():
    error = messages.error_of({"error": {"code": 0, "message": "x", "data": ""}})
    assert error == messages.RpcError(0, "x", "")


def test_params_are_never_null():
    assert messages.request(1, "tools/list", {})["params"] == {}
    assert "params" not in messages.notification("notifications/initialized")
