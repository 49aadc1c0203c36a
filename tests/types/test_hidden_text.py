import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from knime_mcp.types.texts import hidden_characters, only_visible, smuggled, visible, without_hidden

TAGS = "".join(chr(0xE0000 + ord(c)) for c in "do evil")
SELECTORS = "".join(chr(0xFE00 + b) if b < 16 else chr(0xE0100 + b - 16) for b in b"do evil")


def test_hidden_characters_become_visible_escapes(subtests):
    for text, shown in [
        ("plain", "plain"),
        ("line\nand\ttab", "line\nand\ttab"),
        ("zero\u200bwidth", r"zero\u{200b}width"),
        ("\ufeffmark", r"\u{feff}mark"),
        ("over\u202eride", r"over\u{202e}ride"),
        ("escape \x1b[8m", r"escape \u{001b}[8m"),
        ("soft\u00adhyphen", r"soft\u{00ad}hyphen"),
        ("a\u200db", r"a\u{200d}b"),
        ("private \ue000", r"private \u{e000}"),
        ("👨\u200d", r"👨\u{200d}"),
        ("👨\u200d\u200d👧", r"👨\u{200d}\u{200d}👧"),
        ("\ufe0f❤ \ufe0f", r"\u{fe0f}❤ \u{fe0f}"),
        ("❤\ufe0f\ufe0f", r"❤\u{fe0f}\u{fe0f}"),
        ("🏴\U000e007f", r"🏴\u{e007f}"),
        ("🏴\U000e0067\U000e0062\U000e007f\U000e0067", "🏴\U000e0067\U000e0062\U000e007f" + r"\u{e0067}"),
        ("🏴" + 7 * "\U000e0067" + "\U000e007f", "🏴" + 7 * r"\u{e0067}" + r"\u{e007f}"),
    ]:
        with subtests.test(text=text, shown=shown):
            assert visible(text) == shown


@pytest.mark.parametrize(
    "text",
    [
        "👨‍👩‍👧 family",
        "❤️ and ☎︎",
        "🏴\U000e0067\U000e0062\U000e0065\U000e006e\U000e0067\U000e007f England",
        "نام‌ها",  # Persian: zero-width non-joiner between letters
        "क्‍ष",  # Devanagari: zero-width joiner after a vowel sign
        "שלום \u200fabc",
        "葛\U000e0100城",
        "broken \ufffd",
    ],
)
def test_ordinary_uses_are_left_alone(text):
    assert visible(text) == text


def test_what_tags_and_selectors_spell_is_read():
    assert smuggled("".join(c for _, c in hidden_characters("x" + TAGS))) == "do evil"
    assert smuggled("".join(c for _, c in hidden_characters("x" + SELECTORS))) == "do evil"


@given(st.text())
def test_the_visible_text_hides_nothing_but_keeps_the_rest(text):
    shown = visible(text)
    assert [c for _, c in hidden_characters(text)] == [] or shown != text
    kept = [c for i, c in enumerate(text) if i not in {p for p, _ in hidden_characters(text)}]
    assert all(c in shown for c in kept)


def test_hidden_characters_are_dropped_for_comparing():
    assert without_hidden("ig\u200bnore") == "ignore"
    assert without_hidden("ｉｇｎｏｒｅ") == "ignore"


def test_a_long_text_of_marks_takes_no_time_that_grows_with_its_square():
    assert sum(1 for _ in hidden_characters("\u200f" * 200_000)) == 200_000


def test_millions_of_hidden_characters_are_left_out_without_a_list_of_them():
    text = "a" + "\u200b" * 1_000_000 + "b"
    tracemalloc.start()
    try:
        assert only_visible(text) == "ab"
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 1_000_000  # the text itself has 2 MB, the places of all took 100 MB
