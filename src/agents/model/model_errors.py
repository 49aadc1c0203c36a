"""The errors between an agent and its model, one type per remedy.

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
        └── IterationLimit      the model still asked for tools when the limit was reached
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final, Unpack

from ...types.errors import MCPError, Place

if TYPE_CHECKING:
    from collections.abc import Mapping

_NO_IMAGES: Final = re.compile(r"image|vision|multi-?modal|content type", re.IGNORECASE)
_REASONING: Final = re.compile(r"reasoning_content|reasoning_details|thinking_blocks|['\"`.]reasoning['\"`]")
_ROLES: Final = re.compile(r"roles? must alternate|should alternate|unexpected role", re.IGNORECASE)
_NO_SYSTEM: Final = re.compile(
    r"(?:system|developer) (?:role|instruction|message)s? (?:is |are )?not "
    r"|not support '(?:system|developer)'",
    re.IGNORECASE,
)
_CALL_IDS: Final = re.compile(r"tool[ _]call[ _]id|tool_calls\[\d+\]\.id|tool_use\.id", re.IGNORECASE)


class ModelError(MCPError):
    """The base of errors between the agent and its model.

    Args:
        what: The error, as a sentence.
        status: The HTTP status.
        retry_after: Seconds that the endpoint asks to wait.
        tries: The largest number of attempts, if it differs from that of the type.
        **place: The place and the next step, see `Place`.

    Attributes:
        status: The HTTP status, None without a response.
        retry_after: Seconds that the endpoint asks to wait, None if it did not ask.
        tries: The largest number of attempts; 1 where sending the request again cannot help.
    """

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
    """No connection to the model's endpoint, or no answer in time."""

    tries = 3


class ModelBusy(ModelError):  # noqa: N818
    """Too many requests, or trouble at the endpoint, which may pass."""

    tries = 5


class QuotaExceeded(ModelError):  # noqa: N818
    """The account at the endpoint is used up."""


class ModelLoginFailed(ModelError):  # noqa: N818
    """The endpoint refused the credential (401) or the access (403)."""


class ModelNotFound(ModelError):  # noqa: N818
    """The model does not exist, or there is no endpoint at the base URL."""


class ModelRequestRefused(ModelError):  # noqa: N818
    """The endpoint refused the request."""

    @property
    def about_streaming(self) -> bool:
        """True if the error is about streaming: some models require it, some do not support it."""
        return "stream" in self.what.lower()

    @property
    def about_thoughts(self) -> bool:
        """True if the error is about reasoning content, which some endpoints send but refuse."""
        return _REASONING.search(self.what) is not None

    @property
    def about_roles(self) -> bool:
        """True if the error is about the order of messages: some models' templates want the roles in turn."""
        return _ROLES.search(self.what) is not None

    @property
    def about_system_message(self) -> bool:
        """True if the model knows no system message."""
        return _NO_SYSTEM.search(self.what) is not None

    @property
    def about_images(self) -> bool:
        """True if the error is about images."""
        return _NO_IMAGES.search(self.what) is not None


class ContextTooLong(ModelError):  # noqa: N818
    """The conversation and the definitions of the tools do not fit into the model's context."""


class PromptFiltered(ModelError):  # noqa: N818
    """A filter before the model refused the prompt."""


class ModelAnswerInvalid(ModelError):  # noqa: N818
    """The model's answer has no content, or cannot be read."""

    tries = 2


class AnsweredError(Exception):
    """An error document in place of a message, with an HTTP status of success; see `endpoint_errors`.

    Args:
        body: The document with the error.
    """

    def __init__(self, body: Mapping[str, Any]) -> None:
        super().__init__("The endpoint answered with an error")
        self.body = body


class IterationLimit(ModelError):  # noqa: N818
    """The model still asked for tools when the limit was reached."""
