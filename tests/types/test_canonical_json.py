import json
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from knime_mcp.types.texts import canonical_json, compact_json, without_surrogates
from tests.types.strategies import json_values, texts


@given(json_values)
def test_nothing_is_lost(value):
    assert json.loads(canonical_json(value)) == value
    assert json.loads(compact_json(value)) == value


@given(st.dictionaries(texts, json_values, max_size=6), st.randoms(use_true_random=False))
def test_the_order_of_keys_does_not_count(value, rng: random.Random):
    shuffled = list(value.items())
    rng.shuffle(shuffled)
    assert canonical_json(dict(shuffled)) == canonical_json(value)


def test_canonical_json_is_this_text():
    assert canonical_json({"b": [1, 1.5, None, True], "a": {"ü": "\n\u2028"}}) == (
        '{"a":{"ü":"\\n\u2028"},"b":[1,1.5,null,true]}'
    )


def test_compact_json_keeps_the_order_of_keys():
    assert compact_json({"b": 1, "a": 2}) == '{"b":1,"a":2}'


@pytest.mark.parametrize("number", [float("nan"), float("inf"), float("-inf")])
@pytest.mark.parametrize("write", [canonical_json, compact_json])
def test_what_json_has_not_is_refused(write, number):
    with pytest.raises(ValueError, match="JSON compliant"):
        write({"a": [number]})


@given(st.text())
def test_any_text_becomes_encodable(text):
    without_surrogates(text).encode()


@given(texts)
def test_text_without_surrogates_stays_the_same_object(text):
    assert without_surrogates(text) is text


@pytest.mark.parametrize(
    ("text", "clean"),
    [
        ("a\ud800", "a\ufffd"),
        ("\udc00b", "\ufffdb"),
        ("\ud83d\ude00", "😀"),
        ("\ude00\ud83dx", "\ufffd\ufffdx"),
    ],
)
def test_lone_surrogates_are_replaced_and_pairs_joined(text, clean):
    assert without_surrogates(text) == clean
    assert canonical_json([text]) == f'["{clean}"]'
