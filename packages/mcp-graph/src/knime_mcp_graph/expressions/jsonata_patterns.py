"""Regular expressions of JSONata with a time limit: endless backtracking must not stop the whole process.

The engine is ``regex``, which checks a deadline while it matches and lets other threads run; Python's ``re``
does neither.
"""

from __future__ import annotations

import math
from contextlib import suppress
from dataclasses import dataclass, fields
from datetime import UTC, datetime, timedelta
from decimal import ROUND_HALF_EVEN, Context, Decimal
from functools import cached_property, lru_cache, partial
from typing import TYPE_CHECKING, Any, Final

import regex

from .evaluation_limits import DEFAULT_SECONDS, TooLarge, TooLong, matching, watching
from .javascript import to_string
from .jsonata_library import DateTimes, JException, Jsonata

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping


_GROUP: Final = regex.compile(r"\\g<(\d+)>")
_OTHER_BACKSLASH: Final = regex.compile(r"\\(?!g<\d+>)")
_SPACES: Final = r"\t-\r \u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000\ufeff"
_CLASSES: Final = {"d": "0-9", "w": "A-Za-z0-9_", "s": _SPACES}
_LETTERS: Final = frozenset("bBDWSfnrtvxu")
"""Letters with a meaning after a backslash; every other letter stands for itself."""

_MEANINGS: Final = {"$": r"\Z", ".": r"[^\n\r\u2028\u2029]", "{": r"\{", "[]": "(?!)", "[^]": "(?s:.)"}
_SIGN: Final = regex.compile(r"\\(?:k<\w+>|c[A-Za-z]|.)|\[\^?\]?|[\].$]|\{(?!\d+(?:,\d*)?\})", regex.DOTALL)


def _as_javascript(pattern: str, *, multiline: bool) -> str:
    r"""Translates JavaScript's pattern: ``\d`` is ASCII, ``$`` is the very end, ``\z`` is the letter z."""
    inside = False

    def put(match: Any) -> str:
        nonlocal inside
        sign: str = match[0]
        if sign[0] == "\\":
            return _escaped(sign[1:], inside=inside)
        if inside:
            inside = not sign.endswith("]")
            # `regex` knows names such as `[:alpha:]` in a class, JavaScript only the signs.
            return "\\" + sign if sign[0] == "[" else sign
        inside = sign in ("[", "[^")
        return sign if multiline and sign == "$" else _MEANINGS.get(sign, sign)

    return _SIGN.sub(put, pattern)


def _escaped(escape: str, *, inside: bool) -> str:
    if escape[0] == "k" and len(escape) > 1:
        return f"(?P={escape[2:-1]})"
    if escape[0] == "c" and len(escape) > 1:
        return f"\\x{ord(escape[1]) % 32:02x}"
    chosen = _CLASSES.get(escape.lower())
    if chosen is not None and escape.islower():
        return chosen if inside else f"[{chosen}]"
    if chosen is not None and not inside:
        return f"[^{chosen}]"
    is_letter = escape.isascii() and escape.isalpha() and escape not in _LETTERS
    return escape if is_letter else "\\" + escape


_LONGEST_SEARCHED: Final = 2_000_000


class BoundedPattern(Jsonata.JLambda):
    """A compiled pattern, as `jsonata` expects it; called with a text, it returns the first match."""

    def __init__(self, pattern: str, flags: int) -> None:
        Jsonata.JLambda.__init__(self, self._first)
        self._pattern: Any = regex.compile(
            _as_javascript(pattern, multiline=bool(flags & regex.MULTILINE)), flags | regex.VERSION0
        )

    def _first(self, value: Any = None, *_others: Any) -> dict[str, Any] | None:
        is_text = isinstance(value, str | int | float)  # numbers become texts, as JavaScript writes them
        return _described(self.finditer(to_string(value))) if is_text else None

    def search(self, text: str) -> Any:
        return self._within(self._pattern.search, text)

    def finditer(self, text: str) -> Iterator[Any]:
        """All matches. An empty one before the end of the text is an error, as it would repeat for ever."""
        matches = self._within(self._pattern.finditer, text)
        match = self._next(matches)
        watch, count = watching(), 0
        while match is not None:
            count += 1
            watch.entries(count, new=1)
            following = self._next(matches) if match.end() < len(text) else None
            if match.end() < len(text) and (not match[0] or (following is not None and not following[0])):
                raise JException("D1004", -1)
            yield match
            match = following

    @staticmethod
    def _next(matches: Iterator[Any]) -> Any:
        try:
            return next(matches, None)
        except TimeoutError:
            raise TooLong from None

    def split(self, text: str, maxsplit: int = 0) -> list[str]:
        parts: list[str] = []
        start = 0
        for number, match in enumerate(self.finditer(text), 1):
            parts.append(text[start : match.start()])
            start = match.end()
            if number == maxsplit:
                break
        return [*parts, text[start:]]

    def sub(self, replacement: Any, text: str, count: int = 0) -> str:
        call: Any = replacement
        if isinstance(replacement, str):
            call = partial(_expanded, self._template(replacement))
        parts: list[str] = []
        start = size = 0
        watch = watching()
        for number, match in enumerate(self.finditer(text), 1):
            parts += [text[start : match.start()], call(match)]
            new = len(parts[-1]) + len(parts[-2])
            size += new
            watch.text(size, len(text), new=new)
            start = match.end()
            if number == count:
                break
        return "".join([*parts, text[start:]])

    def _template(self, replacement: str) -> str:
        r"""The template for ``expand``, from the replacement that `jsonata` prepared.

        `jsonata` writes ``\\g<2>`` for ``$2``, and shortens the number on a ValueError, which says that the
        pattern has no such group. Every other backslash stands for itself.
        """
        for group in _GROUP.finditer(replacement):
            if int(group[1]) > self._pattern.groups:
                raise ValueError(f"invalid group reference {group[1]} at position {group.start()}")
        return _OTHER_BACKSLASH.sub(r"\\\\", replacement)

    def _within(self, method: Callable[..., Any], *args: Any) -> Any:
        if len(args[0]) > _LONGEST_SEARCHED:  # the engine keeps a hundred bytes for each character
            raise TooLarge(f"a regular expression looks through at most {_LONGEST_SEARCHED:,} characters")
        watch = matching.watch
        try:
            return method(*args, timeout=watch.left if watch is not None else DEFAULT_SECONDS)
        except TimeoutError:
            raise TooLong from None


def _described(matches: Iterator[Any]) -> dict[str, Any] | None:
    """The next match, as the object that expressions see."""
    match = next(matches, None)
    if match is None:
        return None
    return {
        "match": match[0],
        "start": match.start(),
        "end": match.end(),
        "groups": list(match.groups("")),
        "next": Jsonata.JLambda(partial(_described, matches)),
    }


def _expanded(template: str, match: Any) -> str:
    return match.expand(template)


def bounded_engine(pattern: str, flags: Any) -> BoundedPattern:
    chosen = regex.IGNORECASE if flags.case_insensitive else 0
    return BoundedPattern(pattern, chosen | (regex.MULTILINE if flags.multiline else 0))


_MOST_DIGITS: Final = 400


@dataclass(frozen=True, kw_only=True)
class _Signs:
    """The special characters of a picture; the function's third argument may change them."""

    decimal_separator: str = "."
    grouping_separator: str = ","
    exponent_separator: str = "e"
    minus_sign: str = "-"
    percent: str = "%"
    per_mille: str = "\u2030"
    zero_digit: str = "0"
    digit: str = "#"
    pattern_separator: str = ";"

    @cached_property
    def digits(self) -> str:
        """The ten digits; in a picture, each of them stands for a digit that is always written."""
        return "".join(chr(ord(self.zero_digit[0]) + number) for number in range(10))

    @cached_property
    def active(self) -> frozenset[str]:
        """The characters of the number itself; everything before and after them is prefix and suffix."""
        others = (self.decimal_separator, self.grouping_separator, self.digit, self.pattern_separator)
        return frozenset((*self.digits, *others))

    def count(self, part: str, *, optional: bool = False) -> int:
        """The number of digits in a part of a picture."""
        return sum(char in self.digits or (optional and char == self.digit) for char in part)


_USUAL: Final = _Signs()
_NAMES: Final = {field.name.replace("_", "-"): field.name for field in fields(_Signs)}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Picture:
    """The parts of a picture; `exponent` is None if the picture has no exponent."""

    text: str
    prefix: str
    whole: str
    fraction: str
    exponent: str | None
    suffix: str


def format_number(value: float, picture: str, options: Mapping[str, Any] | None) -> str:
    """Writes a number; infinity and NaN are errors, as are mistakes in the picture.

    The part of the picture after the pattern separator, if any, is for negative numbers. `options` are signs
    that replace the usual ones, by XPath's names for them.
    """
    if not math.isfinite(value):
        raise JException("D1001", -1, value)
    signs = (
        _Signs(**{_NAMES[key]: sign for key, sign in options.items() if key in _NAMES}) if options else _USUAL
    )
    pictures = _pictures(picture, signs)
    chosen = pictures[-1 if value < 0 else 0]
    sign = signs.minus_sign if value < 0 and len(pictures) == 1 else ""
    return f"{sign}{chosen.prefix}{_number(abs(value), chosen, signs)}{chosen.suffix}"


@lru_cache(maxsize=256)
def _pictures(text: str, signs: _Signs) -> tuple[_Picture, ...]:
    texts = text.split(signs.pattern_separator)
    if len(texts) > 2:
        raise JException("D3080", -1)
    pictures = tuple(_taken_apart(each, signs) for each in texts)
    for picture in pictures:
        wrong = list(_mistakes(picture, signs))
        if wrong:
            raise JException(wrong[-1], -1)
    return pictures


def _taken_apart(text: str, signs: _Signs) -> _Picture:
    places = [index for index, char in enumerate(text) if char in signs.active]
    begin, end = (places[0], places[-1] + 1) if places else (0, len(text))
    exponent_at = text.find(signs.exponent_separator, begin)
    has_exponent = 0 <= exponent_at <= end
    mantissa = text[begin : exponent_at if has_exponent else end]
    whole, _, fraction = mantissa.partition(signs.decimal_separator)
    exponent = text[exponent_at + 1 : end] if has_exponent else None
    return _Picture(
        text=text, prefix=text[:begin], whole=whole, fraction=fraction, exponent=exponent, suffix=text[end:]
    )


def _mistakes(picture: _Picture, signs: _Signs) -> Iterator[str]:
    """Codes of the mistakes in a picture; the caller reports the last one."""
    text, whole, fraction = picture.text, picture.whole, picture.fraction
    once = (signs.decimal_separator, signs.percent, signs.per_mille)
    for sign, code in zip(once, ("D3081", "D3082", "D3083"), strict=True):
        if text.count(sign) > 1:
            yield code
    if signs.percent in text and signs.per_mille in text:
        yield "D3084"
    if not signs.count(whole + fraction, optional=True):
        yield "D3085"
    inside = text[len(picture.prefix) : len(text) - len(picture.suffix)]
    if any(char not in signs.active and char != signs.exponent_separator for char in inside):
        yield "D3086"
    before, point, after = text.partition(signs.decimal_separator)
    group = signs.grouping_separator
    if point and (before.endswith(group) or after.startswith(group)):
        yield "D3087"
    if not point and whole.endswith(group):
        yield "D3088"
    if group * 2 in text:
        yield "D3089"
    if signs.digit in whole and signs.count(whole.partition(signs.digit)[0]):
        yield "D3090"
    if signs.digit in fraction and signs.count(fraction.rpartition(signs.digit)[2]):
        yield "D3091"
    exponent = picture.exponent
    if exponent and (signs.percent in text or signs.per_mille in text):
        yield "D3092"
    if exponent is not None and (not exponent or signs.count(exponent) < len(exponent)):
        yield "D3093"


def _number(number: float, picture: _Picture, signs: _Signs) -> str:
    """A number that is not negative, with separators and exponent."""
    fewest_whole = signs.count(picture.whole)
    fewest_places = signs.count(picture.fraction)
    most_places = signs.count(picture.fraction, optional=True)
    exponent = None
    if signs.percent in picture.text:
        number *= 100
    elif signs.per_mille in picture.text:
        number *= 1000
    elif picture.exponent:
        number, exponent = _scaled(number, fewest_whole)
    if fewest_whole == 0 and most_places == 0:
        if picture.exponent is None:
            fewest_whole = 1
        else:
            fewest_places = most_places = 1
    if picture.exponent is not None and fewest_whole == 0 and signs.digit in picture.whole:
        fewest_whole = 1
    if fewest_whole == 0 and fewest_places == 0:
        fewest_places = 1
    whole, _, places = _rounded(number, most_places).partition(".")
    whole = whole.lstrip("0").rjust(fewest_whole, "0")
    places = places.rstrip("0").ljust(fewest_places, "0")
    text = _grouped(whole, picture.whole, signs)
    if places and signs.decimal_separator in picture.text:
        text += signs.decimal_separator + _grouped_places(places, picture.fraction, signs)
    if exponent is not None:
        minus = signs.minus_sign if exponent < 0 else ""
        size = len(picture.exponent or "")
        text += f"{signs.exponent_separator}{minus}{abs(exponent):0{size}}"
    return text.translate(str.maketrans("0123456789", signs.digits)) if signs.zero_digit != "0" else text


def _scaled(number: float, digits: int) -> tuple[float, int]:
    """Mantissa and exponent; the mantissa has `digits` digits before its point."""
    least, most = 10.0 ** (digits - 1), 10.0**digits
    exponent = 0
    while number and number < least:
        number, exponent = number * 10, exponent - 1
    while number > most:
        number, exponent = number / 10, exponent + 1
    return number, exponent


def _rounded(number: float, places: int) -> str:
    """The number's shortest decimal text, rounded; halves go to the even neighbour."""
    # The default context rounds to 28 digits.
    exact = Context(prec=_MOST_DIGITS + places)
    return f"{Decimal(repr(number)).quantize(Decimal(1).scaleb(-places), ROUND_HALF_EVEN, exact):f}"


def _grouped(whole: str, picture: str, signs: _Signs) -> str:
    """The whole part with separators; if they are evenly spaced in the picture, they repeat to the left."""
    parts = picture.split(signs.grouping_separator)
    sizes = [signs.count(part, optional=True) for part in parts[1:]]
    from_right = [sum(sizes[index:]) for index in range(len(sizes))]
    step = math.gcd(*from_right)
    if step and from_right == [*range(step * len(sizes), 0, -step)]:
        from_right = range(step, len(whole), step)
    return _separated(whole, [len(whole) - size for size in from_right], signs)


def _grouped_places(places: str, picture: str, signs: _Signs) -> str:
    parts = picture.split(signs.grouping_separator)
    sizes = [signs.count(part, optional=True) for part in parts[:-1]]
    return _separated(places, [sum(sizes[: index + 1]) for index in range(len(sizes))], signs)


def _separated(digits: str, places: Collection[int], signs: _Signs) -> str:
    """Digits with a separator before each of these places, except before the first digit."""
    group = signs.grouping_separator
    return "".join(group + digit if at and at in places else digit for at, digit in enumerate(digits))


_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MINUTE: Final = 60_000


def millis_of(text: str, picture: str) -> int | None:
    """Reads a date and time, as milliseconds since 1970; None if the text does not match the picture.

    The format of pictures: https://docs.jsonata.org/date-time-functions#tomillis. Parts that do not determine
    a date and time are an error.
    """
    parts = _read(text, picture)
    if parts is None:
        return None
    given = {part for part, value in parts.items() if value}  # parts that are 0 do not count, as in 2.2
    dates, times = given & set("YXMxWwdD"), given & set("PHhmsf")
    if dates and (dates <= set("Xxw") or dates <= set("XW")):
        raise JException("D3136", -1)
    by_day_of_year = "d" in dates and dates <= set("Yd")
    by_half_day = bool(times & set("Ph")) and times <= set("Phmsf")
    _complete(parts, ("YD" if by_day_of_year else "YMD") + ("Phmsf" if by_half_day else "Hmsf"))
    if by_day_of_year:
        parts["M"], parts["D"] = 1, parts["d"]
    if by_half_day:
        parts["H"] = (0 if parts["h"] == 12 else parts["h"]) + (12 if parts["P"] == 1 else 0)
    return _moment(parts) - (parts.get("Z") or parts.get("z") or 0) * _MINUTE


def _read(text: str, picture: str) -> dict[str, Any] | None:
    """The text's value for each part of the picture; None if the text does not match."""
    specification = DateTimes._analyse_datetime_picture(picture)
    matchers = DateTimes._generate_regex(specification).parts
    parts = [*specification.parts, None]
    patterns = [_pattern(parts[index], parts[index + 1], matcher) for index, matcher in enumerate(matchers)]
    whole = "".join(f"({pattern})" for pattern in patterns)
    match = BoundedPattern(f"^{whole}$", regex.IGNORECASE).search(text)
    if match is None or all(matcher.component is None for matcher in matchers):
        return None
    values: dict[str, Any] = {}
    for matcher, part_text in zip(matchers, match.groups(), strict=True):
        if matcher.component == "f":
            values["f"] = int(float(f"0.{part_text[:3]}") * 1000)
        elif matcher.component is not None:
            with suppress(KeyError, ValueError):  # an unknown name counts as missing
                values[matcher.component] = matcher.parse(part_text)
    return values


def _pattern(part: Any, following: Any, matcher: Any) -> str:
    if part.type == "literal":
        return regex.escape(part.value)
    digits = part.integerFormat
    if digits is None or part.component in "Zz" or digits.primary is not DateTimes.Formats.DECIMAL:
        return matcher.regex
    # Where numbers follow each other directly, the picture's number of digits separates them.
    adjacent = (
        following is not None and following.integerFormat is not None and following.component not in "Zz"
    )
    width = digits.mandatoryDigits if adjacent and part.component != "f" else 0
    return f"[0-9]{{{width}}}" if width else "[0-9]+(?:th|st|nd|rd)" if digits.ordinal else "[0-9]+"


def _complete(values: dict[str, Any], order: str) -> None:
    """Fills in missing parts: from the current time before the first given part, the lowest after it."""
    now = _EPOCH + timedelta(milliseconds=Jsonata.CURRENT.jsonata.timestamp)
    current = {"Y": now.year, "M": now.month, "D": now.day, "H": now.hour, "h": now.hour, "m": now.minute}
    current |= {"s": now.second, "f": now.microsecond // 1000}
    begun = ended = False
    for part in order:
        if part in values:
            begun = True
            if ended:
                raise JException("D3136", -1)
        elif begun:
            values[part] = 1 if part in "MDd" else 0
            ended = True
        else:
            values[part] = current.get(part, 0)


def _moment(values: dict[str, Any]) -> int:
    """Milliseconds since 1970; a part that is too large carries over into the next one, as in JavaScript."""
    year, month = values["Y"], max(values["M"] - 1, 0)
    # Like JavaScript's `Date.UTC`, by which the reference makes the moment.
    year += 1900 if 0 <= year <= 99 else 0
    first = datetime(year + month // 12, month % 12 + 1, 1, tzinfo=UTC)
    span = timedelta(
        days=values["D"] - 1,
        hours=values["H"],
        minutes=values["m"],
        seconds=values["s"],
        milliseconds=values["f"],
    )
    return (first + span - _EPOCH) // timedelta(milliseconds=1)
