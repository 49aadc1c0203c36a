"""A server that is a function, for the tests of programs that use the client."""

from collections.abc import Callable, Mapping
from typing import Any, Final

from ...types.errors import ServerError
from ..clock import Wait
from ..protocol.messages import (
    Answer,
    Message,
    Response,
    as_object,
    decode,
    encode,
    error_response,
    result_response,
)
from ..protocol.negotiation import LATEST_MODERN, TransportKind
from ..protocol.outcomes import Moment
from .base import Call, Inbox, Transport

_SERVER: Final[dict[str, Any]] = {"supportedVersions": [LATEST_MODERN], "capabilities": {"tools": {}}}


class MockTransport(Transport):
    """Answers requests with a function, without network or process, as httpx's MockTransport does.

    Everything above the transport is the real client: arguments travel as JSON, results are checked.

    Example:
        def answer(request):
            if request["method"] == "tools/list":
                return {"tools": [{"name": "add", "inputSchema": {"type": "object"}}]}
            arguments = request["params"]["arguments"]
            return {"content": [{"type": "text", "text": str(arguments["a"] + arguments["b"])}]}

        with MCPClient(transport=MockTransport(answer)) as client:
            assert client.call_tool("add", {"a": 2, "b": 40}).text == "42"

    Args:
        handler: Gets each JSON-RPC request (``tools/list``, ``tools/call`` and others, but not the
            handshake) and returns the ``result``. A `ServerError` becomes an error of the server; any other
            error is raised as it is, such as a `ConnectError`. Called in the thread of the call, and by many
            threads at once if many threads call.
    """

    kind: TransportKind = "http"
    url = "mock:server"

    def __init__(self, handler: Callable[[dict[str, Any]], Mapping[str, Any]]) -> None:
        self._handler = handler

    def request(self, call: Call, wait: Wait, inbox: Inbox) -> Answer:  # noqa: ARG002
        wait.look()
        call.delivery.moment = Moment.SENT
        if call.delivery.on_sent is not None:
            call.delivery.on_sent()
        # Through JSON both ways, so that a test finds what could not be sent.
        body = encode(self._answer(decode(call.body)))
        return Response(as_object(decode(body)), body=body)

    def _answer(self, request: Message) -> Message:
        if request["method"] == "server/discover":
            return result_response(request["id"], _SERVER)
        try:
            return result_response(request["id"], self._handler(request))
        except ServerError as error:
            return error_response(request["id"], error.code, error.what)
