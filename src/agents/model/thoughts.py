"""Finds a model's thoughts in the text of its answer, where servers that do not know the model leave them."""

from __future__ import annotations

import re
from typing import Final, NamedTuple


class _Form(NamedTuple):
    begin: re.Pattern[str]
    end: re.Pattern[str]


_TAGS: Final = ("think", "thinking", "thought", "thoughts", "reasoning", "reflection", "seed:think")
#: Forms that are marks alone: an end without a beginning belongs to thoughts that the model's prompt began.
_MARKS: Final = tuple(
    _Form(re.compile(begin, re.I), re.compile(rf"(?<!`){end}", re.I))
    for begin, end in (
        *((f"<{tag}>", f"</{tag}>") for tag in _TAGS),
        (r"\[THINK\]", r"\[/THINK\]"),  # Mistral's
        ("◁think▷", "◁/think▷"),  # Moonshot's
        (r"<\|begin_of_thought\|>", r"<\|end_of_thought\|>"),
        (r"<\|START_THINKING\|>", r"<\|END_THINKING\|>"),  # Cohere's
        (r"<\|inner_prefix\|>", r"<\|inner_suffix\|>"),  # Apertus's
        (r'<details type="reasoning"[^>]*>', "</details>"),  # Open WebUI's
        ("<unused94>thought", "<unused95>"),  # Google's
        (r"<\|channel>thought", r"<channel\|>"),
    )
)
_FORMS: Final = (
    *_MARKS,
    _Form(  # https://developers.openai.com/cookbook/articles/openai-harmony
        re.compile(
            r"(?:<\|start\|>assistant)?<\|channel\|>(?:analysis|commentary(?! ?to=)).{0,80}?<\|message\|>"
        ),
        re.compile(r"<\|end\|>|(?=<\|start\|>)|(?=<\|channel\|>)"),
    ),
    # The same without its tokens, which some servers leave out.
    _Form(re.compile(r"analysis(?=\S(?s:.*?)assistantfinal)"), re.compile("assistantfinal")),
    _Form(  # Granite's
        re.compile(r"Here is my thought process:(?=(?s:.*?)Here is my response:)"),
        re.compile("Here is my response:"),
    ),
)
_FRAME: Final = re.compile(
    r"\s*(?:(?:<\|start\|>assistant)?<\|channel\|>final.{0,80}?<\|message\|>"
    r"|<\|(?:begin_of_(?:solution|box)|START_RESPONSE)\|>)"
)
_TAGGED: Final = re.compile(r"\s*<(answer|response)>(.*?)(?:</\1>)?\s*", re.DOTALL)
_BLANKS: Final = re.compile(r"\s*")
_FRAME_END: Final = re.compile(r"<\|(?:end|return|end_of_(?:solution|box)|END_RESPONSE)\|>")


def without_thoughts(text: str) -> str:
    """The answer in a text; empty if all of it is thoughts.

    Thoughts stand before an answer. Only in a text that begins with some, marks further on are no quotation.
    """
    position = 0
    found: set[_Form] = set()
    while begun := _begun(text, position):
        form, start = begun
        end = form.end.search(text, start)
        if end is None:
            return ""  # cut off, or never closed
        found.add(form)
        position = end.end()
    text = text[position:]
    for form in _MARKS:
        if form in found:
            text = _without_blocks(text, form)
    for form in _MARKS:
        end = form.end.search(text)
        if end is not None and form.begin.search(text, 0, end.start()) is None:
            text = text[end.end() :]
    tagged = _TAGGED.fullmatch(text) if position else None
    if tagged is not None:
        return tagged[2].strip()
    frame = _FRAME.match(text)
    return (text if frame is None else _FRAME_END.split(text[frame.end() :], 1)[0]).strip()


def _begun(text: str, position: int) -> tuple[_Form, int] | None:
    blanks = _BLANKS.match(text, position)
    at = position if blanks is None else blanks.end()
    matches = ((form, form.begin.match(text, at)) for form in _FORMS)
    return next(((form, match.end()) for form, match in matches if match is not None), None)


def _without_blocks(text: str, form: _Form) -> str:
    kept: list[str] = []
    position = 0
    while begin := form.begin.search(text, position):
        kept.append(text[position : begin.start()])
        end = form.end.search(text, begin.end())
        if end is None:
            return "".join(kept)
        position = end.end()
    return "".join([*kept, text[position:]])
