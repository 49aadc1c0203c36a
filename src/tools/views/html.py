"""Building blocks of the pages that nodes show: escaped text in, self-contained HTML out.

All shown texts come from untrusted servers. Text therefore becomes HTML in one place only: all content that
is not `Html` is escaped, hidden characters get visible escapes, and the page's Content-Security-Policy
forbids requests, and every script but the one that came with the page, so that even a mistake here could not
run or fetch anything.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import html
import json
import re
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, assert_never

from ...types.texts import beginning, escape, hidden_characters, name_of, visible, without_surrogates

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ...audit.record import CallStatus
    from ...audit.verdicts import Verification

BadgeKind = Literal["neutral", "good", "warning", "bad"]
_VOID_ELEMENTS: Final = frozenset({"br", "hr", "img", "input", "meta"})
_LONGEST_JSON: Final = 200_000


class Html(str):
    """Text that is HTML already; everything else is escaped before it is shown."""

    __slots__ = ()


Content = str | int | float | bool | None
"""Content to show: `Html` unchanged, other text escaped, numbers and yes/no as words, None as nothing."""


def to_html(content: Content) -> Html:
    """Turns content into safe HTML: text is escaped, hidden characters become marked, visible escapes."""
    match content:
        case Html():
            return content
        case None:
            return Html()
        case bool():
            return Html("yes" if content else "no")
        case str():
            return _escaped(without_surrogates(content))
        case _:
            return Html(html.escape(str(content)))


def element(tag: str, /, *content: Content, **attributes: Content) -> Html:
    """An element with its content, see `to_html`.

    In the names of attributes a trailing underscore is dropped (``class_``), other underscores become
    hyphens; True stands for an attribute without value, False and None omit it.
    """
    parts = [tag]
    for key, value in attributes.items():
        if value is None or value is False:
            continue
        # `class_` and `http_equiv`, as Python cannot name them otherwise.
        name = key.rstrip("_").replace("_", "-")
        parts.append(name if value is True else f'{name}="{html.escape(without_surrogates(str(value)))}"')
    opening = f"<{' '.join(parts)}>"
    return Html(opening if tag in _VOID_ELEMENTS else f"{opening}{join(content)}</{tag}>")


def join(parts: Iterable[Content], separator: Content = "") -> Html:
    return Html(to_html(separator).join(to_html(part) for part in parts))


def page(title: str, *body: Content, scripts: Sequence[str] = (), is_served: bool = False) -> str:
    """A self-contained page with light and dark colours; `scripts` are files beside this.

    It has no network, unless it `is_served`: then it may ask its own server.
    """
    code = "\n".join(map(file_text, scripts))
    digest = base64.b64encode(hashlib.sha256(code.encode()).digest()).decode()
    # The page shows texts of strangers: if the escaping ever failed,
    # no script of theirs would run and nothing be fetched.
    policy = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
    policy += f"; script-src 'sha256-{digest}'" if code else ""
    policy += "; connect-src 'self'" if is_served else ""
    head = join(
        (
            element("meta", charset="utf-8"),
            element("meta", http_equiv="Content-Security-Policy", content=policy),
            element("meta", name="viewport", content="width=device-width, initial-scale=1"),
            element("title", visible(title)),
            Html(f"<style>{file_text('page.css')}</style>"),
        )
    )
    body_text = join((*body, Html(f"<script>{code}</script>") if code else None))
    return f'<!DOCTYPE html>\n<html lang="en"><head>{head}</head>\n<body>{body_text}</body></html>\n'


@cache
def file_text(name: str) -> str:
    """A stylesheet or script beside this file."""
    return Path(__file__).with_name(name).read_text(encoding="utf-8")


def heading(level: Literal[1, 2, 3], *content: Content) -> Html:
    """A heading: of the page (1), of a part (2) or within a part (3)."""
    return element(f"h{level}", *content)


def paragraph(*content: Content, soft: bool = False) -> Html:
    """A paragraph that keeps its line breaks; `soft` for less important text."""
    return element("p", *content, class_="text soft" if soft else "text")


def table(headers: Sequence[Content], rows: Iterable[Sequence[Content]]) -> Html:
    """A table, which scrolls sideways if it is too wide."""
    head = element("tr", *(element("th", header, scope="col") for header in headers))
    body = join(element("tr", *(element("td", cell) for cell in row)) for row in rows)
    return element("div", element("table", element("thead", head), element("tbody", body)), class_="scroll")


def json_block(value: Any) -> Html:
    """JSON, a value or its text, indented for reading; very long text is cut."""
    text = value if isinstance(value, str) else ""
    with contextlib.suppress(ValueError, RecursionError):
        parsed = json.loads(text) if isinstance(value, str) and len(text) <= _LONGEST_JSON else value
        text = parsed if isinstance(parsed, str) else json.dumps(parsed, ensure_ascii=False, indent=2)
    return element("pre", beginning(text, _LONGEST_JSON) or "(nested too deeply to be shown)")


def badge(text: str, kind: BadgeKind = "neutral", *, title: str | None = None) -> Html:
    """A small label of one or two words; `title` is its tooltip."""
    return element("span", text, class_=f"badge {kind}", title=title)


def meaning_of(status: CallStatus) -> BadgeKind:
    """The meaning of a status: good, bad, or intended although there is no result."""
    from ...audit.record import CallStatus  # here, as a page without calls needs no records

    match status:
        case CallStatus.OK:
            return "good"
        case CallStatus.DENIED | CallStatus.CANCELED:
            return "warning"
        case CallStatus.TOOL_ERROR | CallStatus.INVALID_ARGUMENTS | CallStatus.NOT_FOUND:
            return "bad"
        case CallStatus.FAILED | CallStatus.UNKNOWN:
            return "bad"
        case _:
            assert_never(status)


def note(*content: Content, kind: BadgeKind = "neutral") -> Html:
    return element("div", *content, class_=f"note {kind}")


def verdict_note(verification: Verification) -> Html:
    """What was found out about the records that a page is about."""
    from ...audit.verdicts import Verdict  # here, as in `meaning_of`

    kinds: dict[Verdict, BadgeKind] = {
        Verdict.INTACT: "good",
        Verdict.ALTERED: "bad",
        Verdict.NO_JOURNAL: "bad",
    }
    verdict = verification.verdict
    texts = [finding.text for finding in verification.findings]
    return note(
        "\n".join((f"Records: {verification.in_words}", *texts, *verification.notes)),
        kind=kinds.get(verdict, "warning"),
    )


def details(summary: Content, *body: Content, opened: bool = False) -> Html:
    return element("details", element("summary", summary), *body, open=opened)


def properties(pairs: Iterable[tuple[str, Content]]) -> Html:
    """Names and values below each other; pairs whose value is None or empty are left out."""
    shown = ((name, value) for name, value in pairs if value is not None and value != "")
    return element("dl", *(join((element("dt", name), element("dd", value))) for name, value in shown))


def data_url(data: bytes, mime_type: str) -> str | None:
    """An image as the source of an `img`; None if browsers do not show that type."""
    # Also SVG, which as the source of an `img` runs no scripts:
    # https://www.w3.org/TR/SVG2/conform.html#secure-static-mode
    if not re.fullmatch(r"image/(?:png|jpeg|gif|webp|bmp|svg\+xml)", mime_type):
        return None
    return f"data:{mime_type};base64,{base64.b64encode(data).decode()}"


def _escaped(text: str) -> Html:
    parts: list[str] = []
    done = 0
    for position, character in hidden_characters(text):
        parts.append(html.escape(text[done:position]))
        name = html.escape(name_of(character))
        parts.append(f'<span class="hidden-character" title="{name}">{escape(character)}</span>')
        done = position + 1
    return Html("".join((*parts, html.escape(text[done:]))))
