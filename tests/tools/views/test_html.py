import re
from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st

from knime_mcp.tools.views import html

HOSTILE = "<script>alert(1)</script>\"'&<img src=x onerror=alert(1)>"


class Tags(HTMLParser):
    def __init__(self):
        super().__init__()
        self.open, self.seen, self.text = [], [], []

    def handle_starttag(self, tag, attributes):
        self.seen.append((tag, dict(attributes)))
        if tag not in {"meta", "img", "br", "hr"}:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text.append(data)


def parsed(text):
    tags = Tags()
    tags.feed(text)
    tags.close()
    assert tags.open == []
    return tags


def everything(text):
    return html.page(
        text,
        html.heading(1, text),
        html.paragraph(text, soft=True),
        html.table([text], [[text], [html.badge(text, "bad", title=text)]]),
        html.json_block(text),
        html.json_block({text: text}),
        html.note(text, kind="warning"),
        html.details(text, text, opened=True),
        html.properties([(text, text)]),
    )


@given(st.text(min_size=1))
def test_whatever_a_text_holds_the_page_has_the_same_elements(text):
    # Of hidden characters, which become elements, there are none in the plain page.
    elements = [tag for tag, _ in parsed(everything(text)).seen if tag != "span"]
    assert elements == [tag for tag, _ in parsed(everything("x")).seen if tag != "span"]


def test_hostile_text_stays_text():
    page = everything(HOSTILE)
    tags = parsed(page)
    assert "script" not in [tag for tag, _ in tags.seen]
    assert not any(name.startswith("on") for _, attributes in tags.seen for name in attributes)
    assert "".join(tags.text).count(HOSTILE) >= 6


def test_the_page_needs_nothing_from_outside_and_forbids_scripts():
    page = html.page("t", html.paragraph("x"))
    policies = [
        a["content"] for _, a in parsed(page).seen if a.get("http-equiv") == "Content-Security-Policy"
    ]
    assert policies == ["default-src 'none'; style-src 'unsafe-inline'; img-src data:"]
    assert not re.search(r"https?://|<script|<link|@import|url\(", page)


def test_there_are_colours_for_dark_surroundings():
    page = html.page("t")
    assert "color-scheme: light dark" in page
    assert "prefers-color-scheme: dark" in page


def test_hidden_characters_are_shown_with_their_names():
    shown = html.to_html("pay\u200bload")
    assert r"\u{200b}" in shown
    assert "zero width space" in shown
    assert "\u200b" not in shown


def test_lone_surrogates_do_not_break_the_page():
    html.page("t", html.paragraph("\ud83d"), html.badge("x", title="\ud83d")).encode()


@pytest.mark.parametrize(
    ("value", "shown"), [(True, "yes"), (False, "no"), (None, ""), (3, "3"), (1.5, "1.5")]
)
def test_values_become_words(value, shown):
    assert html.to_html(value) == shown


def test_json_is_indented_and_other_text_is_kept():
    assert "{\n  &quot;b&quot;: 1" in html.json_block('{"b":1}')
    assert "not json" in html.json_block("not json")


def test_only_images_that_browsers_show_are_put_into_the_page():
    assert html.data_url(b"x", "image/png") == "data:image/png;base64,eA=="
    assert html.data_url(b"x", 'image/tiff"><script>') is None


def test_empty_properties_are_left_out():
    assert html.properties([("a", None), ("b", ""), ("c", 0)]).count("<dt>") == 1
