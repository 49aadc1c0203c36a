"""The names of ``jsonata-python`` that are used; its own types say less than they should."""

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
    utils,
)

# It prints what is called although it is no function: values, into what may be the protocol's own stream.
cast("Any", jsonata).jsonata.print = lambda *_values: None  # pyright: ignore[reportUnknownLambdaType] - any

Jsonata: Final[Any] = cast("Any", jsonata).Jsonata
Functions: Final[Any] = cast("Any", functions).Functions
Utils: Final[Any] = cast("Any", utils).Utils
JException: type[Exception] = cast("Any", jexception).JException
Parser: Final[Any] = cast("Any", parser).Parser
DateTimes: Final[Any] = cast("Any", datetimeutils).DateTimeUtils

# It looks for a specifier that there is none for with [], and puts values into its texts with "{}".
DateTimes._default_presentation_modifiers = defaultdict(
    lambda: None, cast("dict[str, Any]", DateTimes._default_presentation_modifiers)
)
_texts: Any = cast("Any", constants).Constants
for _name, _place, _filled in (
    ("SEQUENCE_UNSUPPORTED", " starting with %s", ""),
    ("UNKNOWN_COMPONENT_SPECIFIER", "%s", '"{}"'),
    ("INVALID_NAME_MODIFIER", "%s", '"{}"'),
):
    _text: str = getattr(_texts, f"ERR_MSG_{_name}")
    setattr(_texts, f"ERR_MSG_{_name}", _text.replace(_place, _filled))
