"""JSONata's number functions whose results in the library differ from JavaScript's; see `own_functions`."""

from __future__ import annotations

import math
import re
from functools import reduce
from operator import add
from typing import Any, Final

from .engine import DateTimes, Functions, JException, Utils
from .number_pictures import format_number

_NUMBER: Final = re.compile(r"-?[0-9]+(?:\.[0-9]+)?(?:[Ee][-+]?[0-9]+)?")
_RADIX: Final = re.compile(r"0(?:[xX][0-9A-Fa-f]+|[oO][0-7]+|[bB][01]+)")
_LEADING_INTEGER: Final = re.compile(r"\s*[-+]?[0-9]+")
_MOST_PLACES: Final = 400


class OwnNumbers:
    """The functions, under the method names by which the library finds them."""

    @staticmethod
    def number(value: Any) -> Any:
        """``$number``."""
        if value is None or (isinstance(value, int | float) and not isinstance(value, bool)):
            return value
        if isinstance(value, bool):
            return int(value)
        if isinstance(value, str):
            if _RADIX.fullmatch(value):
                return int(value, 0)
            if _NUMBER.fullmatch(value) and math.isfinite(float(value)):
                return Utils.convert_number(float(value))
            raise JException("D3030", -1, value)
        raise JException("T0410", -1)

    @staticmethod
    def sum(values: Any) -> Any:
        """``$sum``: adds one by one, as JavaScript does; Python's ``sum`` is more exact since 3.12."""
        return None if values is None else reduce(add, values, 0)

    @staticmethod
    def average(values: Any) -> Any:
        """``$average``."""
        return OwnNumbers.sum(values) / len(values) if values else None

    @staticmethod
    def power(base: Any, exponent: Any) -> Any:
        """``$power``."""
        try:
            return None if base is None else math.pow(base, exponent)
        except (OverflowError, ValueError, TypeError):
            raise JException("D3061", -1, base, exponent) from None

    @staticmethod
    def round(value: Any, places: Any) -> Any:
        """``$round``: NaN if the number of places is not a whole number."""
        if value is None or places is None:
            return Functions.round(value, places)
        if places != int(places) or abs(places) > _MOST_PLACES:
            return math.nan
        return Functions.round(value, int(places))

    @staticmethod
    def format_integer(value: Any, picture: Any) -> Any:
        """``$formatInteger``: rounds down."""
        return None if value is None else Functions.format_integer(math.floor(value), picture)

    @staticmethod
    def parse_integer(text: Any, picture: Any) -> Any:
        """``$parseInteger``: with a decimal picture, a text that does not fit gives its leading digits."""
        try:
            return Functions.parse_integer(text, picture)
        except RuntimeError:
            raise JException("D3130", -1, picture) from None
        except (LookupError, ValueError):
            is_decimal = DateTimes._analyse_integer_picture(picture).primary is DateTimes.Formats.DECIMAL
            match = _LEADING_INTEGER.match(text) if is_decimal else None
            return int(match[0]) if match else math.nan

    @staticmethod
    def format_number(value: Any, picture: Any, options: Any) -> Any:
        """``$formatNumber``."""
        return None if value is None else format_number(value, picture, options)
