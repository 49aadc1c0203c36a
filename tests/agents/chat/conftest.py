"""Fixtures of the chat: those of the agent node, and the service of the view."""

import threading
import time

import pyarrow as pa
import pytest

from tests.agents.prompter.conftest import model_of, rows_of, script, servers, tools_of, workflow_tool

__all__ = ["model_of", "rows_of", "script", "servers", "tools_of", "workflow_tool"]

DEADLINE = 60.0


class Page:
    """What a chat's page knows of the conversation: the events until now."""

    def __init__(self, service):
        self.call = service
        self.events, self.last, self.cost = [], 0, None
        self.is_handed_on = False

    def hand_on(self):
        """What KNIME gets when the node is executed again; the conversation here is over."""
        self.is_handed_on = True
        return self.call.view_data()

    def poll(self):
        news = self.call("poll", self.last)
        self.last, self.cost = news["last"], news["cost"]
        self.events += news["events"]
        return news

    def until(self, kind):
        """Waits for the next event of a kind."""
        known, deadline = len(self.events), time.monotonic() + DEADLINE
        while True:
            found = [event for event in self.events[known:] if event["kind"] == kind]
            if found:
                return found[0]
            assert time.monotonic() < deadline, self.events
            self.poll()

    def answered(self, question):
        """Asks, and waits for the end of the answer."""
        assert self.call("ask", question) is None
        return self.done()

    def done(self):
        deadline = time.monotonic() + DEADLINE
        while self.poll()["busy"]:
            assert time.monotonic() < deadline, self.events
        self.poll()
        return self.events

    def of(self, kind):
        return [event for event in self.events if event["kind"] == kind]


@pytest.fixture(autouse=True)
def chats(tmp_path, monkeypatch):
    """The folder in which this user's chats are kept."""
    for variable in ("XDG_DATA_HOME", "LOCALAPPDATA"):
        monkeypatch.setenv(variable, str(tmp_path / "own"))
    return tmp_path / "own" / "knime-mcp" / "chats"


@pytest.fixture
def chat(host, model_of):
    """The page of a chat on a scripted model, and what was handed on."""

    def begin(server, tools=None, history=None, data=(), view_data=None, **parameters):
        tables = [host.table(pa.table(table)) for table in data]
        inputs = [model_of(server), tools, history, tables, None]
        options = {name: parameters.pop(name) for name in ("tool_handler",) if name in parameters}
        service = host.data_service("mcp_agent_chat", inputs, parameters, view_data=view_data, **options)
        pages.append(Page(service))
        return pages[-1]

    pages = []
    yield begin
    for page in pages:
        if not page.is_handed_on:
            page.hand_on()


@pytest.fixture
def executed(host, model_of, tmp_path):
    """Executes the node."""

    def run(server, tools=None, history=None, data=(), view_data=None, outputs=1, **parameters):
        tables = [host.table(pa.table(table)) for table in data]
        return host.run(
            "mcp_agent_chat",
            [model_of(server), tools, history, tables, None],
            parameters,
            workflow_dir=tmp_path / "workflow",
            output_groups={"Data outputs": outputs},
            view_data=view_data,
        )

    return run


@pytest.fixture
def gate():
    """An event that is set at the end of the test in any case."""
    event = threading.Event()
    yield event
    event.set()
