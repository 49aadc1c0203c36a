"""The possible answers to a request: a JSON-RPC response or a refusal."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from .jsonrpc import Message, RpcError, error_of


@dataclass(frozen=True, slots=True)
class Response:
    """The JSON-RPC response to a request: a result or an error.

    Attributes:
        message: The response.
        headers: HTTP response headers, case-insensitive; empty for transports without headers.
        body: The JSON text that the message was read from.
    """

    message: Message
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    body: bytes | str = field(default=b"", repr=False)

    def may_mention(self, word: str) -> bool:
        """Returns whether the message may contain a word without special characters.

        Searching the text is a hundred times cheaper than walking over the values. True for every text with
        Unicode escapes.
        """
        if isinstance(self.body, str):
            return word in self.body or "\\u" in self.body
        return word.encode() in self.body or b"\\u" in self.body


@dataclass(frozen=True, slots=True)
class Refusal:
    """An answer without a successful HTTP status or without a JSON-RPC response.

    Attributes:
        status: HTTP status.
        media_type: Media type of the body, in lower case, without parameters.
        excerpt: Start of the body in one line, or the title of a web page; short.
        error: The JSON-RPC error in the body, if there was one. Its id is not checked, as servers put null or
            texts there.
        challenge: ``WWW-Authenticate``, all challenges joined by commas.
        retry_after: Seconds from ``Retry-After``.
        sent_session: True if the request had a session id.
        message: The JSON-RPC message in the body, if there was one.
    """

    status: int
    media_type: str = ""
    excerpt: str = ""
    error: RpcError | None = None
    challenge: str | None = None
    retry_after: float | None = None
    sent_session: bool = False
    message: Message | None = None

    @property
    def is_transient(self) -> bool:
        """True if the same request may succeed later."""
        return self.status in {408, 429} or self.status >= 500


Answer = Response | Refusal


def rpc_error(answer: Answer) -> RpcError | None:
    """The JSON-RPC error of an answer, whatever its HTTP status."""
    return answer.error if isinstance(answer, Refusal) else error_of(answer.message)
