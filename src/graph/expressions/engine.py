"""The used parts of ``jsonata-python``, typed as `Any`, with some of its defects mended."""

from __future__ import annotations

from collections import defaultdict
from typing import Any, Final, cast

import jsonata  # pyright: ignore[reportMissingTypeStubs] - it has none
from jsonata import (  # pyright: ignore[reportMissingTypeStubs]
    constants,
    datetimeutils,
    functions,
    jexception,
    parser,
    signature,
    tokenizer,
    utils,
)

# The library prints values that are called although they are not functions. With stdio, that would write
# into the protocol's stream.
cast("Any", jsonata).jsonata.print = lambda *_values: None  # pyright: ignore[reportUnknownLambdaType] - any

Jsonata: Final[Any] = cast("Any", jsonata).Jsonata
Functions: Final[Any] = cast("Any", functions).Functions
Utils: Final[Any] = cast("Any", utils).Utils
JException: type[Exception] = cast("Any", jexception).JException
Parser: Final[Any] = cast("Any", parser).Parser
Tokenizer: Final[Any] = cast("Any", tokenizer).Tokenizer
DateTimes: Final[Any] = cast("Any", datetimeutils).DateTimeUtils

# The library looks up presentation modifiers with [], which fails for components that have none.
DateTimes._default_presentation_modifiers = defaultdict(
    lambda: None, cast("dict[str, Any]", DateTimes._default_presentation_modifiers)
)
_analyse: Final = DateTimes._analyse_datetime_picture


def _analysed(picture: str) -> Any:
    """Analyses a date picture; the library shortens names even without a maximum width, as in ``[MNn,3]``."""
    analysis = _analyse(picture)
    for part in analysis.parts:
        if part.names is not None and part.width is not None and part.width[1] is None:
            part.width = None
    return analysis


DateTimes._analyse_datetime_picture = staticmethod(_analysed)
_texts: Any = cast("Any", constants).Constants
for _name, _code in {
    "SEQUENCE_UNSUPPORTED": "D3130",
    "DIFF_DECIMAL_GROUP": "D3131",
    "UNKNOWN_COMPONENT_SPECIFIER": "D3132",
    "INVALID_NAME_MODIFIER": "D3133",
    "TIMEZONE_FORMAT": "D3134",
    "NO_CLOSING_BRACKET": "D3135",
    "MISSING_FORMAT": "D3136",
}.items():
    setattr(_texts, f"ERR_MSG_{_name}", f"{_code} {{}}")


def _coded(message: str) -> Exception:
    code, _, value = message.partition(" ")
    return JException(code, -1, value.replace("{}", ""))


cast("Any", datetimeutils).RuntimeError = _coded


class _Tokenizer(Tokenizer):
    """Appends a line feed: the library's tokenizer reads one character past the end of an expression."""

    def __init__(self, path: str, *more: Any) -> None:
        Tokenizer.__init__(self, f"{path}\n", *more)


cast("Any", tokenizer).Tokenizer = _Tokenizer
_codes: Final = {text: code for code, text in cast("Any", JException).error_codes.items()}
cast("Any", signature).RuntimeError = lambda said: JException(_codes[said], -1)  # pyright: ignore[reportUnknownLambdaType]
