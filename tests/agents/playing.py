"""Runs an agent against a scripted endpoint, with real functions as its tools."""

import asyncio
import threading
import time
from typing import Any, NamedTuple

from langchain_core.messages import HumanMessage, SystemMessage

from knime_mcp.agents.agent_events import AgentOptions, AgentOutcome, ModelRetried
from knime_mcp.agents.agent_loop import run_agent
from knime_mcp.agents.model.agent_model import ModelRequest
from knime_mcp.agents.model.chat_model import ChatModelSettings, create_model, model_route
from knime_mcp.agents.toolbox.replies import ToolReply
from knime_mcp.types.errors import Canceled
from tests.support.chat_server import ChatServer, orphans

DEADLINE = 30.0
QUESTION = (SystemMessage("Be brief."), HumanMessage("What is KNIME?"))


def definition(name, schema=None):
    parameters = schema if schema is not None else {"type": "object", "properties": {}}
    return {
        "type": "function",
        "function": {"name": name, "description": f"Does {name}.", "parameters": parameters},
    }


class Functions:
    """Tools by name: functions of (arguments, is_canceled) that return text, blocks or a `ToolReply`."""

    def __init__(self, schemas=None, /, **functions):
        self.functions = functions
        self.schemas = schemas or {}
        self.requests = []
        self.most = 0
        self._running = 0
        self._lock = threading.Lock()

    def definitions(self):
        return [definition(name, self.schemas.get(name)) for name in self.functions]

    def make_room(self, context):
        return False

    def offer_at_most(self, count):
        return False

    def shortened(self, text, origin):
        return text

    def shown_name(self, name):
        return f"The {name}" if name in self.functions else name

    def run(self, request, *, is_canceled):
        with self._lock:
            self.requests.append(request)
            self._running += 1
            self.most = max(self.most, self._running)
        try:
            if request.error is not None:
                said = f"Error: {request.error} {request.written}"
                return ToolReply(request=request, content=said, failed=True)
            if request.name not in self.functions:
                text = f"Error: there is no tool '{request.name}'."
                return ToolReply(request=request, content=text, failed=True)
            made = self.functions[request.name](request.arguments, is_canceled)
            if isinstance(made, ToolReply):
                return made
            return ToolReply(request=request, content=made)
        finally:
            with self._lock:
                self._running -= 1


def patient(arguments, is_canceled):
    """A tool that waits until it is canceled."""
    until = time.monotonic() + DEADLINE
    while time.monotonic() < until:
        if is_canceled():
            raise Canceled("stopped")
        time.sleep(0.01)
    raise AssertionError("nobody canceled")


def model_at(server, credential=None, **settings):
    """The model at a chat server, made as the nodes make it."""
    fields = {"model": "test-model", "timeout": 10.0, **settings}
    headers = fields.pop("headers", ())
    url = fields.pop("url", None) or server.url
    route = model_route(url, credential=credential and credential.name, headers=headers)
    return create_model(ChatModelSettings(route=route, **fields), credential)


def asked(model, messages="Hi", **request):
    """The model's answer to one request."""

    async def ask():
        try:
            listed = [HumanMessage(messages)] if isinstance(messages, str) else messages
            return await model.answer(ModelRequest(messages=listed, **request))
        finally:
            await model.release_connections()

    return asyncio.run(ask())


class Played(NamedTuple):
    """The outcome of a script."""

    outcome: AgentOutcome
    server: ChatServer
    retries: list[ModelRetried]
    events: list[Any]


def play(
    turns,
    tools=None,
    messages=QUESTION,
    *,
    to_the_end=True,
    on_event=None,
    is_canceled=None,
    credential=None,
    model=None,
    **options,
):
    """Plays a script, by default to its end; checks that each tool call has an answer.

    `model` are settings of the model, `options` those of the agent.
    """
    events = []

    def listen(event):
        events.append(event)
        if on_event is not None:
            on_event(event)

    with ChatServer(turns) as server:
        player = model_at(server, credential, **(model or {}))
        outcome = run_agent(
            player,
            tools or Functions(),
            messages,
            AgentOptions(**options),
            on_event=listen,
            is_canceled=is_canceled,
        )
    if to_the_end:
        assert server.complaints == []
        assert server.unplayed == 0
    assert orphans(player.body(ModelRequest(messages=outcome.messages))["messages"]) is None
    return Played(outcome, server, [event for event in events if isinstance(event, ModelRetried)], events)


def play_at(url, model, **settings):
    """The outcome of a question at any endpoint, and why requests were sent again."""
    reasons = []

    def listen(event):
        if isinstance(event, ModelRetried):
            reasons.append(event.reason)

    asked = create_model(ChatModelSettings(route=model_route(url), model=model, **settings), None)
    return run_agent(asked, Functions(), QUESTION, on_event=listen), reasons
