"""``$formatNumber``: writes numbers by a picture, with the rounding and the errors of npm's ``jsonata`` 2.2.

The syntax of pictures: https://www.w3.org/TR/xpath-functions-31/#formatting-numbers.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from decimal import ROUND_HALF_EVEN, Context, Decimal
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any, Final

from .engine import JException

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

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
    """Writes a number.

    Args:
        value: The number.
        picture: The format; the part after the pattern separator, if any, is for negative numbers.
        options: Signs that replace the usual ones, by XPath's names for them.

    Raises:
        JException: The picture is invalid, or the number is infinite or NaN.
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
