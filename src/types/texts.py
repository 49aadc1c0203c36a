"""Texts: JSON that is equal where values are equal, Unicode that can be stored, and what people may be shown.

Values that are compared, hashed, chained or written into a JSON column are written by `canonical_json`. Lone
surrogates are replaced: Arrow stores UTF-8, and one lone surrogate in one cell makes KNIME lose the whole
table.

A tool's description is text by a stranger. Zero-width characters, direction overrides, tag characters and
similar ones can make it say one thing to a person and another to a model. All code that shows or checks such
text uses `visible` and its neighbours. Ordinary uses are not reported: joiners inside emoji and in scripts
that need them, direction marks in right-to-left text, the tags of a flag.
"""

from __future__ import annotations

import gc
import hashlib
import json
import re
import threading
import unicodedata
from contextlib import contextmanager
from datetime import timedelta
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, cast
from urllib.parse import urlsplit, urlunsplit

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence

# Made once: `json.dumps` makes an encoder per call, which takes as long as writing a small value.
_COMPACT: Final = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"))
_CANONICAL: Final = json.JSONEncoder(
    sort_keys=True, ensure_ascii=False, allow_nan=False, separators=(",", ":")
)


def canonical_json(value: Any) -> str:
    """Writes a JSON value as canonical text.

    Keys are sorted by code point, there is no insignificant space, non-ASCII characters are not escaped, and
    lone surrogates become U+FFFD. Numbers are written as Python writes them, thus ``1`` and ``1.0`` differ.
    Raises `ValueError` for NaN, an infinity, and a value that contains itself.
    """
    return without_surrogates(_CANONICAL.encode(value))


def compact_json(value: Any) -> str:
    """Writes a JSON value without insignificant space; keys keep their order.

    Used for schemas: people and models read properties in the order in which the server lists them.
    """
    return without_surrogates(_COMPACT.encode(value))


def without_surrogates(text: str) -> str:
    """Makes text encodable as UTF-8: lone surrogates become U+FFFD, a pair of them becomes its character."""
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        # Through UTF-16, where two halves that belong together become one character again.
        # Not by UTF-16's codec, whose errors are slow: a text may have millions of lone surrogates.
        joined = _PAIR.sub(
            lambda pair: pair[0].encode("utf-16-le", "surrogatepass").decode("utf-16-le"), text
        )
        return _SURROGATE.sub("\ufffd", joined)
    return text


_SURROGATE: Final = re.compile("[\ud800-\udfff]")
_PAIR: Final = re.compile("[\ud800-\udbff][\udc00-\udfff]")


def parse_json(text: str) -> Any:
    """Parses JSON text. Raises `ValueError` with the reason, and where, also for a text nested too deeply."""
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise ValueError(f"it is not JSON, {error.msg} at character {error.pos + 1}") from None
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    except ValueError:  # Python reads no integer of more than 4,300 digits
        raise ValueError("it holds a number with too many digits") from None


@lru_cache(maxsize=1024)
def parse_object(text: str) -> dict[str, Any]:
    """Parses the JSON text of an object, "" for no entries, once per distinct text; see `parse_json`.

    All callers with the same text share the object: do not change it.
    """
    value: Any = parse_json(text) if text else {}  # KNIME writes "" for a workflow without parameters
    if not isinstance(value, dict):
        raise ValueError("it is JSON, but not an object")
    return cast("dict[str, Any]", value)


def json_integer(digits: str) -> int | float:
    """Reads an integer of JSON, for ``parse_int``: -0 keeps its sign, which Python's integers do not have."""
    return -0.0 if digits == "-0" else int(digits)


class NameTwice(ValueError):  # noqa: N818
    """An object of JSON names a member twice; the text is the end of a sentence."""


def named_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Makes an object of JSON, for ``object_pairs_hook``; people read one, programs another."""
    members = dict(pairs)
    if len(members) != len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise NameTwice(f"an object names '{twice[:80]}' twice")
    return members


def why_no_json(error: ValueError | RecursionError) -> str:
    """The reason why `json` cannot read a text, for the end of a sentence."""
    match error:
        case RecursionError():
            return "it is nested too deeply"
        case NameTwice():
            return str(error)
        case json.JSONDecodeError():
            return f"{error.msg} in line {error.lineno}, column {error.colno}"
        case _:  # integers with too many digits
            return "it holds a number with thousands of digits"


# Python's garbage collector checks all young values after some hundred new ones, and all values whenever
# the old ones have grown by a quarter. While a large JSON text is read, it finds no garbage, but takes more
# than half of the time. Reference counting goes on; only cycles are freed later.
_pause = threading.Lock()


@contextmanager
def collector_paused() -> Generator[None]:
    """Pauses the collector of the whole process for the block, which must be short and not wait for anything.

    A pause is never longer than one block: where another block has paused the collector already, around this
    one or in another thread, nothing is done here, and the collector is on again when that block ends. A
    collector that is off stays off.
    """
    if not gc.isenabled() or not _pause.acquire(blocking=False):
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
        _pause.release()


def definition_digest(
    *,
    name: str,
    title: str | None,
    description: str | None,
    input_schema: Mapping[str, Any],
    output_schema: Mapping[str, Any] | None,
    annotations: Mapping[str, Any] | None,
) -> str:
    """The digest of a tool's definition as a server gives it in ``tools/list``; it pins the tool.

    A person reads a tool's description and schema once and trusts the tool from then on. The digest covers
    all parts of the definition that a server may change later, so that a call can check that they are still
    the same. The order of keys does not count; an absent part (None) differs from an empty part. It is
    ``sha256:`` and 64 hexadecimal digits: SHA-256 over canonical JSON.
    """
    definition = {
        "annotations": None if annotations is None else dict(annotations),
        "description": description,
        "inputSchema": dict(input_schema),
        "name": name,
        "outputSchema": None if output_schema is None else dict(output_schema),
        "title": title,
    }
    return "sha256:" + hashlib.sha256(canonical_json(definition).encode()).hexdigest()


def pointer_step(name: str | int) -> str:
    """A name or index as one step of a JSON pointer (RFC 6901), with the slash before it."""
    return "/" + str(name).replace("~", "~0").replace("/", "~1")


def pointer_text(path: Iterable[str | int]) -> str:
    return "".join(map(pointer_step, path))


_LONGEST_NUMBER: Final = 9  # digits of an index in a pointer


def at_pointer(value: Any, pointer: str) -> Any:
    """The value at a pointer; None if there is no such place."""
    for step in pointer.split("/")[1:]:
        key = step.replace("~1", "/").replace("~0", "~")
        if isinstance(value, dict):
            value = cast("dict[str, Any]", value).get(key)
            continue
        items = cast("list[Any]", value) if isinstance(value, list) else []
        is_number = key.isascii() and key.isdigit() and len(key) <= _LONGEST_NUMBER
        value = items[int(key)] if is_number and int(key) < len(items) else None
    return value


CUT: Final = "…"
"""The end of a text that was cut off."""

FOREIGN: Final = ("\ufdd0", "\ufdd1")
"""Characters around a text of others in a sentence of ours, see `foreign`. No text has them: Unicode leaves
them to programs (https://www.unicode.org/faq/private_use.html#noncharacters)."""

_JOINERS: Final = "\u200c\u200d"
_DIRECTION_MARKS: Final = "\u200e\u200f\u061c"
_CONTROLS: Final = [chr(code) for code in (*range(9), 11, 12, *range(14, 32), 127)]
_NEVER_SEEN: Final = (
    "\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f"  # controls, except tab, line feed, carriage return
    "\u00ad\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b\u202a-\u202e\u2060-\u206f\u3164\ufeff\uffa0"
    "\ufff0-\ufffb\ufffe\uffff"  # not the visible object replacement and replacement character
    "\ue000-\uf8ff"  # private use
    "\U0001d173-\U0001d17a\U000e0000-\U000e001f\U000e0080-\U000e00ff\U000e01f0-\U000e0fff"
    "\U000f0000-\U0010ffff"
)
_SELECTORS: Final = "\ufe00-\ufe0f\U000e0100-\U000e01ef"
_TAGS: Final = "\U000e0020-\U000e007f"
# A flag is \U0001f3f4, one to six tags, and a tag that ends it: the places of its tags, each behind that tag.
_IN_FLAG: Final = "|".join(
    f"(?<=\U0001f3f4[\U000e0020-\U000e007e]{{{tags}}})[\U000e0020-\U000e007e]{{0,{6 - tags}}}\U000e007f"
    f"|(?<=\U0001f3f4[\U000e0020-\U000e007e]{{{tags}}}\U000e007f)"
    for tags in range(1, 7)
)


def hidden_characters(text: str) -> Iterator[tuple[int, str]]:
    """Position and character of each hidden character that has no ordinary use there."""
    if hidden := _hidden_in(text):
        for run in hidden.finditer(text):
            yield from enumerate(run[0], run.start())


def visible(text: str) -> str:
    r"""The text for people to see, with every hidden character as an escape such as ``\u{200b}``."""
    hidden = _hidden_in(text)
    return hidden.sub(lambda run: "".join(map(escape, run[0])), text) if hidden else text


def only_visible(text: str) -> str:
    """The text of a stranger as a model may read it: without hidden characters, which people cannot see."""
    hidden = _hidden_in(text)
    return hidden.sub("", text) if hidden else text


def _hidden_in(text: str) -> re.Pattern[str] | None:
    """What finds the hidden characters of this text, in runs; None if it has none."""
    # Thirty searches for single characters take a tenth of the time of one regular expression for all.
    if text.isascii() and not any(map(text.__contains__, _CONTROLS)):
        return None
    marks = any(map(text.__contains__, _DIRECTION_MARKS)) and not _right_to_left(text)
    return _hidden_runs(marks=marks, joiners=any(map(text.__contains__, _JOINERS)))


@lru_cache
def _hidden_runs(*, marks: bool, joiners: bool) -> re.Pattern[str]:
    # A text may have millions of hidden characters, so the exceptions are in the pattern. A character of all
    # classes is looked for first, which is fast; then what stands around it decides.
    never_seen = _NEVER_SEEN + (_DIRECTION_MARKS if marks else "")
    rules = [
        f"(?<=[{never_seen}])[{never_seen}]*",
        # One selector after a character picks its form (emoji, kanji); several in a row carry bytes.
        rf"(?<=[{_SELECTORS}])(?:[{_SELECTORS}]+|(?<!\S.))",
        f"(?<=[{_TAGS}])(?!{_IN_FLAG})[{_TAGS}]*",
    ]
    if joiners:
        joined = f"[{_joined()}]"
        rules.append(f"(?<=[{_JOINERS}])(?:[{_JOINERS}]+|(?<!{joined}.)|(?!{joined}))")
    return re.compile(
        f"[{never_seen}{_SELECTORS}{_TAGS}{_JOINERS if joiners else ''}](?:{'|'.join(rules)})", re.DOTALL
    )


def _joined() -> str:
    # Emoji sequences join symbols; in Arabic, Indic and other scripts joiners control how letters connect.
    kinds = "".join(  # beyond these are ideographs, private characters and selectors
        "+"
        if unicodedata.category(character) in {"So", "Sk", "Mn", "Mc"}
        or ("\u0590" <= character <= "\u1cff" and character.isalpha())
        else "-"
        for character in map(chr, range(0x20000))
    )
    ranges = (f"{chr(run.start())}-{chr(run.end() - 1)}" for run in re.finditer(r"\++", kinds))
    return _SELECTORS + "".join(ranges)


def without_hidden(text: str) -> str:
    """The text in Unicode's compatibility form (NFKC), without hidden characters.

    For comparisons only; displayed and sent texts are not changed.
    """
    kept = only_visible(text)
    return kept if kept.isascii() else unicodedata.normalize("NFKC", kept)


def smuggled(characters: str) -> str:
    """The text that hidden characters encode.

    Tag characters (U+E0020 to U+E007E) stand for ASCII, variation selectors for one byte each.
    """
    tags = "".join(chr(ord(c) - 0xE0000) for c in characters if 0xE0020 <= ord(c) <= 0xE007E)
    selectors = (ord(c) for c in characters if _is_selector(c))
    data = bytes(code - 0xFE00 if code < 0xE0100 else code - 0xE0100 + 16 for code in selectors)
    return tags + data.decode(errors="replace")


@lru_cache(maxsize=1024)  # one text for each: millions of equal ones take hundreds of MB
def escape(character: str) -> str:
    r"""A character as a visible escape, such as ``\u{200b}``."""
    return f"\\u{{{ord(character):04x}}}"


def name_of(character: str) -> str:
    """A character's name for people, such as ``U+200B zero width space``."""
    return f"U+{ord(character):04X} {unicodedata.name(character, 'control or private character').lower()}"


def _is_selector(character: str) -> bool:
    return "\ufe00" <= character <= "\ufe0f" or "\U000e0100" <= character <= "\U000e01ef"


def _right_to_left(text: str) -> bool:
    return any(unicodedata.bidirectional(c) in {"R", "AL"} for c in set(text) if c not in _DIRECTION_MARKS)


def in_one_line(text: str, longest: int) -> str:
    """An untrusted text as one line of printable characters, cut off if it is too long."""
    start = text[: 10 * longest]  # avoids work on megabytes of text
    line = " ".join("".join(c if c.isprintable() else " " for c in start).split())
    return line if len(line) <= longest and start == text else line[:longest] + CUT


def foreign(text: str, longest: int | None = None) -> str:
    """A text of others, to be quoted in a message of ours, so that secrets are looked for in it alone.

    The message may be that of an `MCPError`, or a step of connecting. With `longest`, in one line, see
    `in_one_line`.
    """
    begin, end = FOREIGN
    plain = ours(text) if longest is None else in_one_line(text, longest)
    return f"{begin}{plain}{end}" if plain else ""


def ours(text: str) -> str:
    """A message as it is shown, see `foreign`."""
    begin, end = FOREIGN
    return text.replace(begin, "").replace(end, "") if begin in text or end in text else text


def origin_and_path(server: str) -> str:
    """A URL or ``stdio:<name>`` without the parts that may be secret: user information, query, fragment."""
    try:
        parts = urlsplit(server)
    except ValueError:
        return "<malformed URL>"
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))


def shortened(text: str, longest: int) -> str:
    """A text, or as much of it as fits, with an ellipsis at its end."""
    if len(text) <= longest:
        return text
    return f"{text[: longest - 1].rstrip()}{CUT}" if longest else ""


def beginning(text: str, longest: int) -> str:
    """A text, or its beginning with its total length."""
    return text if len(text) <= longest else f"{text[:longest]}{CUT} ({len(text):,} characters in all)"


def numbered(names: Sequence[str], tail: str = " ({})", *, longest: int | None = None) -> tuple[str, ...]:
    """Makes names unique by numbers. The first of several equal names stays unchanged.

    ``tail`` is the format of the number behind a name, ``longest`` the most characters of both together. No
    numbered name equals another given name.
    """
    given, taken = set(names), set[str]()
    last: dict[str, int] = {}
    unique: list[str] = []
    for name in names:
        candidate, number = name, last.get(name, 1)
        while candidate in taken or (candidate != name and candidate in given):
            number += 1
            end = tail.format(number)
            candidate = name[: None if longest is None else longest - len(end)] + end
        last[name] = number
        taken.add(candidate)
        unique.append(candidate)
    return tuple(unique)


def counted(number: int, noun: str) -> str:
    """A number with its noun, whose plural ends in s: ``1 tool``, ``2,000 tools``."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


_MOST_NAMED: Final = 10


def listed(texts: Iterable[str]) -> str:
    """The first of some texts, and how many more there are."""
    named = list(texts)
    more = f" and {len(named) - _MOST_NAMED} more" if len(named) > _MOST_NAMED else ""
    return ", ".join(named[:_MOST_NAMED]) + more


def folded_name(name: str) -> str:
    """A name without what people do not see in it: case, space around it, Unicode normalization."""
    return unicodedata.normalize("NFC", name.strip().casefold())


def iso_duration(value: timedelta) -> str:
    """Writes a duration as ISO 8601, such as ``PT1M30.5S``; a negative duration has a leading minus sign."""
    micros = abs(value) // timedelta(microseconds=1)
    seconds, micros = divmod(micros, 1_000_000)
    minutes, seconds = divmod(seconds, 60)
    hours, minutes = divmod(minutes, 60)
    fraction = f".{micros:06d}".rstrip("0") if micros else ""
    parts = (f"{hours}H" if hours else "") + (f"{minutes}M" if minutes else "")
    parts += f"{seconds}{fraction}S" if seconds or micros or not parts else ""
    return ("-" if value < timedelta() else "") + "PT" + parts
