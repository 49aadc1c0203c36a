import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from knime_mcp.client.protocol import messages
from knime_mcp.types.errors import ProtocolError, ResultTooLarge

from .test_messages import json_values

bracketed = st.recursive(
    st.none() | st.text(alphabet='[]{}"\\a', max_size=6),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text(alphabet='[]{}"\\', max_size=3), inner, max_size=3)
    ),
    max_leaves=30,
)


@given(bracketed, st.integers(1, 6), st.booleans(), st.booleans())
def test_the_depth_is_the_same_whether_values_or_the_text_are_looked_at(value, levels, as_bytes, indented):
    value = [list(range(2000)), value]  # too many to walk over
    text = json.dumps(value, indent=1 if indented else None)
    looked_at = text.encode() if as_bytes else text
    assert messages.is_deeper(value, levels, looked_at) is messages.is_deeper(value, levels)


@pytest.mark.parametrize("width", [1, 5000])
@pytest.mark.parametrize(("levels", "fine"), [(messages.DEEPEST - 1, True), (messages.DEEPEST, False)])
def test_the_depth_is_bounded_beside_many_values(width, levels, fine):
    text = json.dumps(["}"] * width)[:-1] + "," + "[" * levels + "]" * levels + "]"
    if fine:
        assert len(messages.decode(text)) == width + 1
        return
    with pytest.raises(ProtocolError, match="too deeply"):
        messages.decode(text.encode())


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (r'{"a": "\ud800"}', {"a": "\ufffd"}),
        (r'{"\udfff": ["x\uDBFF"]}', {"\ufffd": ["x\ufffd"]}),
        (r'{"a": "\ud83d\ude00"}', {"a": "\U0001f600"}),
        (r'{"a": "\ud83d\ude00", "b": "\\ud83d\ude00"}', {"a": "\U0001f600", "b": "\\ud83d\ufffd"}),
        ("\ufeff[1]", [1]),
        ("[NaN, -Infinity]", [None, None]),
        (f"[{'1' * 5000}, 2, {'1' * 25}]", [None, 2, int("1" * 25)]),
        (b'{"a": "\xff"}', {"a": "ÿ"}),
        ('{"a": "1\t2\n3"}', {"a": "1\t2\n3"}),
    ],
)
def test_text_that_would_break_a_table_is_repaired(text, value):
    assert messages.decode(text) == value


@pytest.mark.parametrize("text", ["", "{", "[" * 100_000, "1" * 5000 + "x", "{'a': 1}", "nope"])
def test_what_is_not_json_is_a_protocol_error(text):
    with pytest.raises(ProtocolError):
        messages.decode(text)


numbers = st.one_of(
    st.integers().map(str),
    st.integers(-(2**66), 2**66).map(str),
    st.floats(allow_nan=False, allow_infinity=False).map(repr),
    st.from_regex(r"-?(0|[1-9][0-9]{0,25})(\.[0-9]{1,25})?([eE][+-]?[0-9]{1,3})?", fullmatch=True),
)


@given(st.lists(numbers), json_values)
def test_the_fast_reader_reads_what_pythons_own_reads(numbers, value):
    text = f"[{', '.join([*numbers, json.dumps(value)])}]"
    with pytest.MonkeyPatch.context() as patch:
        found = repr(messages.decode(text))  # tells 1 from 1.0, and 0.0 from -0.0
        patch.setattr(messages, "_fast", None)
        assert repr(messages.decode(text)) == found


@pytest.mark.parametrize("number", [2**53 + 1, 2**63, -(2**63) - 1, 2**64, 10**30])
def test_integers_keep_all_digits(number):
    assert messages.decode(f'{{"a": {number}}}'.encode()) == {"a": number}


def test_digits_of_long_integers_count_as_values():
    text = json.dumps([10**999] * 10)
    assert messages.decode(text, values=10_000) == [10**999] * 10
    with pytest.raises(ResultTooLarge, match="400 digits with 8,000 digits"):
        messages.decode(text, values=7_500)
