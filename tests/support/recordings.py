"""Records calls as an agent or a Caller does: through the one dispatch, into a journal."""

import json
import sys
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from knime_mcp.audit.journal import Journal
from knime_mcp.audit.secrets import SecretMarker
from knime_mcp.client.mcp_client import MCPClient, SessionPool
from knime_mcp.runs.definitions import Definitions, Pinning, pinned_tool
from knime_mcp.runs.engine import Run
from knime_mcp.runs.one_call import PlannedCall, recorded_call
from knime_mcp.runs.replay_decision import ReplayOptions
from knime_mcp.runs.replaying import Replayer
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
def dispatching(run="r1"):
    """A dispatcher over real sessions, closed at the end."""
    pool = SessionPool(lambda route: MCPClient(route.url, transport=route.transport))
    with pool:
        yield Run(
            id=run,
            pool=pool,
            definitions=Definitions(pool),
            secrets=SecretMarker(),
            pinning=Pinning.IGNORE,
        )


def record_calls(path, url, calls=CALLS, run="r1", prefix=""):
    """Calls tools at a server and writes the journal; gives the records as written."""
    route = ServerRoute.parse(url)
    with dispatching(run) as dispatcher, Journal(path, run=run) as journal:
        return [
            journal.append(
                recorded_call(
                    PlannedCall(
                        tool=pinned_tool(
                            dispatcher.definitions.find(route, name), route, shown_name=prefix + name
                        ),
                        arguments=arguments,
                    ),
                    dispatcher,
                ).record
            )
            for name, arguments in calls
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
    with dispatching("again") as dispatcher:
        replayer = Replayer(dispatcher=dispatcher, options=ReplayOptions(**options))
        return Replayed(list(replayer.replay(calls)))
