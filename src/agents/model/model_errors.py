"""The errors between an agent and its model, one type per remedy; exceptions of a model call become one."""

from __future__ import annotations

import json
import re
from contextlib import suppress
from datetime import UTC, datetime
from enum import Enum
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Unpack, cast

from ...client.refusals import parse_retry_after
from ...types.errors import MCPError, Place
from ...types.texts import shortened

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Set


_LONGEST_QUOTE: Final = 300
_UNPRINTABLE: Final = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff]+")
_TRY_LATER: Final = "Try again later, or choose another model"
_IS_IT_THE_API: Final = (
    "Check that the base URL is that of an API in OpenAI's form, which often ends in /v1, or, for a model"
    " 'anthropic:…', in Anthropic's"
)


def _words(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern, re.IGNORECASE)


class Construct(Enum):
    """What a request may consist of that some endpoints refuse; the value is what is sent in its place."""

    STREAM = "sent again without streaming, or as a stream"
    TOOL_CHOICE = "sent again without tool_choice"
    LIMIT_FIELD = "sent again with the other name of the token limit"
    LARGE_LIMIT = "sent again with a lower token limit"
    CALL_IDS = "sent again with other ids of the tool calls"
    ONE_IMAGE = "sent again without an image that was refused"
    IMAGES = "sent again without images"
    ADAPTIVE = "sent again without asking for thoughts"
    THOUGHTS = "sent again without the model's thoughts"
    SYSTEM = "sent again with the system message as the user's"
    ROLES = "sent again with the roles in turn"
    TEXT_BESIDE_CALLS = "sent again without what the model wrote beside its calls"
    NULL_BESIDE_CALLS = "sent again with an empty text beside the calls"
    EMPTY_BESIDE_CALLS = "sent again with a word beside the calls"


_CONTENT: Final = _words(
    r"content|text (?:block|field)|non-?(?:empty|whitespace)|assistant message|\bblank\b|messages?\W{1,2}\d+"
)
#: What a refusal says, and which construct it is about. A refusal may be about several: the first that the
#: request has, and that was not given up before, is changed.
REFUSALS: Final[tuple[tuple[re.Pattern[str], Construct], ...]] = (
    (
        _words(
            r"(?:support|require|must|only|cannot|not allowed|without|disable|enable|unrec|unknown|unexp)"
            r".{0,60}?\bstream"
            r"|\bstream.{0,60}?(?:support|require|must|only|disable|enable|extra|unexp|not permitted)"
        ),
        Construct.STREAM,
    ),
    (_words(r"tool[_ ]call[_ ]?id|tool_calls\[\d+\]\.id|tool_use\.id"), Construct.CALL_IDS),
    (
        _words(
            r"max_(?:completion_)?tokens.{0,80}(?:extra|unknown|unrec|unsupp|unexp|not (?:supp|perm|all))"
            r"|(?:extra|unknown|unrec|unsupp|unexp|use|required|missing).{0,60}max_(?:completion_)?tokens"
        ),
        Construct.LIMIT_FIELD,
    ),
    (
        _words(r"(?:output|completion) tokens|in the completion|max_(?:completion_|output_)?tokens.*\d"),
        Construct.LARGE_LIMIT,
    ),
    (_words(r"max_(?:completion_|output_)?tokens"), Construct.LIMIT_FIELD),
    (
        _words(
            r"content type|only supported by|text[- ]only|mmproj|vision|multi-?modal|content\[\]\.type"
            r"|variant .?image|content.{0,12}must be a string"
            r"|support (?:for )?images?\b|support image input"
            r"|images? (?:inputs? |content )?(?:is|are) (?:not|only|un) ?(?:supp|all|acc|ena|ava|hand)"
        ),
        Construct.IMAGES,
    ),
    (_words(r"image|picture"), Construct.ONE_IMAGE),
    (_words(r"adaptive (?:thinking|mode)|thinking may not be enabled"), Construct.ADAPTIVE),
    (
        _words(r"reasoning_content|reasoning_details|thinking_blocks|['\"`.](?:reasoning|thinking)['\"`]"),
        Construct.THOUGHTS,
    ),
    (
        _words(
            r"(?:system|developer) (?:role|instruction|message)s? (?:is |are )?not "
            r"|not support '(?:system|developer)'"
        ),
        Construct.SYSTEM,
    ),
    (_words(r"roles? must alternate|should alternate|unexpected role"), Construct.ROLES),
    (_words(r"\btool_choice"), Construct.TOOL_CHOICE),
    (
        _words(
            r"not both|either.{0,20}content.{0,12}or|content.{0,60}be (?:null|none|empty)|calls.{0,40}text"
        ),
        Construct.TEXT_BESIDE_CALLS,
    ),
    (_CONTENT, Construct.NULL_BESIDE_CALLS),
    (_CONTENT, Construct.EMPTY_BESIDE_CALLS),
    (_CONTENT, Construct.TEXT_BESIDE_CALLS),
)
_SETTINGS: Final = _words(r"temperature|top_[pk]|penalty|effort|response_format|max_\w*tokens")


class ModelError(MCPError):
    """The model's service failed in a way without a code of its own; the base of all its errors.

    Attributes:
        status: The HTTP status, None without a response.
        retry_after: Seconds that the endpoint asks to wait, None if it did not ask.
        tries: The largest number of attempts; 1 where sending the request again cannot help.
        said: The endpoint's own words; empty if it said none.
    """

    CODE = "KMCP-MODEL"
    tries = 1

    def __init__(
        self,
        what: str,
        *,
        status: int | None = None,
        retry_after: float | None = None,
        tries: int | None = None,
        said: str = "",
        **place: Unpack[Place],
    ) -> None:
        super().__init__(what, **place)
        self.said = said
        self.status = status
        self.retry_after = retry_after
        self.tries = tries or self.tries

    @property
    def refused(self) -> list[Construct]:
        """What the endpoint may have refused, by its words, the likeliest first."""
        return [construct for words, construct in REFUSALS if words.search(self.said)]

    @property
    def is_silent(self) -> bool:
        """True for a refusal whose words tell nothing of what is refused."""
        return bool(self.said) and not self.refused and _SETTINGS.search(self.said) is None


class ModelUnreachable(ModelError):  # noqa: N818 - like the tree it extends
    """The service cannot be reached, or did not answer in time."""

    CODE = "KMCP-MODEL-UNREACHABLE"
    tries = 3


class ModelBusy(ModelError):  # noqa: N818
    """The service takes no more requests for now, and the longest wait is over.

    Attributes:
        passes: True if it says so itself: then only the longest wait limits how often it is asked again.
    """

    CODE = "KMCP-MODEL-BUSY"
    tries = 5
    passes = False


class QuotaExceeded(ModelError):  # noqa: N818
    """The account has no credit left; waiting does not help."""

    CODE = "KMCP-MODEL-QUOTA"


class ModelLoginFailed(ModelError):  # noqa: N818
    """The API key is wrong, or not allowed to use the model."""

    CODE = "KMCP-MODEL-LOGIN"


class ModelNotFound(ModelError):  # noqa: N818
    """There is no model of this name, or no API at this base URL."""

    CODE = "KMCP-MODEL-NAME"


class ModelRequestRefused(ModelError):  # noqa: N818
    """The service refuses the request, such as for one of the model's settings."""

    CODE = "KMCP-MODEL-REQUEST"


class TooManyTools(ModelRequestRefused):
    @property
    def most(self) -> int | None:
        """How many tools the endpoint takes, if it says so."""
        found = _MOST_TOOLS.search(self.said)
        return None if found is None else int(found[1])


class ContextTooLong(ModelError):  # noqa: N818
    """Conversation, tools and results are too long for the model."""

    CODE = "KMCP-MODEL-CONTEXT"


class PromptFiltered(ModelError):  # noqa: N818
    """The service's content filter refused the prompt."""

    CODE = "KMCP-MODEL-FILTER"


class ModelAnswerInvalid(ModelError):  # noqa: N818
    """The answer cannot be read, or has neither text nor calls."""

    CODE = "KMCP-MODEL-ANSWER"
    tries = 2

    @classmethod
    def without_message(cls) -> ModelAnswerInvalid:
        return cls("The endpoint's answer holds no message", fix=_IS_IT_THE_API)

    @classmethod
    def broken_off(cls) -> ModelAnswerInvalid:
        return cls(
            "The model's answer broke off in the middle",
            fix="Try again, or choose another model",
            tries=ModelUnreachable.tries,  # retried like a broken connection
        )


class AnswerUnfit(ModelError):  # noqa: N818
    """The answer does not fit the schema that it must have, also after the model was told so."""

    CODE = "KMCP-MODEL-SCHEMA"

    @classmethod
    def because(cls, why: str) -> AnswerUnfit:
        return cls(
            f"The model's answer does not fit the schema: {shortened(why, _LONGEST_QUOTE)}",
            fix="Describe in the schema or in the prompt what is wanted, allow for what may be missing, or"
            " choose another model",
        )


class AnsweredError(Exception):
    """An error in place of an answer, with the HTTP status if that says so; `model_error` reads it."""

    def __init__(
        self, body: object, *, status: int | None = None, headers: Mapping[str, str] | None = None
    ) -> None:
        super().__init__("The endpoint answered with an error")
        self.body = body
        self.status = status
        self.headers = headers or {}


def all_said(error: Exception) -> str:
    """All texts of an endpoint's error, however long: to look for something in them, and not for people."""

    def texts(part: object) -> Iterator[str]:
        match part:
            case str():
                yield part.replace('\\"', '"')  # routers quote the error of another service
            case dict():
                for name, inner in cast("dict[str, object]", part).items():
                    yield from [f"{name} {inner}"] if isinstance(inner, int) else texts(inner)
            case list():
                for inner in cast("list[object]", part):
                    yield from texts(inner)
            case _:
                pass

    return "\n".join(texts(error.body)) if isinstance(error, AnsweredError) else ""


#: Before the number, or around it, the surest first: words name what was sent as well.
_CONTEXT: Final = tuple(
    _words(pattern.replace("N", r"(\d[\d,]{2,9})\b"))
    for pattern in (
        r"> ?N|<= ?N|\[1, ?N|less than N|n_ctx\D{0,20}N|N max(?:imum)? context",
        r"(?:context|model|token|max(?:imum)?(?: \w+)?)[ _](?:length|size|window|limit)(?! by)\D{0,20}N"
        r"|limit (?:of|is|for this model is)\D{0,20}N|maximum (?:of|is)\D{0,20}N|allowed\D{0,20}N",
    )
)


def context_in(said: str) -> int | None:
    """The tokens of a model's context by its endpoint's words about a request that does not fit."""
    found = next(filter(None, (pattern.search(said) for pattern in _CONTEXT)), None)
    return None if found is None else int(next(filter(None, found.groups())).replace(",", ""))


class IterationLimit(ModelError):  # noqa: N818
    """The model still asked for tools when the iteration limit was reached."""

    CODE = "KMCP-MODEL-ITERATIONS"


def model_error(
    error: Exception, *, model: str = "", server: str | None = None, secrets: Iterable[str] = ()
) -> ModelError:
    """Turns the exception of a model call into a `ModelError` that says what to do.

    `secrets` are removed from the message, as the endpoint may repeat them.
    """
    import httpx

    match error:
        case ModelError():
            return error.at(server=server)
        case httpx.TimeoutException():
            return ModelUnreachable(
                f"The model '{model}' did not answer in time",
                server=server,
                fix="Raise 'Timeout' in the node that connects the model, or choose a faster model",
            )
        case httpx.TransportError():  # in the middle of an answer
            return ModelUnreachable(
                f"The connection broke off in the middle of the answer: {_quote(str(error), secrets)}",
                server=server,
                fix=_TRY_LATER,
            )
        case AnsweredError():
            status = error.status or _status_in(error.body)
            said = _message_of(error.body, str(error.status or "no reason given"), secrets)
            code = str(_field(error.body, "code") or _field(error.body, "type") or "")
            wait = retry_after(error.headers, error.body)
            return status_error(status, said, code=code, wait=wait, model=model, server=server)
        case _:
            pass
    # For an answer of unknown form; the exception's text may quote the answer.
    return ModelAnswerInvalid(
        f"The endpoint's answer cannot be read ({type(error).__name__}): {_quote(str(error), secrets)}",
        server=server,
        fix=_IS_IT_THE_API,
    )


def _status_in(body: object) -> int | None:
    """The status in an error document that came with HTTP status 200."""
    for code in map(str, (_field(body, "code"), _field(body, "status"), _field(body, "type"))):
        if re.fullmatch(r"[45]\d\d", code):
            return int(code)
        if code.lower() in _STATUS_NAMES:
            return _STATUS_NAMES[code.lower()]
    return None


#: https://platform.claude.com/docs/en/api/errors, https://cloud.google.com/apis/design/errors
_STATUS_NAMES: Final = {
    **dict.fromkeys(("invalid_request_error", "invalid_argument", "bad_request_error"), 400),
    **dict.fromkeys(("authentication_error", "unauthenticated"), 401),
    "billing_error": 402,
    **dict.fromkeys(("permission_error", "permission_denied"), 403),
    **dict.fromkeys(("not_found_error", "not_found"), 404),
    "request_too_large": 413,
    **dict.fromkeys(("rate_limit_error", "rate_limit_exceeded", "resource_exhausted"), 429),
    **dict.fromkeys(("api_error", "internal"), 500),
    **dict.fromkeys(("unavailable", "unavailable_error"), 503),
    **dict.fromkeys(("timeout_error", "deadline_exceeded"), 504),
    "overloaded_error": 529,
}


class _Reading(NamedTuple):
    """What an error is, and what a person is told; `passes` is that of `ModelBusy`."""

    error: type[ModelError]
    what: str
    fix: str
    tries: int | None = None
    passes: bool = False


def _refused(fix: str) -> _Reading:
    return _Reading(ModelRequestRefused, "The endpoint does not take the request ({status}): {said}", fix)


_FILTERED: Final = _Reading(
    PromptFiltered,
    "A filter at the endpoint refused the prompt: {said}",
    "Look at prompt and tool results for what the provider does not allow",
)
_USED_UP: Final = _Reading(
    QuotaExceeded,
    "The account at the endpoint is used up: {said}",
    "Look at plan and billing of the account; waiting does not help",
)
_TOO_LONG: Final = _Reading(
    ContextTooLong,
    "The conversation does not fit into the model's context: {said}",
    "Hand out fewer tools, let tools give shorter results, shorten the history, or choose a model with a"
    " larger context",
)
_LIMITED: Final = _Reading(
    ModelBusy,
    "The endpoint takes no more requests for now ({status}): {said}",
    "Wait, use fewer or shorter requests, or raise the limit of your account",
    passes=True,
)
_TROUBLE: Final = _Reading(ModelBusy, "The endpoint has trouble ({status}): {said}", _TRY_LATER)
_BROKEN_CALL: Final = _Reading(
    ModelAnswerInvalid, "The endpoint cannot read the model's call: {said}", _TRY_LATER, tries=3
)
_WRONG_KEY: Final = _Reading(
    ModelLoginFailed,
    # Without the endpoint's message, in which services repeat parts of the key.
    "The endpoint does not accept the credential ({status})",
    "Choose a credential whose password is the API key in the node that connects the model",
)
_NOT_ALLOWED: Final = _Reading(
    ModelLoginFailed,
    "The endpoint does not allow this (403): {said}",
    "Check what the account and its API key may use: model, project, region",
)
_UNKNOWN: Final = _Reading(
    ModelNotFound,
    "The endpoint knows no model '{model}', or nothing is at its base URL: {said}",
    "Choose a model from the list in the node that connects the model; a base URL often ends in /v1",
)
_ELSEWHERE: Final = _Reading(
    ModelNotFound,
    "The endpoint is elsewhere ({status})",
    "Enter the base URL as the provider's documentation gives it; requests with a key are not sent on to"
    " another address",
)
_TOO_MANY_TOOLS: Final = (
    r"tools'?:? (?:array|list)?.{0,20}(?:too long|too many)"
    r"|(?:too many|number of|at most \d+|maximum(?: of)? \d+|more than \d+|up to \d+|limit of \d+)"
    r" (?:tools|functions|function[ _]?declarations)"
)
_MOST_TOOLS: Final = _words(
    r"(?:maximum|at most|up to|no more than|more than|limit|exceeds?|allowed)\D{0,20}?(\d{1,4})\b"
)
#: The words of endpoints whose model calls no tools.
TAKES_NO_TOOLS: Final = (
    r"(?:not|found that) (?:support|implement) (?:tools|tool|function)|tool[ _]choice requires"
    r"|\btools?['\"`]?(?: use| calling| calls?)? (?:is|are) not|enable-auto-tool-choice|tools param requires"
    r"|(?:unrec|unknown|unexp|extra)\w*\s(?:\W|\w){0,40}\btools\b(?!\W*(?:\d|\w*function))"
)
_NO_TOOLS: Final = _refused(
    "Choose a model that can call tools; a server of your own may have to be told to let it (vLLM:"
    " --enable-auto-tool-choice and --tool-call-parser, llama.cpp: --jinja)"
)
_MANY_TOOLS: Final = _Reading(
    TooManyTools,
    "The endpoint does not take so many tools ({status}): {said}",
    "Hand out fewer tools (Include in the MCP Tool Provider), or choose a model that takes more",
)
_OTHERWISE: Final = _refused(
    "The endpoint's own words say what it objects to; the usual causes are a model without tools, a setting"
    " that the model does not know (temperature, token limit), and a tool's schema"
)
_ANY: Final = frozenset((None, *range(200, 600)))
_SERVER: Final = frozenset(range(500, 600))
#: The first whose statuses and words (of code and message) fit decides. None is an error that came with
#: status 200, and whose code is no status.
_READINGS: Final[tuple[tuple[Set[int | None], str, _Reading], ...]] = (
    (_ANY, "content_filter|content_policy_violation|content management policy|input was flagged", _FILTERED),
    ({402}, "", _USED_UP),
    # OpenAI says 429 and Anthropic 400 for an empty account, where waiting does not help.
    (
        {None, 400, 403, 429},
        "insufficient_quota|billing_hard_limit_reached|credit balance"
        "|insufficient (?:balance|credits?|funds)",
        _USED_UP,
    ),
    # OpenAI's, for a request that is larger than the limit of a minute: no wait makes it fit.
    ({429}, r"request too large(?!.*(?:\bused\b|(?:try again|retry) (?:in|after)))", _TOO_LONG),
    ({429}, "", _LIMITED),
    # Gateways pass a throttle on with another status.
    (
        {None, 400, *_SERVER},
        r"throttl|too many requests|please wait|rate[ _-]?limit|overloaded"
        r"|(?:try again|retry) (?:in|after) \d",
        _LIMITED,
    ),
    ({413}, "", _TOO_LONG),
    (
        {None, 400, 422, 500},
        r"context[ _]?(?:length|window|size)|maximum (?:context|prompt)|too many (?:input )?tokens"
        r"|(?:prompt|input) is too long|input tokens exceed|request too large|model token limit"
        r"|reduce the length of the messages|range of input length|inputs` (?:tokens|must have less)"
        r"|exceeds? the (?:model's )?(?:maximum|max|available) (?:number of )?(?:context|tokens|input)"
        r"|(?:input|prompt) (?:token count|length)\b.{0,40}?(?:exceed|only supports)|number of input tokens"
        r"|prompt exceeds|context limit|maximum model length",
        _TOO_LONG,
    ),
    (_ANY, "tool_use_failed", _BROKEN_CALL),  # Groq's
    # Google's and xAI's
    ({400}, "(?:incorrect|invalid) api key|api key (?:is )?(?:not valid|expired)", _WRONG_KEY),
    (
        {400, 404, 422, 500, 501},
        TAKES_NO_TOOLS,
        _NO_TOOLS,
    ),
    ({400, 422}, _TOO_MANY_TOOLS, _MANY_TOOLS),
    ({401}, "", _WRONG_KEY),
    ({403}, "", _NOT_ALLOWED),
    ({404}, "", _UNKNOWN),
    # Templates of local servers, which write the prompt: the same request fails in the same way.
    ({500}, r"jinja|template|unmarshal|row \d+, column|nonetype|not callable", _OTHERWISE),
    ({None, 500, 501}, "", _TROUBLE),
    ({408, 409, 425, *_SERVER}, "", _TROUBLE._replace(passes=True)),
    (set(range(300, 400)), "", _ELSEWHERE),
)
#: What servers such as llama.cpp refuse with 500, and OpenRouter with 404.
_REFUSED_AS_TROUBLE: Final = {
    *(Construct.STREAM, Construct.CALL_IDS, Construct.IMAGES, Construct.SYSTEM, Construct.ROLES),
    Construct.TOOL_CHOICE,
}


def status_error(
    status: int | None,
    said: str,
    *,
    code: str = "",
    wait: float | None = None,
    model: str = "",
    server: str | None = None,
) -> ModelError:
    """The error for what an endpoint answered: status, words, and the seconds that it asks to wait."""
    text = f"{code} {said}"
    fitting = (
        reading
        for statuses, words, reading in _READINGS
        if status in statuses and re.search(words, text, re.IGNORECASE)
    )
    reading = next(fitting, _OTHERWISE)
    cannot_succeed = (words.search(said) for words, construct in REFUSALS if construct in _REFUSED_AS_TROUBLE)
    if reading in (_UNKNOWN, _TROUBLE) and any(cannot_succeed):
        reading = _OTHERWISE
    what = reading.what.format(status=status or "no status", said=said, model=model)
    if reading.error is not ModelBusy:
        wait = None
    if wait and wait >= 1:
        what += f"; it asks to wait {wait:,.0f} s"
    error = reading.error(
        what,
        status=status,
        retry_after=wait,
        tries=reading.tries,
        said=said,
        server=server,
        fix=reading.fix,
    )
    if isinstance(error, ModelBusy):
        error.passes = reading.passes
    return error


def too_long(said: str) -> ContextTooLong:
    """The error for a conversation that does not fit, with the reason."""
    return ContextTooLong(_TOO_LONG.what.format(said=said), fix=_TOO_LONG.fix)


def not_sent(cause: Exception, server: str | None, secrets: Iterable[str]) -> Exception:
    """What to raise for a request that could not be sent; a timeout stays what it is."""
    import httpx

    if isinstance(cause, httpx.TimeoutException):
        return cause
    if isinstance(cause, MCPError):
        return ModelUnreachable(cause.what, server=server, fix=cause.fix)
    return no_connection(cause, server, secrets)


def no_connection(cause: Exception, server: str | None, secrets: Iterable[str]) -> ModelUnreachable:
    """The error for a request without an answer; `secrets` are removed: a broken one may repeat them."""
    return ModelUnreachable(
        f"No connection to the model's endpoint: {_quote(str(cause) or type(cause).__name__, secrets)}",
        server=server,
        fix="Check that it runs, that the base URL is right, and that nothing between (proxy, firewall)"
        " blocks it",
    )


_WAIT_FIELDS: Final = _words(r"retry-?after(?!-?ms)|retry-?delay|estimated-?time|resets?-in")
_ASKS_TO_WAIT: Final = _words(
    r"(?:try again|retry|wait|available|resets?)(?: for| in| after| about| another| at least)* "
    r"((?:\d+(?:\.\d+)?\s*(?:ms|[dhms])[a-z]*(?:,|\sand)?\s*)+)"
)
_TIME: Final = _words(r"(\d+(?:\.\d+)?)\s*(ms|[dhms])")
_DURATION: Final = _words(r"(?:\d+(?:\.\d+)?\s*(?:ms|[dhms])\s*)+")
_SECONDS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_DEEPEST: Final = 8


def retry_after(headers: Mapping[str, str], body: object = None) -> float | None:
    """Reads how many seconds an endpoint asks to wait, at least 0; None if it gives no time.

    It may stand in ``Retry-After`` (RFC 9110 §10.2.3), in other headers, in fields of the error, in its words
    ("Please try again in 1m2.5s"), or as the time at which a limit is reset. A time of 0 is none if another
    stands elsewhere.
    """
    # OpenRouter passes the headers of the service behind it on in the body.
    given = {name.lower().replace("_", "-"): value for name, value in _fields_in(body)}
    given |= {name.lower(): value for name, value in headers.items()}
    # Azure's header, which is more exact than the standard one beside it.
    milliseconds = _seconds(given.get("retry-after-ms") or given.get("retryafterms"))
    requested = _ASKS_TO_WAIT.search(str(body))
    times = (
        None if milliseconds is None else milliseconds / 1000,
        *(_seconds(value) for name, value in given.items() if _WAIT_FIELDS.search(name)),
        None if requested is None else _duration(requested[1]),
        _reset(given),
    )
    known = [seconds for seconds in times if seconds is not None]
    return next((seconds for seconds in known if seconds > 0), 0.0 if known else None)


def _reset(given: Mapping[str, object]) -> float | None:
    """The seconds until a limit is reset: of all that are used up, else the next of any."""
    # https://datatracker.ietf.org/doc/html/draft-ietf-httpapi-ratelimit-headers
    used_up = [float(seconds) for seconds in re.findall(r"r=0;t=(\d+)", str(given.get("ratelimit")))]
    others: list[float] = []
    for name, value in given.items():
        seconds = _seconds(value) if "reset" in name and "rate" in name and "limit" in name else None
        if seconds is not None:
            left = given.get(name.replace("reset", "remaining"))
            (used_up if str(left) in {"0", "0.0"} else others).append(seconds)
    return max(used_up) if used_up else min(others, default=None)


def _seconds(value: object) -> float | None:
    """Seconds from now, of a number, a duration or a date in the forms that services use."""
    text = "" if isinstance(value, bool) else str(value or "").strip()
    with suppress(ValueError):
        if re.fullmatch(r"\d{1,15}(?:\.\d+)?", text):
            number = float(text)
            if number < 1e9:
                return number
            # A moment, in seconds or milliseconds since 1970.
            at = number / 1000 if number > 1e11 else number
            return max(0.0, at - datetime.now(UTC).timestamp())
        if _DURATION.fullmatch(text):
            return _duration(text)
        moment = datetime.fromisoformat(text)
        at = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
        return max(0.0, (at - datetime.now(UTC)).total_seconds())
    return parse_retry_after(text)


def _duration(text: str) -> float:
    return sum(float(count) * _SECONDS[unit.lower()] for count, unit in _TIME.findall(text))


def _fields_in(value: object, depth: int = 0) -> Iterator[tuple[str, object]]:
    """The fields of a JSON value, of all objects in it, whose values are texts or numbers."""
    if depth > _DEEPEST:
        return
    if isinstance(value, list):
        for inner in cast("list[object]", value):
            yield from _fields_in(inner, depth + 1)
    elif isinstance(value, dict):
        for name, inner in cast("dict[str, Any]", value).items():
            if isinstance(inner, str | int | float):
                yield name, inner
            yield from _fields_in(inner, depth + 1)


def _field(body: object, name: str) -> object:
    """A field of an error document; some services put the document into a list."""
    entries = cast("list[object]", body) if isinstance(body, list) else [body]
    if not entries or not isinstance(entries[0], dict):
        return None
    document = cast("dict[str, object]", entries[0])
    inner = document.get("error")
    nested = cast("dict[str, object]", inner) if isinstance(inner, dict) else document
    return nested.get(name)


def _message_of(body: object, default: str, secrets: Iterable[str]) -> str:
    message = _written_message(body)
    return _quote(message or (json.dumps(body, ensure_ascii=False) if body else default), secrets)


def _written_message(body: object) -> str | None:
    """The message in an error document; with that of the service behind a router, such as OpenRouter."""
    texts = (body, *(_field(body, name) for name in ("message", "error", "detail")))
    message = next((text for text in texts if isinstance(text, str) and text.strip()), None)
    metadata = _field(body, "metadata")
    raw = cast("dict[str, object]", metadata).get("raw") if isinstance(metadata, dict) else None
    if isinstance(raw, str):
        with suppress(ValueError, RecursionError):
            raw = json.loads(raw)
    passed_on = _written_message(raw) if raw else None
    return message if passed_on is None else f"{message}: {passed_on}"


def _quote(text: str, secrets: Iterable[str]) -> str:
    for secret in secrets:
        if secret:
            text = text.replace(secret, "[secret]")
    return shortened(_UNPRINTABLE.sub(" ", text).strip(), _LONGEST_QUOTE)
