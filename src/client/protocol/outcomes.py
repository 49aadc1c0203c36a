"""What becomes of a request: whether it may have run, and whether it is sent again.

`OUTCOMES` is the one table of it, by which the client acts and which ``docs/errors.md`` shows. That a call
which was sent may have run is the default, the last row; that it has not needs a reason.
"""

import re
from collections.abc import Container
from dataclasses import dataclass
from enum import StrEnum
from http import HTTPStatus
from typing import Final

from .messages import (
    HEADER_MISMATCH,
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    MISSING_CAPABILITY,
    PARSE_ERROR,
    UNSUPPORTED_VERSION,
    URL_ELICITATION_REQUIRED,
    Answer,
    Refusal,
    as_object,
    rpc_error,
)

MAY_HAVE_RUN: Final = "It may have been carried out: see at the server before it is made again."
"""What is said of a call that may have run. No other advice may stand beside it that says to repeat it."""


class Moment(StrEnum):
    """How far a request has come that has no answer."""

    UNSENT = "not all of it was sent"
    MISSED = "it was sent on a connection that the server was probably closing"
    REFUSED = "what was sent so far was refused, and it was to be sent anew"
    SENT = "it was sent"


class Ran(StrEnum):
    """Whether a call may have run."""

    NO = "no"
    MAYBE = "yes"
    ANSWERED = "the server says what came of it"


class Again(StrEnum):
    """When the client sends a request again by itself."""

    NEVER = "no"
    PAUSED = "yes, after a pause"
    HARMLESS = "if the tool is declared read-only or idempotent"
    ELSEWHERE = "yes, to the new address, if that is the server's own"
    LOGGED_IN = "yes, if the login could be renewed"
    NEW_SESSION = "yes, in a new session"
    LOST_SESSION = "yes, in a new session, if a listing is refused likewise; else the rows below hold"
    NEGOTIATED = "yes, after the revision was negotiated anew"
    OTHER_REVISION = (
        "if the server turns out to speak another revision by now, or is reached at another address"
    )
    LISTED = "once, after the tools were listed anew"
    VISITED = "when a person has opened the page"


@dataclass(frozen=True, slots=True)
class _AllBut:
    """A set of everything, except for a few."""

    few: tuple[int | None, ...] = ()

    def __contains__(self, value: object) -> bool:
        return value not in self.few


_ANY: Final = _AllBut()
_ERROR: Final = _AllBut((None,))  # any JSON-RPC error
_NO_ERROR: Final = frozenset({None})
_SUCCESS: Final = range(200, 300)
# A 408 comes from gateways, too, which waited for the server's reply; what is not registered has no meaning.
_REFUSED: Final = frozenset(status.value for status in HTTPStatus if 400 <= status < 500) - {408}
_NOT_UNDERSTOOD: Final = frozenset({PARSE_ERROR, INVALID_REQUEST, METHOD_NOT_FOUND, INVALID_PARAMS})
_OF_SDK_CLIENTS: Final = frozenset({-32000, -32001})
_SESSION: Final = re.compile(r"session|not initialized", re.IGNORECASE)
# Words for a connection that ended or a clock that ran out: of runtimes, of proxies, of the SDKs.
_NO_REPLY: Final = re.compile(
    r"time[ds]?[ -]?out|deadline|connection|network|socket|fetch|hang up|gateway|upstream|proxy|transport"
    r"|stream|\bpeer\b|pipe\b|\beof\b|disconnect|terminated|abort|cancel|unreachable|unavailable"
    r"|\be(?:conn|pipe|host|net|timedout|ai_|notfound)|(?:server|client|remote|request) (?:was )?closed",
    re.IGNORECASE,
)
_LONGEST: Final = 1000  # characters of a text in which words are looked for


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestOutcome:
    """A row of the table: what it is about, and what follows. Of the rows that fit, the first one holds."""

    happened: str
    ran: Ran
    why: str = ""  # why it has not run, or why nobody knows
    again: Again = Again.NEVER
    moment: Moment | None = None  # of a request without an answer
    statuses: Container[int] = _ANY  # of HTTP; 200 over other transports
    codes: Container[int | None] = _ANY  # of the JSON-RPC error; None: there is none
    words: re.Pattern[str] | None = None  # in its message and data, or in what stands in its place
    in_session: bool = False  # only if the request belonged to a session
    is_modern: bool = False  # only if a modern revision is spoken

    @property
    def said(self) -> str:
        """The status of the call, and what is said beside the server's words."""
        match self.ran:
            case Ran.NO:
                return "*failed*"
            case Ran.ANSWERED:
                return "*failed*, with the server's words"
            case Ran.MAYBE:
                return f"*outcome unknown*. {MAY_HAVE_RUN}"


OUTCOMES: Final = (
    RequestOutcome(
        happened="There is no connection, or it ended before the whole request was sent",
        ran=Ran.NO,
        why="a server begins with a whole request only",
        again=Again.PAUSED,
        moment=Moment.UNSENT,
    ),
    RequestOutcome(
        happened="A login that the server asked for fails, or 307 or 308 leads where nothing may be sent",
        ran=Ran.NO,
        why="see 401 and 307 below",
        moment=Moment.REFUSED,
    ),
    RequestOutcome(
        happened="A kept connection ends before a byte of the reply, or brings the reply to another request",
        ran=Ran.MAYBE,
        why="the server was probably closing it",
        again=Again.HARMLESS,
        moment=Moment.MISSED,
    ),
    RequestOutcome(
        happened="After it was sent, connection, process or stream end, a clock runs out, or the reply breaks"
        " off or cannot be read",
        ran=Ran.MAYBE,
        moment=Moment.SENT,
    ),
    RequestOutcome(
        happened="429",
        ran=Ran.NO,
        why="it was too much to be handled (RFC 6585 §4)",
        again=Again.PAUSED,
        statuses=frozenset({429}),
    ),
    RequestOutcome(
        happened="307, 308",
        ran=Ran.NO,
        why="it is to be sent unchanged to another address (RFC 9110 §15.4.8)",
        again=Again.ELSEWHERE,
        statuses=frozenset({307, 308}),
    ),
    RequestOutcome(
        happened="404 or 410 in a session, but for errors about the method or the tool",
        ran=Ran.NO,
        why="the session is lost (2025-11-25, *Session Management*)",
        again=Again.NEW_SESSION,
        statuses=frozenset({404, 410}),
        codes=_AllBut((METHOD_NOT_FOUND, INVALID_PARAMS)),
        in_session=True,
    ),
    RequestOutcome(
        happened="404 or 410 in a session, with any error that speaks of the session",
        ran=Ran.NO,
        why="as above",
        again=Again.NEW_SESSION,
        statuses=frozenset({404, 410}),
        words=_SESSION,
        in_session=True,
    ),
    RequestOutcome(
        happened="400 or 401 that speaks of the session, but for errors about the method or the tool",
        ran=Ran.NO,
        why="it was refused, as many servers refuse what is of a lost session",
        again=Again.NEW_SESSION,
        statuses=frozenset({400, 401}),
        codes=_AllBut((METHOD_NOT_FOUND, INVALID_PARAMS)),
        words=_SESSION,
        in_session=True,
    ),
    RequestOutcome(
        happened="Any other 401, or 403",
        ran=Ran.NO,
        why="it was not applied (RFC 9110 §15.5.2, §15.5.4)",
        again=Again.LOGGED_IN,
        statuses=frozenset({401, 403}),
    ),
    RequestOutcome(
        happened="A JSON-RPC error in a 2xx that speaks of the session",
        ran=Ran.NO,
        why="no tool answers a listing",
        again=Again.LOST_SESSION,
        statuses=_SUCCESS,
        codes=_ERROR,
        words=_SESSION,
        in_session=True,
    ),
    RequestOutcome(
        happened="Error -32020 (2026-07-28)",
        ran=Ran.NO,
        why="its headers were refused",
        again=Again.LISTED,
        codes=frozenset({HEADER_MISMATCH}),
        is_modern=True,
    ),
    RequestOutcome(
        happened="Error -32021 (2026-07-28)",
        ran=Ran.NO,
        why="the tool needs what this client does not have",
        codes=frozenset({MISSING_CAPABILITY}),
        is_modern=True,
    ),
    RequestOutcome(
        happened="Error -32022 (2026-07-28)",
        ran=Ran.NO,
        why="the server does not speak the revision",
        again=Again.NEGOTIATED,
        codes=frozenset({UNSUPPORTED_VERSION}),
        is_modern=True,
    ),
    RequestOutcome(
        happened="400, 404 or 405 without a JSON-RPC error (2026-07-28)",
        ran=Ran.NO,
        why="it was refused, as by a server of an older revision, or by a machine that is gone",
        again=Again.OTHER_REVISION,
        statuses=frozenset({400, 404, 405}),
        codes=_NO_ERROR,
        is_modern=True,
    ),
    RequestOutcome(
        happened="Error -32042",
        ran=Ran.NO,
        why="a person has to open a page before (2025-11-25, *URL Elicitation Required*)",
        again=Again.VISITED,
        statuses=_SUCCESS,
        codes=frozenset({URL_ELICITATION_REQUIRED}),
    ),
    RequestOutcome(
        happened="Error -32700, -32600, -32601 or -32602 with 2xx, 4xx or 500",
        ran=Ran.NO,
        why="the request was not understood, or there is no such tool (JSON-RPC 2.0 §5.1)",
        statuses=frozenset({*_SUCCESS, *_REFUSED, 500}),
        codes=_NOT_UNDERSTOOD,
    ),
    RequestOutcome(
        happened="Any other error whose words are of connections and clocks, such as *fetch failed*",
        ran=Ran.MAYBE,
        why="a gateway tells of its own connection to the server",
        codes=_ERROR,
        words=_NO_REPLY,
    ),
    RequestOutcome(
        happened="Error -32000 or -32001 in a 2xx",
        ran=Ran.MAYBE,
        why="clients made with the SDKs, such as gateways, write these if they got no reply",
        statuses=_SUCCESS,
        codes=_OF_SDK_CLIENTS,
    ),
    RequestOutcome(
        happened="Any other JSON-RPC error in a 2xx, such as -32603 or a server's own",
        ran=Ran.ANSWERED,
        statuses=_SUCCESS,
        codes=_ERROR,
    ),
    RequestOutcome(
        happened="Any other 4xx that is registered, but 408",
        ran=Ran.NO,
        why="the server will not process it (RFC 9110 §15.5)",
        statuses=_REFUSED,
    ),
    RequestOutcome(
        happened="Anything else: 2xx with text, a web page or nothing, 202, 204, 3xx, 408, 5xx with any body",
        ran=Ran.MAYBE,
        why="it was sent, and no answer is known",
    ),
)
_UNANSWERED: Final = {row.moment: row for row in OUTCOMES if row.moment is not None}
_ANSWERED: Final = tuple(row for row in OUTCOMES if row.moment is None)


def unanswered(moment: Moment) -> RequestOutcome:
    """The outcome of a request that got no answer."""
    return _UNANSWERED[moment]


def outcome_of(answer: Answer, *, is_modern: bool, in_session: bool) -> RequestOutcome:
    """The outcome of a request whose answer is no result."""
    error = rpc_error(answer)
    status = answer.status if isinstance(answer, Refusal) else 200
    code = None if error is None else error.code
    if error is not None:
        # Gateways write "Internal error" and put the cause into the data.
        texts = [error.message, error.data, *as_object(error.data).values()]
        said = " ".join(text[:_LONGEST] for text in texts if isinstance(text, str))
    else:
        said = answer.excerpt if isinstance(answer, Refusal) else ""
    for row in _ANSWERED:
        if (
            status in row.statuses
            and code in row.codes
            and (in_session or not row.in_session)
            and (is_modern or not row.is_modern)
            and (row.words is None or row.words.search(said))
        ):
            return row
    raise AssertionError("the last row fits everything")
