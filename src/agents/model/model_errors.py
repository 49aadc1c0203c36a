"""The errors between an agent and its model, one type per remedy; exceptions of a model call become one.

::

    MCPError
    └── ModelError              status, retry_after
        ├── ModelUnreachable    no connection, or no answer in time
        ├── ModelBusy           too many requests, or trouble at the endpoint; temporary
        ├── QuotaExceeded       the account is used up; waiting does not help
        ├── ModelLoginFailed    401 or 403
        ├── ModelNotFound       404: the model, or the path of the base URL
        ├── ModelRequestRefused the endpoint refused the request
        ├── ContextTooLong      the conversation does not fit into the model's context
        ├── PromptFiltered      a filter before the model refused the prompt
        ├── ModelAnswerInvalid  an answer without content, or one that cannot be read
        ├── AnswerUnfit         a final answer that does not fit the schema that it must have
        └── IterationLimit      the model still asked for tools when the limit was reached
"""

from __future__ import annotations

import json
import re
from contextlib import suppress
from typing import TYPE_CHECKING, Final, Unpack, cast

from ...client.refusals import parse_retry_after
from ...types.errors import MCPError, Place
from ...types.texts import shortened

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping


_NO_IMAGES: Final = re.compile(r"image|vision|multi-?modal|content type", re.IGNORECASE)
_REASONING: Final = re.compile(
    r"reasoning_content|reasoning_details|thinking_blocks|['\"`.](?:reasoning|thinking)['\"`]"
)
_ROLES: Final = re.compile(r"roles? must alternate|should alternate|unexpected role", re.IGNORECASE)
_NO_SYSTEM: Final = re.compile(
    r"(?:system|developer) (?:role|instruction|message)s? (?:is |are )?not "
    r"|not support '(?:system|developer)'",
    re.IGNORECASE,
)
_CALL_IDS: Final = re.compile(r"tool[ _]call[ _]id|tool_calls\[\d+\]\.id|tool_use\.id", re.IGNORECASE)
_LONGEST_QUOTE: Final = 300
_UNPRINTABLE: Final = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff]+")
_TOO_LONG: Final = re.compile(
    r"context[ _]?(?:length|window|size)|maximum (?:context|prompt)|too many (?:input )?tokens"
    r"|(?:prompt|input) is too long|input tokens exceed|request too large|model token limit"
    r"|reduce the length of the messages|range of input length|inputs` (?:tokens|must have less)"
    r"|exceeds? the (?:model's )?(?:maximum|max|available) (?:number of )?(?:context|tokens|input)"
    r"|(?:input|prompt) (?:token count|length)\b.{0,40}?(?:exceed|only supports)|number of input tokens"
    r"|prompt exceeds|context limit|maximum model length",
    re.IGNORECASE,
)
_NO_TOOLS: Final = re.compile(
    r"(?:not|found that) support (?:tools|tool|function)|tool[ _]choice requires"
    r"|tools? (?:use|calling|calls?) (?:is|are) not|enable-auto-tool-choice|tools param requires",
    re.IGNORECASE,
)
_TOO_MANY_TOOLS: Final = re.compile(
    r"tools'?:? (?:array|list)?.{0,20}(?:too long|too many)|too many tools", re.I
)
_ASKS_TO_WAIT: Final = re.compile(
    r"(?:(?:try again|retry) (?:in|after) |retryDelay\W{1,6})((?:\d+(?:\.\d+)?\s*(?:ms|[hms])[a-z]*\s*)+)",
    re.I,
)
_TIME: Final = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|[hms])", re.I)
_SECONDS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
_TRY_LATER: Final = "Try again later, or choose another model"
_IS_IT_THE_API: Final = (
    "Check that the base URL is that of an API in OpenAI's form, which often ends in /v1, or, for a model"
    " 'anthropic:…', in Anthropic's"
)
_QUOTA_CODES: Final = frozenset(("insufficient_quota", "billing_hard_limit_reached"))
_WRONG_KEY: Final = re.compile(
    r"(?:incorrect|invalid) api key|api key (?:is )?(?:not valid|expired)", re.IGNORECASE
)
_FILTERED: Final = re.compile(r"content management policy|input was flagged")  # Azure's, OpenRouter's
_NO_CREDIT: Final = re.compile(r"credit balance|insufficient (?:balance|credits?|funds)", re.IGNORECASE)


class ModelError(MCPError):
    """The base of errors between the agent and its model.

    Attributes:
        status: The HTTP status, None without a response.
        retry_after: Seconds that the endpoint asks to wait, None if it did not ask.
        tries: The largest number of attempts; 1 where sending the request again cannot help.
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
        **place: Unpack[Place],
    ) -> None:
        super().__init__(what, **place)
        self.status = status
        self.retry_after = retry_after
        self.tries = tries or self.tries

    @property
    def about_call_ids(self) -> bool:
        """True if the error is about ids of tool calls, of which endpoints accept different forms."""
        return _CALL_IDS.search(self.what) is not None


class ModelUnreachable(ModelError):  # noqa: N818 - like the tree it extends
    CODE = "KMCP-MODEL-UNREACHABLE"
    tries = 3


class ModelBusy(ModelError):  # noqa: N818
    CODE = "KMCP-MODEL-BUSY"
    tries = 5


class QuotaExceeded(ModelError):  # noqa: N818
    CODE = "KMCP-MODEL-QUOTA"


class ModelLoginFailed(ModelError):  # noqa: N818
    CODE = "KMCP-MODEL-LOGIN"


class ModelNotFound(ModelError):  # noqa: N818
    CODE = "KMCP-MODEL-NAME"


class ModelRequestRefused(ModelError):  # noqa: N818
    CODE = "KMCP-MODEL-REQUEST"

    @property
    def about_streaming(self) -> bool:
        """Some models require streaming, some do not support it."""
        return "stream" in self.what.lower()

    @property
    def about_thoughts(self) -> bool:
        """Some endpoints send reasoning content, but refuse it."""
        return _REASONING.search(self.what) is not None

    @property
    def about_roles(self) -> bool:
        """Some models' templates want the roles in turn."""
        return _ROLES.search(self.what) is not None

    @property
    def about_system_message(self) -> bool:
        return _NO_SYSTEM.search(self.what) is not None

    @property
    def about_images(self) -> bool:
        return _NO_IMAGES.search(self.what) is not None


class ContextTooLong(ModelError):  # noqa: N818
    CODE = "KMCP-MODEL-CONTEXT"


class PromptFiltered(ModelError):  # noqa: N818
    CODE = "KMCP-MODEL-FILTER"


class ModelAnswerInvalid(ModelError):  # noqa: N818
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


_CONTEXT: Final = re.compile(
    r"(?:n_ctx|(?:context|model|prompt|input|tokens?)[ _](?:length|size|window|limit|allowed)|limit (?:of|is)"
    r"|context (?:length|size|window) (?:of|is)|maximum (?:of|is)|allowed|> )\D{0,12}(\d[\d,]{2,9})\b",
    re.IGNORECASE,
)


def context_in(said: str) -> int | None:
    """The tokens of a model's context by its endpoint's words about a request that does not fit."""
    found = _CONTEXT.search(said)
    return None if found is None else int(found[1].replace(",", ""))


class IterationLimit(ModelError):  # noqa: N818
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
            message = _message_of(error.body, str(error.status or "no reason given"), secrets)
            return _status_error(status, error.body, message, error.headers, model=model, server=server)
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
    code = str(_field(body, "code"))
    return int(code) if re.fullmatch(r"[45]\d\d", code) else None


def _status_error(
    status: int | None,
    body: object,
    message: str,
    headers: Mapping[str, str],
    *,
    model: str,
    server: str | None,
) -> ModelError:
    code = str(_field(body, "code") or "")
    # Some services answer a request with too many tokens with 429, where waiting does not help.
    if status == 413 or (status in {None, 400, 422, 429, 500} and _TOO_LONG.search(f"{code} {message}")):
        return too_long(message, status=status, server=server)
    if code in {"content_filter", "content_policy_violation"} or _FILTERED.search(message):
        return PromptFiltered(
            f"A filter at the endpoint refused the prompt: {message}",
            status=status,
            server=server,
            fix="Look at prompt and tool results for what the provider does not allow",
        )
    is_used_up = code in _QUOTA_CODES or _NO_CREDIT.search(message)
    # OpenAI says 429 and Anthropic 400 for an empty account, where waiting does not help.
    if status == 402 or (is_used_up and status in {None, 400, 403, 429}):
        return _quota(message, status, server)
    if code == "tool_use_failed":  # Groq's, for a call that the model wrote badly
        return ModelAnswerInvalid(
            f"The endpoint cannot read the model's call: {message}",
            status=status,
            server=server,
            fix=_TRY_LATER,
            tries=3,
        )
    if status == 400 and _WRONG_KEY.search(message):  # Google's and xAI's
        return login_failed(status, message, server)
    refused = ModelRequestRefused(
        f"The endpoint does not take the request ({status}): {message}",
        status=status,
        server=server,
        fix=_fix_for_refusal(message),
    )
    # OpenRouter says 404 and llama.cpp 500 for requests that cannot succeed.
    cannot_succeed = _NO_TOOLS.search(message) or refused.about_roles or refused.about_system_message
    if status in {404, 500} and cannot_succeed:
        return refused
    match status:
        case None:
            return ModelBusy(f"The endpoint answered with an error: {message}", server=server, fix=_TRY_LATER)
        case 401 | 403:
            return login_failed(status, message, server)
        case 404:
            return ModelNotFound(
                f"The endpoint knows no model '{model}', or nothing is at its base URL: {message}",
                status=status,
                server=server,
                fix="Choose a model from the list in the node that connects the model; a base URL often ends"
                " in /v1",
            )
        case 429:
            return ModelBusy(
                f"The endpoint takes no more requests for now (429): {message}",
                status=status,
                retry_after=retry_after(headers, str(body)),
                server=server,
                fix="Wait, use fewer or shorter requests, or raise the limit of your account",
            )
        case _ if status >= 500 or status in {408, 409}:
            return ModelBusy(
                f"The endpoint has trouble ({status}): {message}",
                status=status,
                retry_after=retry_after(headers, str(body)),
                server=server,
                fix=_TRY_LATER,
            )
        case _ if 300 <= status < 400:
            return moved(status, server)
        case _:
            return refused


def _fix_for_refusal(message: str) -> str:
    if _NO_TOOLS.search(message):
        return (
            "Choose a model that can call tools; a server of your own may have to be told to let it (vLLM:"
            " --enable-auto-tool-choice and --tool-call-parser, llama.cpp: --jinja)"
        )
    if _TOO_MANY_TOOLS.search(message):
        return (
            "Hand out fewer tools (Include in the MCP Tool Provider), or lower 'Tokens for tools', so that"
            " the model searches for those that it needs"
        )
    return (
        "The endpoint's own words say what it objects to; the usual causes are a model without tools, a"
        " setting that the model does not know (temperature, token limit), and a tool's schema"
    )


def too_long(message: str, *, status: int | None = None, server: str | None = None) -> ContextTooLong:
    """The error for a conversation that does not fit, with the endpoint's message."""
    return ContextTooLong(
        f"The conversation does not fit into the model's context: {message}",
        status=status,
        server=server,
        fix="Hand out fewer tools, let tools give shorter results, shorten the history, or choose a model"
        " with a larger context",
    )


def _quota(message: str, status: int | None, server: str | None) -> QuotaExceeded:
    return QuotaExceeded(
        f"The account at the endpoint is used up: {message}",
        status=status,
        server=server,
        fix="Look at plan and billing of the account; waiting does not help",
    )


def login_failed(status: int, message: str, server: str | None) -> ModelLoginFailed:
    """The error for a refused login, with the endpoint's message for 403."""
    if status != 403:
        # Without the endpoint's message, in which services repeat parts of the key.
        return ModelLoginFailed(
            f"The endpoint does not accept the credential ({status})",
            status=status,
            server=server,
            fix="Choose a credential whose password is the API key in the node that connects the model",
        )
    return ModelLoginFailed(
        f"The endpoint does not allow this (403): {message}",
        status=status,
        server=server,
        fix="Check what the account and its API key may use: model, project, region",
    )


def moved(status: int, server: str | None) -> ModelNotFound:
    return ModelNotFound(
        f"The endpoint is elsewhere ({status})",
        status=status,
        server=server,
        fix="Enter the base URL as the provider's documentation gives it; requests with a key are not sent on"
        " to another address",
    )


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


def retry_after(headers: Mapping[str, str], message: str = "") -> float | None:
    """Reads how many seconds an endpoint asks to wait, at least 0; None if it gives no time.

    Headers are ``Retry-After`` in seconds or as a date (RFC 9110 §10.2.3), or ``retry-after-ms``. Some
    services write the time into the message: "Please try again in 1m2.5s".
    """
    # Azure's header, which is more exact than the standard one beside it.
    milliseconds = parse_retry_after(headers.get("retry-after-ms"))
    seconds = parse_retry_after(headers.get("retry-after")) if milliseconds is None else milliseconds / 1000
    if seconds is not None:
        return seconds
    # OpenAI and Google write the time into the message only.
    requested = _ASKS_TO_WAIT.search(message)
    if requested is None:
        return None
    return sum(float(count) * _SECONDS[unit.lower()] for count, unit in _TIME.findall(requested[1]))


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
