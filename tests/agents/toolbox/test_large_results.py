"""Long results: a part for the model, the rest on request."""

import re

import pytest

from knime_mcp.agents.toolbox import replies
from knime_mcp.agents.toolbox.replies import LargeResults
from knime_mcp.types.errors import ArgumentsInvalid

pytestmark = pytest.mark.quick


def test_short_results_stay():
    large = LargeResults(1000)
    assert large.cut("x" * 1000) == "x" * 1000
    assert not large.any


def test_a_long_result_is_cut_to_head_and_tail_with_size_and_id():
    text = "".join(chr(97 + n % 26) for n in range(5000))
    large = LargeResults(1000, "read_on")
    shown = large.cut(text)
    assert shown.startswith(
        text[:750] + "\n\n[4,000 of 5,000 characters are left out here. This is result r1: "
    )
    assert 'call read_on with {"id": "r1", "offset": 750}' in shown
    assert shown.endswith("\n\n" + text[-250:])
    assert large.any


def test_reading_on_gives_the_whole():
    text = "".join(f"{n:06}\n" for n in range(1000))
    large = LargeResults(1000)
    large.cut(text)
    parts, offset = [], 0
    while offset < len(text):
        heading, part = large.read("r1", offset).split("\n", 1)
        assert re.fullmatch(r"\[Characters [\d,]+ to [\d,]+ of the 7,000 of result r1; .*\]", heading)
        parts.append(part)
        offset += len(part)
    assert "".join(parts) == text
    assert "this is its end" in large.read("r1", 6990)


def test_reading_what_is_not_there_says_what_is():
    large = LargeResults(1000)
    large.cut("x" * 2000)
    with pytest.raises(ArgumentsInvalid, match="Use one of r1") as caught:
        large.read("r2")
    assert caught.value.pointer == "/id"
    with pytest.raises(ArgumentsInvalid, match="There is no result"):
        large.read("r" + "1" * 5000)
    with pytest.raises(ArgumentsInvalid, match="only 2,000 characters") as caught:
        large.read("r1", 2000)
    assert caught.value.pointer == "/offset"


def test_the_oldest_goes_when_there_are_too_many(monkeypatch):
    monkeypatch.setattr(replies, "_MOST_KEPT", 5000)
    large = LargeResults(1000)
    for letter in "abc":
        large.cut(letter * 2000)
    with pytest.raises(ArgumentsInvalid, match="no longer held"):
        large.read("r1")
    assert large.read("r3").endswith("c")
