"""Calls that ask something of a client of 2026-07-28: the questions are results, the answers a new request.

Servers of this revision send no requests:
https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/mrtr. A call that asks goes on in the
background, and is found again by the ``requestState`` of the next request.
"""

from __future__ import annotations

import asyncio
import secrets
from dataclasses import replace
from itertools import count
from typing import TYPE_CHECKING, Any, Final

from ..stdio.session import INVALID_PARAMS, Refused, RequestedCall
from .graph_service import ANSWER_SECONDS

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from ..stdio.session import Report, RequestingClient

    Call = Callable[[RequestedCall, Report | None], Awaitable[dict[str, Any]]]

_MOST_WAITING: Final = 64
"""Calls that wait for an answer of their client; with one more the oldest ends, as others need the room."""


class InputRounds:
    """The calls that wait for answers. For one event loop.

    Args:
        call: Makes a call to its end.
    """

    def __init__(self, call: Call) -> None:
        self._call = call
        self._waiting: dict[str, CallInRounds] = {}

    async def call(
        self,
        asked: RequestedCall,
        report: Report | None,
        *,
        state: str | None,
        answers: Mapping[str, Any],
    ) -> dict[str, Any]:
        """Begins a call, or goes on with that of a `state` (`Refused`: there is none); may ask for input."""
        if state is None:
            conversation = CallInRounds(self._call, asked)
        else:
            found = self._waiting.pop(state, None)
            # The specification, *Server Requirements*: a state is what an attacker may have made up. This
            # one is random, and only finds a call with the same tool and arguments.
            if found is None or not found.is_about(asked):
                raise Refused(INVALID_PARAMS, "No call waits for these answers any more; call again")
            conversation = found
            conversation.expiry.cancel()
        questions = await conversation.round(asked.client, report, answers)
        if questions is None:
            return conversation.task.result()
        if len(self._waiting) >= _MOST_WAITING:
            self._give_up(next(iter(self._waiting)))
        # A new one for each round, so that old answers cannot be sent twice.
        state = secrets.token_urlsafe(24)
        self._waiting[state] = conversation
        loop = asyncio.get_running_loop()
        conversation.expiry = loop.call_later(ANSWER_SECONDS, self._give_up, state)
        return {"resultType": "input_required", "inputRequests": questions, "requestState": state}

    def _give_up(self, state: str) -> None:
        conversation = self._waiting.pop(state)
        conversation.expiry.cancel()
        conversation.task.cancel()

    def close(self) -> None:
        """Ends the calls that wait."""
        for state in list(self._waiting):
            self._give_up(state)


class CallInRounds:
    """A call that may take several requests; for the call itself it is the `RequestingClient`."""

    expiry: asyncio.TimerHandle

    def __init__(self, call: Call, asked: RequestedCall) -> None:
        self.capabilities: Mapping[str, Any] = {} if asked.client is None else asked.client.capabilities
        self._asked = asked
        self._client = asked.client
        self._report: Report | None = None
        self._keys = count(1)
        self._news = asyncio.Event()
        self._open: dict[str, tuple[dict[str, Any], asyncio.Future[dict[str, Any]]]] = {}
        self.task = asyncio.ensure_future(self._run(call, replace(asked, client=self)))

    async def _run(self, call: Call, asked: RequestedCall) -> dict[str, Any]:
        # The first round has begun: a task starts only when the one that made it waits.
        return await call(asked, None if self._report is None else self._tell_progress)

    def is_about(self, asked: RequestedCall) -> bool:
        return (asked.tool, asked.arguments) == (self._asked.tool, self._asked.arguments)

    async def round(
        self, client: RequestingClient | None, report: Report | None, answers: Mapping[str, Any]
    ) -> dict[str, dict[str, Any]] | None:
        """Takes answers, and waits until the call has ended (None) or asks something."""
        self._client, self._report = client, report
        for key, (_, answer) in self._open.items():
            if key in answers and not answer.done():
                answer.set_result(answers[key])
        if all(answer.done() for _, answer in self._open.values()):
            self._news.clear()
        news = asyncio.ensure_future(self._news.wait())
        try:
            await asyncio.wait({self.task, news}, return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            # The client has left or canceled the request that carries this round.
            self.task.cancel()
            raise
        finally:
            news.cancel()
        if self.task.done():
            return None
        return {key: question for key, (question, answer) in self._open.items() if not answer.done()}

    async def ask(self, method: str, params: Mapping[str, Any]) -> dict[str, Any]:
        """See `RequestingClient`."""
        key, answer = f"q{next(self._keys)}", asyncio.get_running_loop().create_future()
        self._open[key] = {"method": method, "params": dict(params)}, answer
        self._news.set()
        try:
            return await answer
        finally:
            del self._open[key]

    async def tell(self, method: str, params: Mapping[str, Any]) -> None:
        """See `RequestingClient`."""
        if self._client is not None:
            await self._client.tell(method, params)

    async def _tell_progress(self, done: float, total: float | None, text: str | None) -> None:
        if self._report is not None:
            await self._report(done, total, text)
