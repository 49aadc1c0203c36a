"""What can go wrong between an agent and its model, told apart by what a person can do about it.

::

    MCPError
    └── ModelError              status, retry_after
        ├── ModelUnreachable    no connection, or no answer in time
        ├── ModelBusy           too many requests, or trouble at the endpoint; may pass
        ├── QuotaExceeded       the account is used up; waiting does not help
        ├── ModelLoginFailed    401 or 403
        ├── ModelNotFound       404: the model, or the path of the base URL
        ├── ModelRequestRefused the endpoint does not take the request
        ├── ContextTooLong      the conversation does not fit into the model's context
        ├── PromptFiltered      a filter before the model refused the prompt
        ├── ModelAnswerInvalid  an answer that says nothing, or nothing that can be read
        └── IterationLimit      the model still asked for tools when the limit was reached
"""

from __future__ import annotations

import email.utils
import math
import re
import time
from typing import TYPE_CHECKING, Any, Final, Unpack, cast

from ...types.errors import MCPError, Place

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

_LONGEST_QUOTE: Final = 300
_UNPRINTABLE: Final = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff]+")
_TOO_LONG: Final = re.compile(
    r"context[ _](?:length|window|size)|maximum context|too many (?:input )?tokens|prompt is too long"
    r"|input is too long|input tokens exceed|request too large|reduce the length of the messages"
    r"|exceeds? the (?:model's )?(?:maximum|max|available) (?:number of )?(?:context|tokens|input)",
    re.IGNORECASE,
)
_NO_IMAGES: Final = re.compile(r"image|vision|multi-?modal|content type", re.IGNORECASE)
_NO_TOOLS: Final = re.compile(
    r"not support (?:tools|tool|function)|tool[ _]choice requires"
    r"|tools? (?:use|calling|calls?) (?:is|are) not|enable-auto-tool-choice|tools param requires",
    re.IGNORECASE,
)
_TOO_MANY_TOOLS: Final = re.compile(
    r"tools'?:? (?:array|list)?.{0,20}(?:too long|too many)|too many tools", re.I
)


class ModelError(MCPError):
    """Something went wrong between the agent and its model.

    Args:
        what: What happened.
        status: The HTTP status.
        retry_after: Seconds that the endpoint asks to wait.
        **place: Where it happened and what to do next.

    Attributes:
        status: The HTTP status, None where there was none.
        retry_after: Seconds that the endpoint asks to wait, None where it did not say.
        tries: How often such a request is sent at most; 1 where sending it again cannot help.
    """

    tries = 1

    def __init__(
        self,
        what: str,
        *,
        status: int | None = None,
        retry_after: float | None = None,
        **place: Unpack[Place],
    ) -> None:
        super().__init__(what, **place)
        self.status = status
        self.retry_after = retry_after


class ModelUnreachable(ModelError):  # noqa: N818 - like the tree it extends
    """No connection to the model's endpoint, or no answer in time."""

    tries = 3


class ModelBusy(ModelError):  # noqa: N818
    """Too many requests, or trouble at the endpoint, which may pass."""

    tries = 5


class QuotaExceeded(ModelError):  # noqa: N818
    """The account at the endpoint is used up."""


class ModelLoginFailed(ModelError):  # noqa: N818
    """The endpoint does not let us in."""


class ModelNotFound(ModelError):  # noqa: N818
    """There is no such model, or nothing at the base URL."""


class ModelRequestRefused(ModelError):  # noqa: N818
    """The endpoint does not take the request.

    Attributes:
        about_images: The endpoint's words are about images.
    """

    @property
    def about_images(self) -> bool:
        """Whether the endpoint's words are about images."""
        return _NO_IMAGES.search(self.what) is not None


class ContextTooLong(ModelError):  # noqa: N818
    """The conversation and the definitions of the tools do not fit into the model's context."""


class PromptFiltered(ModelError):  # noqa: N818
    """A filter before the model refused the prompt."""


class ModelAnswerInvalid(ModelError):  # noqa: N818
    """The model's answer says nothing, or nothing that can be read."""

    tries = 2


class IterationLimit(ModelError):  # noqa: N818
    """The model still asked for tools when the limit was reached."""


def model_error(
    error: Exception, *, model: str = "", server: str | None = None, secrets: Iterable[str] = ()
) -> ModelError:
    """Makes a `ModelError` of what a call of a model raised.

    Args:
        error: What was raised.
        model: The model's name.
        server: The base URL.
        secrets: What must not be shown, should the endpoint repeat it.

    Returns:
        An error that says what to do.
    """
    import openai

    if isinstance(error, ModelError):
        return error.at(server=server)
    if isinstance(error, openai.APITimeoutError):
        return ModelUnreachable(
            f"The model '{model}' did not answer in time",
            server=server,
            fix="Raise 'Timeout' in the node that connects the model, or choose a faster model",
        )
    if isinstance(error, openai.APIConnectionError):
        return _no_connection(error, server)
    if isinstance(error, openai.APIStatusError):
        said = _said(error.body, error.message, secrets)
        code = str(_field(error.body, "code") or "")
        return _of_status(error, code=code, said=said, model=model, server=server)
    if isinstance(error, openai.APIError):  # an error in the middle of a stream
        said = _said(error.body, error.message, secrets)
        if _TOO_LONG.search(f"{error.code} {said}"):
            return _too_long(said, None, server)
        return ModelBusy(f"The endpoint broke off its answer: {said}", server=server, fix=_TRY_LATER)
    # What LangChain raises for an answer in no known form; its text may hold whatever the endpoint sent.
    return ModelAnswerInvalid(
        f"The endpoint's answer cannot be read ({type(error).__name__}): {_quote(str(error), secrets)}",
        server=server,
        fix="Check that the base URL is that of an API in OpenAI's chat-completions form; it often ends in"
        " /v1",
    )


_TRY_LATER: Final = "Try again later, or choose another model"


def _of_status(error: Any, *, code: str, said: str, model: str, server: str | None) -> ModelError:
    status = int(error.status_code)
    headers: Mapping[str, str] = error.response.headers
    # Too many tokens for one request is a rate limit at some services: no waiting helps.
    if status in {400, 413, 422, 429, 500} and _TOO_LONG.search(f"{code} {said}"):
        return _too_long(said, status, server)
    if code in {"content_filter", "content_policy_violation"} or "content management policy" in said:
        return PromptFiltered(
            f"A filter at the endpoint refused the prompt: {said}",
            status=status,
            server=server,
            fix="Look at prompt and tool results for what the provider does not allow",
        )
    match status:
        case 401 | 403:
            return _login(status, said, server)
        case 402:
            return _quota(said, status, server)
        case 404:
            return ModelNotFound(
                f"The endpoint knows no model '{model}', or nothing is at its base URL: {said}",
                status=status,
                server=server,
                fix="Choose a model from the list in the node that connects the model; a base URL often ends"
                " in /v1",
            )
        case 429 if code in {"insufficient_quota", "billing_hard_limit_reached"}:
            return _quota(said, status, server)
        case 429:
            return ModelBusy(
                f"The endpoint takes no more requests for now (429): {said}",
                status=status,
                retry_after=retry_after(headers),
                server=server,
                fix="Wait, use fewer or shorter requests, or raise the limit of your account",
            )
        case _ if status >= 500 or status in {408, 409}:
            return ModelBusy(
                f"The endpoint has trouble ({status}): {said}",
                status=status,
                retry_after=retry_after(headers),
                server=server,
                fix=_TRY_LATER,
            )
        case _ if 300 <= status < 400:
            return ModelNotFound(
                f"The endpoint is elsewhere ({status})",
                status=status,
                server=server,
                fix="Enter the base URL as the provider's documentation gives it; requests with a key are not"
                " sent on to another address",
            )
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


def _too_long(said: str, status: int | None, server: str | None) -> ContextTooLong:
    return ContextTooLong(
        f"The conversation does not fit into the model's context: {said}",
        status=status,
        server=server,
        fix="Hand out fewer tools, let tools give shorter results, shorten the history, or choose a model"
        " with a larger context",
    )


def _quota(said: str, status: int, server: str | None) -> QuotaExceeded:
    return QuotaExceeded(
        f"The account at the endpoint is used up ({status}): {said}",
        status=status,
        server=server,
        fix="Look at plan and billing of the account; waiting does not help",
    )


def _login(status: int, said: str, server: str | None) -> ModelLoginFailed:
    if status == 401:
        # Without the endpoint's words: services repeat parts of the key in them.
        return ModelLoginFailed(
            "The endpoint does not accept the credential (401)",
            status=status,
            server=server,
            fix="Choose a credential whose password is the API key in the node that connects the model",
        )
    return ModelLoginFailed(
        f"The endpoint does not allow this (403): {said}",
        status=status,
        server=server,
        fix="Check what the account and its API key may use: model, project, region",
    )


def _no_connection(error: Exception, server: str | None) -> ModelUnreachable:
    cause = error.__cause__
    if cause is not None and isinstance(cause, MCPError):
        return ModelUnreachable(cause.what, server=server, fix=cause.fix)
    detail = "" if cause is None else f": {_quote(str(cause) or type(cause).__name__, ())}"
    return ModelUnreachable(
        f"No connection to the model's endpoint{detail}",
        server=server,
        fix="Check that it runs, that the base URL is right, and that nothing between (proxy, firewall)"
        " blocks it",
    )


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Reads how long an endpoint asks to wait.

    Args:
        headers: Headers of the response: ``Retry-After`` in seconds or as a date (RFC 9110 §10.2.3), or
            ``retry-after-ms``.

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
    return None


def _field(body: object, name: str) -> object:
    if not isinstance(body, dict):
        return None
    document = cast("dict[str, object]", body)
    inner = document.get("error")
    nested = cast("dict[str, object]", inner) if isinstance(inner, dict) else document
    return nested.get(name)


def _said(body: object, message: str, secrets: Iterable[str]) -> str:
    own = _field(body, "message")
    return _quote(own if isinstance(own, str) and own.strip() else message, secrets)


def _quote(text: str, secrets: Iterable[str]) -> str:
    for secret in secrets:
        if secret:
            text = text.replace(secret, "[secret]")
    text = _UNPRINTABLE.sub(" ", text).strip()
    return text if len(text) <= _LONGEST_QUOTE else f"{text[: _LONGEST_QUOTE - 1]}…"
