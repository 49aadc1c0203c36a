"""Records calls as an agent or a Caller does: through the engine, into a journal."""

import json
import sys
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from knime_mcp.client.mcp_client import MCPClient
from knime_mcp.runs.call_values import PlannedCall
from knime_mcp.runs.checked_calls import Pinning, pinned_tool
from knime_mcp.runs.engine import new_run
from knime_mcp.runs.replaying import Replayer, ReplayOptions
from knime_mcp.types.routing import ServerRoute
from tests.support import peers

CALLS = (
    ("add", {"a": 1, "b": 2}),
    ("count", {}),
    ("note", {"text": "hello"}),
    ("items", {"names": ["a", "b"]}),
    ("fail", {"why": "no"}),
    ("add", {"a": "one"}),
)


def replayed_server(notes, default="base"):
    """The server whose variants are at /base, /described …, and at /mcp the default one."""
    script = Path(__file__).parent / "servers" / "replayed_server.py"
    command = [sys.executable, "-u", script, "--port", "{port}", "--notes", notes, "--default", default]
    return peers.Server("replayed server", command)


@contextmanager
def running(run="r1"):
    """A run over real sessions, closed at the end."""
    made = new_run(lambda route: MCPClient(route.url, transport=route.transport), id=run)
    made.pinning = Pinning.IGNORE
    with made.pool, made:
        yield made


def record_calls(path, url, calls=CALLS, run="r1", prefix=""):
    """Calls tools at a server and writes the journal; gives the records as written."""
    route = ServerRoute.parse(url)
    with running(run) as made:
        made.open_journal(path, about="")
        find = made.definitions.find
        tools = [pinned_tool(find(route, name), route, shown_name=prefix + name) for name, _ in calls]
        return [
            made.call(PlannedCall(tool=tool, arguments=arguments)).record
            for tool, (_, arguments) in zip(tools, calls, strict=True)
        ]


@dataclass
class Replayed:
    """What came of a replay, by tool: (verdict, reason, patch), in order."""

    calls: list = field(default_factory=list)

    @property
    def verdicts(self):
        return [(call.recorded.record.tool_name, call.verdict.value) for call in self.calls]

    def of(self, name):
        return next(call for call in self.calls if call.recorded.record.tool_name == name)

    def patch(self, name):
        return json.loads(self.of(name).patch)


def replay(calls, **options):
    """Replays calls with options."""
    with running("again") as run:
        replayer = Replayer(run, ReplayOptions(**options))
        return Replayed(list(replayer.replay(calls)))
