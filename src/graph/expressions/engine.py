"""The names of ``jsonata-python`` that are used; its own types say less than they should."""

from __future__ import annotations

from typing import Any, Final, cast

import jsonata  # pyright: ignore[reportMissingTypeStubs] - it has none
from jsonata import functions, jexception, parser, utils  # pyright: ignore[reportMissingTypeStubs]

# It prints what is called although it is no function: values, into what may be the protocol's own stream.
cast("Any", jsonata).jsonata.print = lambda *_values: None  # pyright: ignore[reportUnknownLambdaType] - any

Jsonata: Final[Any] = cast("Any", jsonata).Jsonata
Functions: Final[Any] = cast("Any", functions).Functions
Utils: Final[Any] = cast("Any", utils).Utils
JException: type[Exception] = cast("Any", jexception).JException
Parser: Final[Any] = cast("Any", parser).Parser
