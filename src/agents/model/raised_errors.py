"""Tells apart what goes wrong between an agent and its model: a `ModelError` of whatever asking it raised."""

from __future__ import annotations

import email.utils
import json
import math
import re
import time
from typing import TYPE_CHECKING, Final, cast

from ...types.errors import MCPError
from .model_errors import (
    AnsweredError,
    ContextTooLong,
    ModelAnswerInvalid,
    ModelBusy,
    ModelError,
    ModelLoginFailed,
    ModelNotFound,
    ModelRequestRefused,
    ModelUnreachable,
    PromptFiltered,
    QuotaExceeded,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

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
    r"not support (?:tools|tool|function)|tool[ _]choice requires"
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
_USED_UP: Final = frozenset(("insufficient_quota", "billing_hard_limit_reached"))
_NO_CREDIT: Final = re.compile(r"credit balance|insufficient (?:balance|credits?|funds)", re.IGNORECASE)


def model_error(
    error: Exception, *, model: str = "", server: str | None = None, secrets: Iterable[str] = ()
) -> ModelError:
    """Makes a `ModelError`, which says what to do, of what a call of a model raised.

    Args:
        error: What was raised.
        model: The model's name.
        server: The base URL.
        secrets: What must not be shown, should the endpoint repeat it.
    """
    import httpx
    import openai

    match error:
        case ModelError():
            return error.at(server=server)
        case openai.APITimeoutError() | httpx.TimeoutException():
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
        case openai.APIConnectionError():
            return no_connection(error.__cause__, server)
        case openai.APIStatusError():
            said = _said(error.body, error.message, secrets)
            headers = error.response.headers
            return _of_status(error.status_code, error.body, said, headers, model=model, server=server)
        case AnsweredError():
            said = _said(error.body, str(error.body.get("error") or "no reason given"), secrets)
            status = _status_in(error.body)
            return _of_status(status, error.body, said, {}, model=model, server=server)
        case _:
            pass
    # What LangChain raises for an answer in no known form; its text may hold whatever the endpoint sent.
    return ModelAnswerInvalid(
        f"The endpoint's answer cannot be read ({type(error).__name__}): {_quote(str(error), secrets)}",
        server=server,
        fix="Check that the base URL is that of an API in OpenAI's chat-completions form; it often ends in"
        " /v1",
    )


def _status_in(body: Mapping[str, object]) -> int | None:
    """The status that an error speaks of which came with status 200."""
    code = str(_field(body, "code"))
    return int(code) if re.fullmatch(r"[45]\d\d", code) else None


def _of_status(
    status: int | None, body: object, said: str, headers: Mapping[str, str], *, model: str, server: str | None
) -> ModelError:
    code = str(_field(body, "code") or "")
    # Too many tokens for one request is a rate limit at some services: no waiting helps.
    if status == 413 or (status in {None, 400, 422, 429, 500} and _TOO_LONG.search(f"{code} {said}")):
        return too_long(said, status=status, server=server)
    if code in {"content_filter", "content_policy_violation"} or "content management policy" in said:
        return PromptFiltered(
            f"A filter at the endpoint refused the prompt: {said}",
            status=status,
            server=server,
            fix="Look at prompt and tool results for what the provider does not allow",
        )
    is_used_up = code in _USED_UP or _NO_CREDIT.search(said)
    if status == 402 or (is_used_up and status in {None, 400, 403, 429}):
        return _quota(said, status, server)
    match status:
        case None:
            return ModelBusy(f"The endpoint answered with an error: {said}", server=server, fix=_TRY_LATER)
        case 401 | 403:
            return login_failed(status, said, server)
        case 404:
            return ModelNotFound(
                f"The endpoint knows no model '{model}', or nothing is at its base URL: {said}",
                status=status,
                server=server,
                fix="Choose a model from the list in the node that connects the model; a base URL often ends"
                " in /v1",
            )
        case 429:
            return ModelBusy(
                f"The endpoint takes no more requests for now (429): {said}",
                status=status,
                retry_after=retry_after(headers, str(body)),
                server=server,
                fix="Wait, use fewer or shorter requests, or raise the limit of your account",
            )
        case _ if status >= 500 or status in {408, 409}:
            return ModelBusy(
                f"The endpoint has trouble ({status}): {said}",
                status=status,
                retry_after=retry_after(headers, str(body)),
                server=server,
                fix=_TRY_LATER,
            )
        case _ if 300 <= status < 400:
            return moved(status, server)
        case _:
            return ModelRequestRefused(
                f"The endpoint does not take the request ({status}): {said}",
                status=status,
                server=server,
                fix=_fix_for_refusal(said),
            )


def _fix_for_refusal(said: str) -> str:
    if _NO_TOOLS.search(said):
        return (
            "Choose a model that can call tools; a server of your own may have to be told to let it (vLLM:"
            " --enable-auto-tool-choice and --tool-call-parser, llama.cpp: --jinja)"
        )
    if _TOO_MANY_TOOLS.search(said):
        return (
            "Hand out fewer tools (Include in the MCP Tool Provider), or lower 'Tokens for tools', so that"
            " the model searches for those that it needs"
        )
    return (
        "The endpoint's own words say what it objects to; the usual causes are a model without tools, a"
        " setting that the model does not know (temperature, token limit), and a tool's schema"
    )


def too_long(said: str, *, status: int | None = None, server: str | None = None) -> ContextTooLong:
    """The conversation does not fit, and what the endpoint said of it."""
    return ContextTooLong(
        f"The conversation does not fit into the model's context: {said}",
        status=status,
        server=server,
        fix="Hand out fewer tools, let tools give shorter results, shorten the history, or choose a model"
        " with a larger context",
    )


def _quota(said: str, status: int | None, server: str | None) -> QuotaExceeded:
    return QuotaExceeded(
        f"The account at the endpoint is used up: {said}",
        status=status,
        server=server,
        fix="Look at plan and billing of the account; waiting does not help",
    )


def login_failed(status: int, said: str, server: str | None) -> ModelLoginFailed:
    """An endpoint does not let us in: 401 or 403, and what it said."""
    if status == 401:
        # Without the endpoint's words: services repeat parts of the key in them.
        return ModelLoginFailed(
            "The endpoint does not accept the credential (401)",
            status=status,
            server=server,
            fix="Choose a credential whose password is the API key in the node that connects the model; on"
            " the command line name the variable that holds the key with --api-key-env",
        )
    return ModelLoginFailed(
        f"The endpoint does not allow this (403): {said}",
        status=status,
        server=server,
        fix="Check what the account and its API key may use: model, project, region",
    )


def moved(status: int, server: str | None) -> ModelNotFound:
    """An endpoint sends us elsewhere."""
    return ModelNotFound(
        f"The endpoint is elsewhere ({status})",
        status=status,
        server=server,
        fix="Enter the base URL as the provider's documentation gives it; requests with a key are not sent on"
        " to another address",
    )


def no_connection(cause: BaseException | None, server: str | None) -> ModelUnreachable:
    """The error for an endpoint that cannot be reached, with the reason."""
    if cause is not None and isinstance(cause, MCPError):
        return ModelUnreachable(cause.what, server=server, fix=cause.fix)
    detail = "" if cause is None else f": {_quote(str(cause) or type(cause).__name__, ())}"
    return ModelUnreachable(
        f"No connection to the model's endpoint{detail}",
        server=server,
        fix="Check that it runs, that the base URL is right, and that nothing between (proxy, firewall)"
        " blocks it",
    )


def retry_after(headers: Mapping[str, str], said: str = "") -> float | None:
    """Reads how long an endpoint asks to wait.

    Args:
        headers: Headers of the response: ``Retry-After`` in seconds or as a date (RFC 9110 §10.2.3), or
            ``retry-after-ms``.
        said: Its error, where some services say it instead: "Please try again in 1m2.5s".

    Returns:
        Seconds, at least 0; None if it does not say.
    """
    for name, unit in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        text = headers.get(name)
        if not text:
            continue
        try:
            seconds = float(text) * unit
        except ValueError:
            try:
                seconds = email.utils.parsedate_to_datetime(text).timestamp() - time.time()
            except ValueError:
                continue
        if math.isfinite(seconds):
            return max(0.0, seconds)
    asked = _ASKS_TO_WAIT.search(said)
    if asked is None:
        return None
    return sum(float(count) * _SECONDS[unit.lower()] for count, unit in _TIME.findall(asked[1]))


def _field(body: object, name: str) -> object:
    """A field of an error; some services put it into a list."""
    entries = cast("list[object]", body) if isinstance(body, list) else [body]
    if not entries or not isinstance(entries[0], dict):
        return None
    document = cast("dict[str, object]", entries[0])
    inner = document.get("error")
    nested = cast("dict[str, object]", inner) if isinstance(inner, dict) else document
    return nested.get(name)


def _said(body: object, message: str, secrets: Iterable[str]) -> str:
    texts = (body, *(_field(body, name) for name in ("message", "error", "detail")))
    said = next((text for text in texts if isinstance(text, str) and text.strip()), None)
    return _quote(said or (json.dumps(body, ensure_ascii=False) if body else message), secrets)


def _quote(text: str, secrets: Iterable[str]) -> str:
    for secret in secrets:
        if secret:
            text = text.replace(secret, "[secret]")
    text = _UNPRINTABLE.sub(" ", text).strip()
    return text if len(text) <= _LONGEST_QUOTE else f"{text[: _LONGEST_QUOTE - 1]}…"
