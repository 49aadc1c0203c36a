"""The studio's page and what it asks for, over HTTP on this machine.

Every address begins with a token that only the person who started the command has. Requests of other sites
are refused by their Host and Origin, and the page may load nothing but its own files.
"""

from __future__ import annotations

import asyncio
import json
import os
import secrets
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import anyio
from starlette.applications import Starlette
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from knime_mcp.runs.server_configs import ServerReading
from knime_mcp.types.errors import MCPError
from knime_mcp.web.listening import Listener, serve
from knime_mcp.yaml_text import Findings, Yaml, as_list, as_mapping

from ..document_edits import GraphEditError
from ..expressions.javascript import json_value
from ..online_checks import check_online
from .debugging import Debugger
from .desk import ConflictError, Desk

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Sequence

    from starlette.requests import Request
    from starlette.types import ASGIApp, Receive, Scope, Send

    from knime_mcp.runs.server_configs import ServerConfig

    from ..graph_model import GraphDocument

Raw = dict[str, Any]

PAGE: Final = Path(__file__).parent / "page"
_KINDS: Final = {".html": "text/html", ".css": "text/css", ".js": "text/javascript"}
_HEADERS: Final = {
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src data:;"
    " connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
    "cache-control": "no-store",
}
_LOOK_SECONDS: Final = 0.5
_GRACE_SECONDS: Final = 2
_LARGEST: Final = 16 * 1024 * 1024
_END: Final = "end"
_HOSTS: Final = frozenset({"127.0.0.1", "localhost"})


class Studio:
    """A document on its desk, its runs, and those who look at it."""

    def __init__(self, desk: Desk) -> None:
        self.desk = desk
        self.token = secrets.token_urlsafe(24)
        self.debugger = Debugger(lambda: self._tell("run"))
        self._loop: asyncio.AbstractEventLoop | None = None
        self._watchers: dict[asyncio.Event, set[str]] = {}

    def app(self) -> ASGIApp:
        answers: dict[str, Callable[[Raw], Any]] = {
            "apply": lambda asked: self.desk.apply(int(asked["version"]), as_mapping(asked["change"])),
            "save": lambda asked: self.desk.save(overwrite=bool(asked.get("overwrite"))),
            "theirs": lambda _: self.desk.take_theirs(),
            "ask": self._ask_servers,
        }
        runs: dict[str, Callable[[Raw], Any]] = {
            "run": self._run,
            "control": lambda asked: self.debugger.control(str(asked.get("action"))),
            "breakpoints": lambda asked: self.debugger.break_at(list(map(str, as_list(asked.get("nodes"))))),
        }
        others: dict[str, Callable[[Raw], Any]] = {
            "state": lambda _: self._state(),
            "history": lambda asked: self.debugger.state(int(asked.get("since", 0))),
            "tools": lambda asked: self.debugger.tools_of(self._server(str(asked.get("server")))),
            "evaluate": self._evaluate,
            "context": lambda asked: self.debugger.context(asked.get("at")),
        }
        start = f"/{self.token}"
        routes = [
            Route(f"{start}/", self._file),
            Route(f"{start}/{{name}}", self._file),
            Route(f"{start}/api/events", self._events),
            *(self._route(name, answer, self._changed) for name, answer in answers.items()),
            *(self._route(name, answer, self.debugger.state) for name, answer in runs.items()),
            *(self._route(name, answer, None) for name, answer in others.items()),
        ]
        return _OwnPage(Starlette(routes=routes))

    def _route(self, name: str, answer: Callable[[Raw], Any], then: Callable[[], Any] | None) -> Route:
        def answered(asked: Raw) -> Any:
            value = answer(asked)
            return value if then is None else then()

        async def endpoint(request: Request) -> Response:
            # Other sites' pages can send forms and plain text without asking; for JSON, browsers ask.
            if not request.headers.get("content-type", "").startswith("application/json"):
                return _refused("Requests are JSON", 415)
            try:
                asked = as_mapping(json.loads(await request.body()))
                # Checks and servers take a while, and the other pages and runs must not wait.
                value = await anyio.to_thread.run_sync(answered, asked)
            except ConflictError as error:
                return _refused(error.sentence, 409)
            except MCPError as error:
                return _refused(error.sentence, 422)
            except (ValueError, TypeError, KeyError, RecursionError) as error:
                return _refused(f"The request has not the form that is wanted: {error}", 400)
            # As JavaScript writes it, as a document may have infinite numbers, and half a character.
            return Response(json.dumps(json_value(value)), media_type="application/json")

        return Route(f"/{self.token}/api/{name}", endpoint, methods=["POST"])

    # The document

    def _state(self) -> Raw:
        return {**self.desk.state(), "breakpoints": sorted(self.debugger.breakpoints)}

    def _changed(self) -> Raw:
        self._tell("document")  # there may be a second page
        return self._state()

    def _document(self) -> GraphDocument:
        document = self.desk.checked().document
        if document is None:
            raise GraphEditError("The document has errors", fix="Correct them first; they are listed")
        return document

    def _ask_servers(self, _asked: Raw) -> None:
        self.desk.learn(check_online(self._document()).tools)

    def _server(self, name: str) -> ServerConfig:
        document = self.desk.checked().document
        if document is not None and name in document.servers:
            return document.servers[name]
        # While the document has mistakes, its servers may be right.
        source = self.desk.checked().source or Yaml()
        written = as_mapping(as_mapping(source.data).get("mcpServers"))
        reading = ServerReading(Findings(source), self.desk.file.parent, os.environ)
        config = reading.read({name: written[name]}).get(name) if name in written else None
        if config is None:
            raise GraphEditError(f"There is no server '{name}' that can be used")
        return config

    # Runs

    def _run(self, asked: Raw) -> None:
        begin = asked.get("begin")
        self.debugger.start(
            self._document(),
            str(asked["tool"]),
            as_mapping(asked.get("arguments")),
            paused=bool(asked.get("paused")),
            pins=as_mapping(asked.get("pins")),
            begin=None if begin is None else int(begin),
        )

    def _evaluate(self, asked: Raw) -> Raw:
        at = None if asked.get("at") is None else str(asked["at"])
        try:
            if "rule" in asked:
                return self.debugger.holds(asked["rule"], at, standard=bool(asked.get("standard")))
            return self.debugger.evaluate(str(asked["expression"]), at)
        except MCPError as error:
            # What somebody writes is seldom right before its end; or the run is another.
            return {"error": error.what}

    # News

    def _tell(self, what: str) -> None:
        if self._loop is not None:
            with suppress(RuntimeError):  # the studio has ended
                self._loop.call_soon_threadsafe(self._put, what)

    def _put(self, what: str) -> None:
        for awake, news in self._watchers.items():
            news.add(what)  # once, for those who have not looked yet
            awake.set()

    async def _events(self, _request: Request) -> Response:
        return StreamingResponse(self._news(), media_type="text/event-stream")

    async def _news(self) -> AsyncIterator[str]:
        # Something to begin with: a page that connects again may have missed a change.
        awake, news = asyncio.Event(), {"document"}
        awake.set()
        self._watchers[awake] = news
        try:
            while await awake.wait() and _END not in news:
                awake.clear()
                told = sorted(news)
                news.clear()
                for what in told:
                    yield f"data: {what}\n\n"
        finally:
            del self._watchers[awake]

    async def _file(self, request: Request) -> Response:
        file = PAGE / request.path_params.get("name", "index.html")
        kind = _KINDS.get(file.suffix)
        if kind is None or file.parent != PAGE or not file.is_file():
            return _refused("There is no such file", 404)
        return Response(file.read_bytes(), media_type=kind)

    async def run(self, port: int, on_ready: Callable[[str], None]) -> None:
        """Serves the page on this machine until a signal comes."""
        self._loop = asyncio.get_running_loop()
        listener = Listener(self.app(), "127.0.0.1", port, grace=_GRACE_SECONDS)
        looking = asyncio.create_task(self._look())

        def ready(urls: Sequence[str]) -> None:
            on_ready(f"{urls[0]}/{self.token}/")

        try:
            await serve([listener], on_ready=ready, on_end=lambda: self._put(_END))
        finally:
            looking.cancel()
            self.debugger.close()

    async def _look(self) -> None:
        while True:
            await asyncio.sleep(_LOOK_SECONDS)
            if await anyio.to_thread.run_sync(self.desk.look):
                self._put("document")


def _refused(why: str, status: int) -> Response:
    return JSONResponse({"error": why}, status)


class _OwnPage:
    """ASGI middleware: only requests to this machine by the studio's own page come through."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        host, origin = headers.get("host", ""), headers.get("origin")
        # By DNS rebinding a page of another site reaches this machine under a name of its own.
        if host.rpartition(":")[0] not in _HOSTS or origin not in (None, f"http://{host}"):
            await _refused("This page is for its own browser only", 403)(scope, receive, send)
            return
        # The body is read whole, so its length has to be known before.
        size = headers.get("content-length", "0")
        if not size.isdecimal() or int(size) > _LARGEST or "transfer-encoding" in headers:
            await _refused("The request is too large", 413)(scope, receive, send)
            return

        async def sent(message: Any) -> None:
            if message["type"] == "http.response.start":
                own = [(name.encode(), value.encode()) for name, value in _HEADERS.items()]
                message = {**message, "headers": [*message["headers"], *own]}
            await send(message)

        await self._app(scope, receive, sent)
