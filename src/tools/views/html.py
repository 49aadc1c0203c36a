"""Building blocks of the pages that nodes show: escaped text in, self-contained HTML out.

All shown texts come from untrusted servers. Text therefore becomes HTML in one place only: all content that
is not `Html` is escaped, hidden characters get visible escapes, and the page's Content-Security-Policy
forbids scripts and requests, so that even a mistake here could not run or fetch anything.
"""

from __future__ import annotations

import contextlib
import html
import json
import re
from typing import TYPE_CHECKING, Any, Final, Literal, assert_never

from ...types.texts import beginning, escape, hidden_characters, name_of, visible, without_surrogates

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ...audit.record import CallStatus
    from ...audit.verdicts import Verification

BadgeKind = Literal["neutral", "good", "warning", "bad"]
_VOID_ELEMENTS: Final = frozenset({"br", "hr", "img", "input", "meta"})
_LONGEST_JSON: Final = 200_000

_STYLE: Final = """
:root { color-scheme: light dark;
  --paper: #fff; --ink: #1d1f21; --soft: #5c6370; --line: #d9dce1; --tint: #f4f5f7;
  --good: #1a6b35; --good-tint: #e2f3e7; --bad: #a11b1b; --bad-tint: #fbe6e6;
  --warning: #7a4b00; --warning-tint: #fdf0d5; --link: #0b5cad; }
@media (prefers-color-scheme: dark) { :root {
  --paper: #1b1d20; --ink: #e6e7e9; --soft: #a2a8b2; --line: #3a3f47; --tint: #25282d;
  --good: #86d79f; --good-tint: #163521; --bad: #ff9b9b; --bad-tint: #451b1b;
  --warning: #f3c46b; --warning-tint: #3d2c0c; --link: #7fb8f5; } }
* { box-sizing: border-box; }
body { margin: 0; padding: 16px 20px 40px; background: var(--paper); color: var(--ink);
  font: 14px/1.5 Roboto, "Segoe UI", system-ui, sans-serif; overflow-wrap: anywhere; }
h1 { font-size: 20px; margin: 0 0 4px; } h2 { font-size: 16px; margin: 28px 0 8px; }
h3 { font-size: 14px; margin: 16px 0 4px; } p { margin: 4px 0 8px; }
b, span, .text, .note, td, dd { unicode-bidi: plaintext; } code { unicode-bidi: isolate; }
a { color: var(--link); } .soft { color: var(--soft); } .text { white-space: pre-wrap; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; margin: 4px 0 12px; }
th, td { border-bottom: 1px solid var(--line); padding: 5px 10px 5px 0; text-align: left;
  vertical-align: top; }
th { color: var(--soft); font-weight: 500; white-space: nowrap; }
td { min-width: 6em; white-space: pre-wrap; }
code, pre { font: 12.5px/1.45 "Roboto Mono", ui-monospace, Menlo, Consolas, monospace; }
pre { background: var(--tint); border-radius: 4px; padding: 8px 10px; margin: 4px 0 12px; max-height: 30em;
  overflow: auto; white-space: pre-wrap; }
details { border: 1px solid var(--line); border-radius: 6px; margin: 6px 0; padding: 0 12px; }
details[open] { padding-bottom: 8px; } summary { cursor: pointer; padding: 7px 0; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: 2px 16px; margin: 4px 0 12px; }
dt { color: var(--soft); } dd { margin: 0; text-align: left; white-space: pre-wrap; }
img { max-width: 100%; }
.badge { display: inline-block; border-radius: 9px; padding: 0 8px; font-size: 12px; white-space: nowrap;
  background: var(--tint); color: var(--soft); }
.note { border-left: 3px solid var(--line); background: var(--tint); padding: 6px 12px; margin: 8px 0;
  white-space: pre-wrap; }
.good { background: var(--good-tint); color: var(--good); }
.bad { background: var(--bad-tint); color: var(--bad); }
.warning { background: var(--warning-tint); color: var(--warning); }
.note.good, .note.bad, .note.warning { border-color: currentColor; }
.hidden-character { background: var(--bad-tint); color: var(--bad); font: 11px ui-monospace, monospace;
  border-radius: 3px; padding: 0 2px; }
"""


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


def page(title: str, *body: Content) -> str:
    """A self-contained page with light and dark colours, without network and scripts."""
    # The page shows texts of strangers: if the escaping ever failed,
    # no script would run and nothing be fetched.
    policy = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
    head = join(
        (
            element("meta", charset="utf-8"),
            element("meta", http_equiv="Content-Security-Policy", content=policy),
            element("meta", name="viewport", content="width=device-width, initial-scale=1"),
            element("title", visible(title)),
            Html(f"<style>{_STYLE}</style>"),
        )
    )
    return f'<!DOCTYPE html>\n<html lang="en"><head>{head}</head>\n<body>{join(body)}</body></html>\n'


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


def status_badge(status: CallStatus) -> Html:
    return badge(status.value, meaning_of(status))


def note(*content: Content, kind: BadgeKind = "neutral") -> Html:
    return element("div", *content, class_=f"note {kind}")


def verdict_note(verification: Verification) -> Html:
    """What was found out about the records that a page is about."""
    from ...audit.verdicts import Verdict  # here, as in `meaning_of`

    kinds: dict[Verdict, BadgeKind] = {Verdict.INTACT: "good", Verdict.ALTERED: "bad"}
    verdict = verification.verdict
    texts = [finding.text for finding in verification.findings]
    return note(
        "\n".join((f"Records: {verdict.value}", *texts, *verification.notes)),
        kind=kinds.get(verdict, "warning"),
    )


def details(summary: Content, *body: Content, opened: bool = False) -> Html:
    return element("details", element("summary", summary), *body, open=opened)


def properties(pairs: Iterable[tuple[str, Content]]) -> Html:
    """Names and values below each other; pairs whose value is None or empty are left out."""
    shown = ((name, value) for name, value in pairs if value is not None and value != "")
    return element("dl", *(join((element("dt", name), element("dd", value))) for name, value in shown))


def data_image(data: bytes, mime_type: str, *, description: str = "") -> Html:
    """An image in the page itself, or its type and size if browsers do not show that type."""
    import base64

    # Also SVG, which as the source of an `img` runs no scripts:
    # https://www.w3.org/TR/SVG2/conform.html#secure-static-mode
    if not re.fullmatch(r"image/(?:png|jpeg|gif|webp|bmp|svg\+xml)", mime_type):
        return paragraph(f"{mime_type}, {len(data):,} bytes", soft=True)
    return element("img", src=f"data:{mime_type};base64,{base64.b64encode(data).decode()}", alt=description)


def _escaped(text: str) -> Html:
    parts: list[str] = []
    done = 0
    for position, character in hidden_characters(text):
        parts.append(html.escape(text[done:position]))
        name = html.escape(name_of(character))
        parts.append(f'<span class="hidden-character" title="{name}">{escape(character)}</span>')
        done = position + 1
    return Html("".join((*parts, html.escape(text[done:]))))
