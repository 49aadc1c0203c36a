"""A scripted server of the old transport (HTTP+SSE): posts are accepted, replies come over one stream."""

from typing import Any

from tests.support.scripted_server import (
    LEGACY,
    Part,
    Request,
    ScriptedServer,
    event,
    http,
    stream,
    text,
    tool,
)

ACCEPTED = http(202, "Accepted", content_type="text/plain")


class SseServer(ScriptedServer):
    """The server.

    Args:
        results: By method: the result, or what makes it of the request; None for no reply.
        endpoint: What the stream names as the address to post to.
        path: Path of the URL, where nothing can be posted.
        script: Replies to other requests, as of `ScriptedServer`.
    """

    def __init__(
        self,
        results: dict[str, Any] | None = None,
        *,
        endpoint: str = "/messages?session=1",
        path: str = "/sse",
        **script: Any,
    ) -> None:
        super().__init__(script, path=path)
        self.results = {
            "initialize": {"protocolVersion": LEGACY, "capabilities": {"tools": {}}},
            "tools/list": {"tools": [tool()]},
            "tools/call": text("hi"),
            **(results or {}),
        }
        self.script.setdefault("GET", stream(event(endpoint, name="endpoint"), Part.EVENTS, end=False))
        self.script.setdefault("*", self._post)

    def _post(self, request: Request) -> Any:
        if request.target == self._path:
            return http(405, "Method Not Allowed", content_type="text/plain")
        result = self.results.get(request.rpc or "")
        if callable(result):
            result = result(request)
        if result is not None:
            self.answer(request, result)
        elif request.rpc == "server/discover":
            error = {"code": -32601, "message": "Method not found"}
            self.push(event({"jsonrpc": "2.0", "id": request.json["id"], "error": error}, name="message"))
        return ACCEPTED

    def answer(self, request: Request, result: Any) -> None:
        self.push(event({"jsonrpc": "2.0", "id": request.json["id"], "result": result}, name="message"))
