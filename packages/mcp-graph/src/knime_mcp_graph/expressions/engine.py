"""JavaScript's engine, with npm's ``jsonata`` and ``json-logic-js``: one for each evaluation at a time.

An evaluation is a sequence of jobs, between which its limits are looked at and its questions answered. What
one job does, the engine bounds itself: its processor time, memory and stack.
"""

from __future__ import annotations

import json
import re
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from knime_mcp.types.errors import MCPError

from .javascript import UNDEFINED

#: Answers a function of histories, by its name and arguments; see `_Engine.call`.
Answers = Callable[[str, list[Any]], list[Any]]


class ExpressionError(MCPError):
    """An expression could not be evaluated.

    `cause` is the reason without the expression, `code` JSONata's code of the error, such as ``T2001``, or
    None.
    """

    CODE = "KMCP-EXPRESSION"

    def __init__(
        self, what: str, *, expression: str, code: str | None = None, cause: str | None = None
    ) -> None:
        super().__init__(what)
        self.cause = cause or what
        self.expression = expression
        self.code = code

    @property
    def sentence(self) -> str:
        return self.what


class Stopped(MCPError):  # noqa: N818 - a stop is not a mistake in the expression
    """The evaluation was stopped from outside."""

    CODE = "KMCP-STOPPED"


DEFAULT_SECONDS: Final = 30.0
MOST_MEMORY: Final = 192 << 20  # bytes of the values of one engine
_STACK: Final = 1 << 20  # bytes; threads have two megabytes or more
_JOBS_PER_LOOK: Final = 64
_FILES: Final = (
    *("surroundings.js", "npm/jsonata/jsonata.min.js", "npm/json-logic-js/logic.js", "bridge.js"),
)
_LONGEST_MESSAGE: Final = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """Limits of one evaluation."""

    seconds: float = DEFAULT_SECONDS
    # called now and then; True ends the evaluation. None: the evaluation cannot be stopped.
    is_stopped: Callable[[], bool] | None = None


UNBOUNDED: Final = Bounds()


@dataclass(frozen=True, slots=True)
class Failure:
    """Why an evaluation gave nothing: a message, JSONata's code of it, a place, the JSONata of a rule."""

    message: str
    code: str | None = None
    position: int | None = None
    of: str | None = None


@dataclass(frozen=True, slots=True)
class Found:
    """What an evaluation gave, and whether JavaScript takes it for true."""

    value: Any = UNDEFINED
    holds: bool = False


class _Engine:
    def __init__(self) -> None:
        import quickjs  # it starts a thread when it is imported

        here = Path(__file__).parent
        self._context = quickjs.Context()
        self._context.set_memory_limit(MOST_MEMORY)
        self._context.set_max_stack_size(_STACK)
        for file in _FILES:
            self._context.eval((here / file).read_text("utf-8"))

    def call(
        self, name: str, *values: Any, bounds: Bounds, answers: Answers | None = None
    ) -> Found | Failure:
        """What a function of `bridge.js` gives, or a `Failure`.

        `answers` is asked by the functions of histories, with name and arguments: it gives a list of one
        value, or of none for undefined; for ``nodeExecutions`` a list of such lists.
        """
        deadline = time.monotonic() + bounds.seconds
        self._hold_to(deadline, bounds)
        self._context.get(name)(*values)
        while True:
            jobs = 0
            while self._context.execute_pending_job():
                jobs += 1
                if jobs % _JOBS_PER_LOOK == 0:
                    self._hold_to(deadline, bounds)
            question = self._context.get("question")()
            if question is None or answers is None:
                break
            asked, arguments = json.loads(question)
            self._hold_to(deadline, bounds)
            answer = to_json(answers(asked, arguments))
            self._context.get("answer")(with_exact_numbers(answer) if name == "evaluate" else answer)
        found = json.loads(_restored(str(self._context.get("outcome"))))
        error = found.get("error")
        return Found(**found) if error is None else Failure(**error)

    def _hold_to(self, deadline: float, bounds: Bounds) -> None:
        if bounds.is_stopped is not None and bounds.is_stopped():
            raise Stopped("The evaluation was stopped")
        left = deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError
        self._context.set_time_limit(left + _AFTER)


# The library's own limit of time has the better message: the engine's comes after it.
_AFTER: Final = 0.2


_MOST_IDLE: Final = 8
_idle: Final[list[_Engine]] = []
"""Engines that nobody uses; making one takes longer than most expressions."""


def call(
    name: str, *values: Any, bounds: Bounds = UNBOUNDED, answers: Answers | None = None
) -> Found | Failure:
    """What a function of `bridge.js` gives, in an engine that nobody else uses meanwhile; or a `Failure`."""
    import quickjs

    try:
        engine = _idle.pop()
    except IndexError:
        engine = _Engine()
    try:
        found = engine.call(name, *values, bounds=bounds, answers=answers)
    except TimeoutError:
        return _timed_out(bounds)
    except (quickjs.JSException, quickjs.StackOverflow) as error:
        return _judged(Failure(str(error).partition("\n")[0]), bounds)
    if isinstance(found, Failure):
        found = _judged(found, bounds)
        if found.code == "D1012" or found.message.startswith(_TOO_MUCH):
            return found  # and the engine is not used again, which has jobs left, or no memory
    if len(_idle) < _MOST_IDLE:
        _idle.append(engine)
    return found


#: What the engine says without memory to say more; the second is what the library's `$eval` makes of it.
_NO_MEMORY: Final = ("null", "cannot read property 'token' of null")
_TOO_MUCH: Final = "The expression is too expensive: "


def _judged(failure: Failure, bounds: Bounds) -> Failure:
    """The failure with words for what the engine says."""
    message = failure.message
    if "interrupted" in message or "Evaluation timeout" in message:  # also inside of $eval
        return _timed_out(bounds)
    if "stack" in message.lower() and failure.code is None:
        return Failure("The expression or its value is nested too deeply", "D1011")
    if "out of memory" in message or message in _NO_MEMORY:
        return Failure(f"{_TOO_MUCH}it uses more than {MOST_MEMORY >> 20} MB of memory. Make less", None)
    if message.startswith("it makes") or "invalid string length" in message or failure.code == "D2015":
        return Failure(f"{_TOO_MUCH}{message}. Make it shorter", failure.code, failure.position, failure.of)
    if len(message) > _LONGEST_MESSAGE:  # it may have the caller's data
        message = f"{message[:_LONGEST_MESSAGE]}…"
    return Failure(message, failure.code, failure.position, failure.of)


def _timed_out(bounds: Bounds) -> Failure:
    milliseconds = round(bounds.seconds * 1000)
    return Failure(f"Evaluation timeout after {milliseconds} milliseconds. Check for infinite loop", "D1012")


_NO_JSON: Final = re.compile(r'"(?:\\.|[^"\\])*"|-?Infinity|NaN')
_AS_JSON: Final = {"Infinity": "1e999", "-Infinity": "-1e999", "NaN": "null"}


def to_json(value: Any) -> str:
    try:
        return json.dumps(value, allow_nan=False)
    except ValueError:  # a document may have infinite numbers, which JavaScript reads of such a text
        return _NO_JSON.sub(lambda word: _AS_JSON.get(word[0], word[0]), json.dumps(value))
    except RecursionError:
        raise ExpressionError("A value is nested too deeply", expression="", code="D1011") from None


#: JavaScript would round a whole number beyond 2^53, such as an id, unsaid. So it goes through an expression
#: as a text that nobody else can write; to calculate with it is JSONata's error about a text.
_MARK: Final = f"number-{secrets.token_hex(8)}-"
_LONG: Final = re.compile(r"[0-9]{16}")
_LONG_NUMBERS: Final = re.compile(r'"(?:\\.|[^"\\])*"|(?<![0-9.eE+-])-?[0-9]{16,}(?![0-9.eE])', re.DOTALL)
_MARKED: Final = re.compile(rf'"{_MARK}(-?[0-9]+)"(?!\s*:)|{_MARK}(-?[0-9]+)')


def with_exact_numbers(json_text: str) -> str:
    """JSON in which each whole number beyond 2^53 is marked, so that an expression can hand it on."""
    if not _LONG.search(json_text):
        return json_text

    def mark(found: re.Match[str]) -> str:
        number = found[0]
        return number if number[0] == '"' or abs(int(number)) <= 2**53 else f'"{_MARK}{number}"'

    return _LONG_NUMBERS.sub(mark, json_text)


def _restored(json_text: str) -> str:
    return _MARKED.sub(lambda found: found[1] or found[2], json_text) if _MARK in json_text else json_text


def milliseconds(bounds: Bounds) -> int:
    return max(1, round(bounds.seconds * 1000))
