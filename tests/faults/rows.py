"""A batch whose bad rows meet a fault and whose good rows must not notice.

The servers are `ScriptedServer`s. A row's arguments say whether it is bad, so that one server misbehaves for
some rows and behaves for the others, which are in flight at the same time.
"""

from dataclasses import dataclass

from knime_mcp.runs.table_run import run_batch
from knime_mcp.tools import CallToolResult, MCPClient, Timeouts
from tests.support.scripted_server import (
    ScriptedServer,
    legacy,
    modern,
    reply_event,
    rpc,
    stream,
    text,
)
from tests.support.sse_server import SseServer

#: Era and form of a server's good replies.
WAYS = ("modern-json", "modern-sse", "legacy-json", "legacy-sse")
PATIENT = Timeouts(connect=60, idle=80, total=100)
HURRIED = {
    "idle": Timeouts(connect=60, idle=1.0, total=100),
    "total": Timeouts(connect=60, idle=80, total=1.5),
    "connect": Timeouts(connect=0.4, idle=80, total=100),
}
BAD_ROWS = (2, 5)
ROWS = 9
IN_FLIGHT = 4


@dataclass
class Row:
    """What became of a row."""

    number: int
    outcome: CallToolResult | Exception

    @property
    def good(self) -> bool:
        return isinstance(self.outcome, CallToolResult) and self.outcome.text == f"row {self.number}"


def good_reply(way):
    """A reply that names its row."""

    def answer(request):
        result = text(f"row {request.params['arguments']['row']}", resultType="complete")
        return (rpc(result) if way.endswith("json") else stream(reply_event(result)))(request)

    return answer


def script_for(way, fault, *, session=None):
    """A server that answers good rows in its way and bad rows with the fault."""
    good = good_reply(way)

    def call(request):
        reply = fault if request.params["arguments"]["bad"] else good
        if isinstance(reply, list) and reply and callable(reply[0]):
            reply = reply.pop(0) if len(reply) > 1 else reply[0]
        return reply(request) if callable(reply) else reply

    if way.startswith("modern"):
        return modern(tools__call=call)
    return legacy(session=session, tools__call=call)


def run_rows(client, rows=ROWS, bad=BAD_ROWS, in_flight=IN_FLIGHT, **options):
    """Runs the batch; every row gives exactly one outcome, in order."""

    def call(number):
        try:
            outcome = client.call_tool("echo", {"row": number, "bad": number in bad}, **options)
        except Exception as error:
            outcome = error
        return Row(number, outcome)

    found = list(
        run_batch(range(rows), call, failed=lambda number, error: Row(number, error), concurrency=in_flight)
    )
    assert [row.number for row in found] == list(range(rows))
    return found


def batch(script, *, clock=None, rows=ROWS, bad=BAD_ROWS, in_flight=IN_FLIGHT, **options):
    """Runs a batch against a server of its own."""
    timeouts = HURRIED[clock] if clock else PATIENT
    with ScriptedServer(script) as server, MCPClient(server.url, timeouts=timeouts, **options) as client:
        return run_rows(client, rows, bad, in_flight), server


class OldServer(SseServer):
    """A server of the old transport (HTTP+SSE), whose results name their rows.

    Args:
        fault: Takes the server and the request of a bad row; returns the reply to the POST.
        endpoint: What the stream names as the address to post to.
        get: The reply to GET instead of the stream.
    """

    def __init__(self, fault=None, *, endpoint="/messages?session=1", get=None):
        def row(request):
            return text(f"row {request.params['arguments']['row']}")

        super().__init__({"tools/call": row}, endpoint=endpoint, **({"GET": get} if get else {}))
        self._fault = fault

    def _post(self, request):
        if request.rpc == "tools/call" and request.params["arguments"]["bad"]:
            return self._fault(self, request)
        return super()._post(request)
