"""``knime-mcp open``: the runs of a folder in a browser, live, and servers to try by hand.

The page is for this person's browser only: every address begins with a token, and requests that another
site's page sends are refused by their Host, Origin and type.
"""

from __future__ import annotations

import json
import re
import secrets
import shlex
import sys
import tempfile
import threading
import time
import webbrowser
from concurrent.futures import Future
from contextlib import ExitStack, contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Self
from urllib.parse import parse_qs, quote, unquote, urlsplit

import typer

from ..audit.journal import JournalBusy, JournalWriteError, held
from ..audit.journal_reading import SUFFIX, JournalError, journal_parts
from ..audit.verify import verify_file
from ..client.protocol.messages import as_object
from ..runs.call_values import PlannedCall
from ..runs.server_configs import secrets_of
from ..system import whole_file
from ..tools.calling_hints import signature
from ..tools.node_settings.named_servers import REFERENCE, known_entries
from ..tools.views.html import element, heading, page, paragraph
from ..tools.views.journal_page import RunPages, news, recorded_step
from ..tools.views.run_page import Steps
from ..types.errors import MCPError
from .command_errors import CommandError, ExitCode, Interrupt, UsageError, at_terminal, reports_errors
from .connection_options import ConnectionOptions
from .files import open_journal, split_pairs, with_pairs
from .sessions import CommandSessions
from .terminal import can_ask, note, say

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from ..audit.verdicts import Verification
    from ..types.routing import ServerRoute


_LARGEST: Final = 16 << 20  # of a request
_BEGINNING: Final = 1 << 20  # of a journal, where its first line is
_END: Final = 1 << 16  # where its closing line is
_POLL_SECONDS: Final = 0.2
_SOON_SECONDS: Final = 2.0  # in which most journals are verified
_HEADERS: Final = {
    "Content-Security-Policy": "frame-ancestors 'none'; base-uri 'none'; form-action 'none'",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-store",
}


@reports_errors
def open_folder(
    folder: Annotated[
        Path, typer.Argument(metavar="FOLDER", help="Where the journals are; what is tried is added there.")
    ] = Path(),
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port of the page; 0 takes a free one.")] = 0,
) -> ExitCode:
    """Look at runs in a browser, also while they go on, and try a server's tools by hand.

    Lists the journals of a folder, and shows the page of each. A server is given by URL or name: its tools
    get forms, and each call is recorded. Only this machine's browser gets in, by the address with its token.

    Example: knime-mcp open demo-output
    """
    if not folder.is_dir():
        raise CommandError(f"There is no folder {folder}.")
    with (
        Interrupt() as interrupt,
        tempfile.TemporaryDirectory() as private,
        TriedCalls(folder, interrupt) as tried,
        _serving(runs := RunsInFolder(folder, tried), port) as url,
    ):
        say(f"Open in a browser: {url}")
        # One in a sandbox does not see the private file.
        note("Ctrl-C ends it. If no browser comes up with the page, open the address yourself.")
        way_in = Path(private) / "open.html"
        if can_ask():
            # Every user of this machine can read the command line of a browser, but not this file.
            with whole_file(way_in, private=True) as part:
                part.write_text(f'<meta http-equiv="refresh" content="0; url={url}">', encoding="utf-8")
            webbrowser.open(way_in.as_uri())
        while not interrupt():
            if runs.is_seen:
                way_in.unlink(missing_ok=True)
            time.sleep(_POLL_SECONDS)
    return ExitCode.OK


class RunsInFolder:
    """What the page asks for: by path, as a page or as JSON.

    Attributes:
        is_seen: Whether a browser has found it.
    """

    is_seen = False

    def __init__(self, folder: Path, tried: TriedCalls) -> None:
        self.token = secrets.token_urlsafe(24)
        self._folder = folder
        self._tried = tried
        self._shown: dict[str, ShownRun] = {}
        self.asked: dict[str, Callable[[dict[str, Any]], Any]] = {
            "runs": lambda _: list(filter(None, map(_summary, self._journals().values()))),
            "tools": lambda asked: tried.tools(str(asked["server"])),
            "call": tried.call,
        }

    def got(self, path: str, query: dict[str, list[str]]) -> tuple[str, str] | None:
        """The text at a path behind the token, and its type; None if there is none."""
        match path.split("/"):
            case [""]:
                self.is_seen = True
                return self._index(), "text/html"
            case ["runs", name, what]:
                file = self._journals().get(unquote(name))
                if file is None:
                    return None
                if what == "news":
                    shown = self._shown.get(file.name)
                    text = None if shown is None else news(file, query["after"][0], shown.verification)
                    return None if text is None else (text, "application/json")
                text = self._page(file, what)
                return None if text is None else (text, "text/html")
            case _:
                return None

    def _journals(self) -> dict[str, Path]:
        # The newest first; a file that goes meanwhile has no time.
        def time_of(file: Path) -> float:
            with suppress(OSError):
                return file.stat().st_mtime
            return 0.0

        files = (file for file in self._folder.glob(f"*{SUFFIX}") if file.is_file())
        return {file.name: file for file in sorted(files, key=time_of, reverse=True)}

    def _page(self, file: Path, name: str) -> str | None:
        shown = self._shown.get(file.name)
        # One verification at a time: of a run that goes on, the steps since then are news.
        if shown is None or (shown.is_old and shown.is_verified):
            shown = self._shown[file.name] = ShownRun(file)
        return shown.page(name)

    def _index(self) -> str:
        names = (element("option", value=name) for name in self._tried.names())
        return page(
            f"Runs in {self._folder.resolve().name}",
            element(
                "main",
                heading(1, "Runs"),
                paragraph(str(self._folder.resolve()), soft=True),
                element("div", id="runs"),
                heading(2, "Try a server"),
                element(
                    "form",
                    element("label", "Server ", element("input", id="server", list="names", required=True)),
                    element("datalist", *names, id="names"),
                    element("button", "List its tools"),
                    paragraph("A URL, or a name of knime-mcp config. Each call is recorded here.", soft=True),
                    id="ask",
                ),
                element("div", id="tools"),
                element("div", id="tried", role="status"),
            ),
            scripts=("steps.js", "open.js"),
            is_served=True,
        )


class ShownRun:
    """The pages of a journal as it was when they were asked for; meanwhile its records are verified."""

    FIRST: Final = "run.html"

    def __init__(self, file: Path) -> None:
        self._file = file
        self._size, self._goes_on = _size(file), _is_written(file)
        self._pages = RunPages(file, self.FIRST)
        self._verified: Future[Verification] = Future()
        # A million calls take a minute or two.
        threading.Thread(target=self._verify, daemon=True).start()

    def _verify(self) -> None:
        try:
            self._verified.set_result(verify_file(self._file))
        except Exception as error:
            self._verified.set_exception(error)

    @property
    def verification(self) -> Verification | None:
        """What came of it; None as long as that takes. Raises what verifying raised."""
        return self._verified.result() if self.is_verified else None

    @property
    def is_verified(self) -> bool:
        return self._verified.done()

    @property
    def is_old(self) -> bool:
        # A run that was killed has written nothing more.
        return _size(self._file) != self._size or (self._goes_on and not _is_written(self._file))

    def page(self, name: str) -> str | None:
        with suppress(TimeoutError):
            self._verified.result(_SOON_SECONDS)
        if name == "top":
            return self._pages.top(self.verification, goes_on=self._goes_on)
        match = re.fullmatch(r"run(?:-([0-9]{1,9}))?\.html", name)
        number = int(match[1] or 1) if match else 0
        if not 1 <= number <= len(self._pages):
            return None
        return self._pages.page(number, self.verification, is_served=True, goes_on=self._goes_on)


def _size(file: Path) -> int:
    return sum(part.stat().st_size for part in journal_parts(file).values())


def _is_written(file: Path) -> bool:
    try:
        with held(file, seconds=0.0):
            return False
    except (JournalBusy, OSError):
        return True


def _summary(file: Path) -> dict[str, Any] | None:
    """What a list of runs says of a journal, from its beginning and its end; None if it cannot be read."""
    try:
        *_, last = journal_parts(file).values()
        with file.open("rb") as stream:
            start = _read(stream.readline(_BEGINNING))
        with last.open("rb") as stream:
            size = stream.seek(0, 2)
            stream.seek(max(0, size - _END))
            lines = stream.read().splitlines()
    except (OSError, JournalError):  # one that has gone meanwhile hides no others
        return None
    end = next((entry for line in reversed(lines) if (entry := _read(line)).get("kind") == "end"), None)
    is_last = end is not None and _read(lines[-1]).get("kind") in ("end", "checkpoint")
    what = as_object(start.get("what"))
    if start.get("kind") != "start":
        outcome = "no journal"
    elif is_last and end is not None:
        outcome = str(end.get("outcome"))
    else:
        outcome = "goes on" if _is_written(file) else "no end on record"
    return {
        "name": file.name,
        "link": f"runs/{quote(file.name)}/{ShownRun.FIRST}",
        "about": str(what.get("question") or start.get("about") or ""),
        "at": str(start.get("at") or ""),
        "outcome": outcome,
        "calls": end.get("calls") if end else None,
    }


def _read(line: bytes) -> dict[str, Any]:
    with suppress(ValueError, RecursionError):
        return as_object(json.loads(line))
    return {}


@contextmanager
def _serving(desk: RunsInFolder, port: int) -> Generator[str]:
    class Handler(_Handler):
        pass

    Handler.desk = desk
    try:
        server = _Server(("127.0.0.1", port), Handler)
    except OSError as error:
        raise OSError(error.errno, error.strerror, f"127.0.0.1:{port}") from None
    Handler.hosts = frozenset(f"{name}:{server.server_port}" for name in ("127.0.0.1", "localhost"))
    thread = threading.Thread(target=server.serve_forever, args=(_POLL_SECONDS,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/{desk.token}/"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        # A browser that has gone away in the middle is no fault.
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


class _Refused(Exception):  # noqa: N818 - the request is at fault
    def __init__(self, status: int, why: str) -> None:
        super().__init__(why)
        self.status = status


class _Handler(BaseHTTPRequestHandler):
    desk: RunsInFolder
    hosts: frozenset[str]
    protocol_version = "HTTP/1.1"
    timeout = 60  # seconds that a connection may be silent

    def do_GET(self) -> None:
        self._answer(self._got)

    def do_POST(self) -> None:
        self._answer(self._asked)

    def _answer(self, answer: Callable[[str], tuple[str, str]]) -> None:
        status = 200
        try:
            text, kind = answer(self._behind_token())
        except _Refused as error:
            status, text, kind = error.status, json.dumps({"error": str(error)}), "application/json"
        except (MCPError, UsageError, CommandError, JournalError, JournalWriteError) as error:
            status, text, kind = 422, json.dumps({"error": at_terminal(error)}), "application/json"
        except (ValueError, KeyError, TypeError, OSError, RecursionError) as error:
            why = f"This cannot be answered: {type(error).__name__}"
            status, text, kind = 400, json.dumps({"error": why}), "application/json"
        data = text.encode(errors="replace")
        self.send_response(status)
        self.send_header("Content-Type", f"{kind}; charset=utf-8")
        self.send_header("Content-Length", str(len(data)))
        for name, value in _HEADERS.items():
            self.send_header(name, value)
        if status != 200:  # the body may not have been read
            self.close_connection = True
            self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(data)

    def _behind_token(self) -> str:
        """The path behind the token. Who has none, or comes from another site, is refused."""
        host, origin = self.headers.get("Host", ""), self.headers.get("Origin")
        # By DNS rebinding a page of another site reaches this machine under a name of its own.
        if host not in self.hosts or origin not in (None, f"http://{host}"):
            raise _Refused(403, "This page is for its own browser only")
        _, token, *rest = urlsplit(self.path).path.split("/", 2)
        if not rest or not secrets.compare_digest(token.encode(), self.desk.token.encode()):
            raise _Refused(404, "There is no such page; the command said its whole address")
        return rest[0]

    def _got(self, path: str) -> tuple[str, str]:
        got = self.desk.got(path, parse_qs(urlsplit(self.path).query))
        if got is None:
            raise _Refused(404, "There is no such page")
        return got

    def _asked(self, path: str) -> tuple[str, str]:
        # Other sites' pages can send forms and plain text without asking; for JSON, browsers ask.
        if self.headers.get_content_type() != "application/json":
            raise _Refused(415, "Requests are JSON")
        length = self.headers.get("Content-Length", "")
        if not length.isdecimal() or int(length) > _LARGEST:
            raise _Refused(413, "The request is too large, or does not say its length")
        answer = self.desk.asked.get(path)
        if answer is None:
            raise _Refused(404, "There is nothing to ask here")
        return json.dumps(answer(as_object(json.loads(self.rfile.read(int(length)))))), "application/json"

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - as its base calls it
        """Says nothing: the address has the token."""


class TriedCalls:
    """One run of all calls that are tried; its journal is begun with the first of them."""

    def __init__(self, folder: Path, interrupt: Callable[[], bool]) -> None:
        self._folder = folder
        self._connection = ConnectionOptions()
        self._sessions = CommandSessions(self._connection, interrupt)
        self._journal: Path | None = None
        self._beginning, self._asking = threading.Lock(), threading.Lock()
        self._ending = ExitStack()

    def __enter__(self) -> Self:
        self._ending.enter_context(self._sessions)
        return self

    def __exit__(self, *error: Any) -> None:
        self._ending.__exit__(*error)

    def names(self) -> list[str]:
        try:
            return sorted(known_entries())
        except MCPError:
            return []

    def tools(self, server: str) -> list[dict[str, Any]]:
        """The tools of a server by URL or name, with what their forms are made from."""
        provision = self._sessions.provide([self._route(server)], include="")
        for failed in provision.failed:
            raise CommandError(at_terminal(failed.error or "The server failed"))
        definitions = (tool.definition for tool in provision.tools)
        return [
            {
                "name": tool.name,
                "signature": signature(tool.input_schema),
                "description": tool.description or "",
                "schema": json.dumps(tool.input_schema),
            }
            for tool in definitions
        ]

    def call(self, asked: dict[str, Any]) -> dict[str, Any]:
        """Makes a call: what came of it as a step of a run, and how to make it elsewhere.

        The arguments are as on a command line: ``KEY=VALUE``, or ``KEY:=JSON``.
        """
        server, name = str(asked["server"]).strip(), str(asked["tool"])
        route = self._route(server)
        tool = self._sessions.find_tool(route, name)
        values = with_pairs({}, split_pairs(map(str, asked["arguments"])), tool.parameter_schema)
        run = self._sessions.run
        with self._beginning:
            if self._journal is None:
                journal = self._folder / f"tried-{run.id}.jsonl"
                self._sessions.run_for([route], self._folder / journal.stem)
                open_journal(journal, run, about="knime-mcp open", what={"kind": "tried"})
                self._journal = journal
            self._sessions.run_for([route])
        record = run.call(PlannedCall(tool=tool, arguments=values)).record
        steps = Steps()
        steps.add(recorded_step(record, self._journal))
        return {**json.loads(steps.as_json()), "copies": _copies(server, route, name, values)}

    def _route(self, server: str) -> ServerRoute:
        named = self._connection.named
        with self._asking:
            before = dict(named)
            (route,) = self._connection.routes([server.strip()])
            config, first = named.get(route.url), before.get(route.url)
            if config is not None and first is not None and config.name != first.name:
                named[route.url] = first
                # Its session would be the other's, with that one's secrets.
                raise CommandError(
                    f"'{config.name}' has the address of '{first.name}', which was tried before. To try it,"
                    " end this command and open the folder again."
                )
            if config is not None:
                self._sessions.run.secrets.learn(secrets_of(config))
        return route


def _copies(server: str, route: ServerRoute, tool: str, arguments: dict[str, Any]) -> dict[str, str]:
    """The call as a command, as the settings of nodes, and as Python."""
    as_json = json.dumps(arguments, ensure_ascii=False)
    command = f"knime-mcp call {shlex.quote(server)} {shlex.quote(tool)}"
    shown = (
        f"    {name} = {value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)}"
        for name, value in arguments.items()
    )
    return {
        "Command": f"{command} --json-arguments {shlex.quote(as_json)}" if arguments else command,
        "Node settings": "\n".join(
            (f"MCP Tool Caller\n  Server URL: {server}\n  Tool name: {tool}\n  Arguments:", *shown)
        ),
        "Python": _python(server, route, tool, arguments),
    }


def _python(server: str, route: ServerRoute, tool: str, arguments: dict[str, Any]) -> str:
    entry = known_entries().get(server, {}) if "/" not in server else {}
    imports, given = ["from knime_mcp.tools import MCPClient"], repr(route.url)
    if "command" in entry:
        imports.append("from knime_mcp.client.transports.stdio_server import StdioServer")
        words = ", ".join(map(_text, [entry["command"], *entry.get("args", ())]))
        env = f", env={_dict(entry['env'])}" if entry.get("env") else ""
        cwd = f", cwd={entry['cwd']!r}" if entry.get("cwd") else ""
        given = f"stdio=StdioServer({server!r}, [{words}]{env}{cwd})"
    elif entry:
        headers = f", headers={_dict(entry['headers'])}" if entry.get("headers") else ""
        given = f"{_text(str(entry.get('url', route.url)).partition('#')[0])}{headers}"
    if "os.environ" in given:
        imports.insert(0, "import os\n")
    if route.credential:
        imports.append(f"\n# The credential {route.credential} goes with it: see auth of MCPClient.")
    return "\n".join(
        (
            *imports,
            "",
            f"with MCPClient({given}) as client:",
            f"    print(client.call_tool({tool!r}, {arguments!r}).text)",
        )
    )


def _dict(values: dict[str, Any]) -> str:
    return f"{{{', '.join(f'{name!r}: {_text(value)}' for name, value in values.items())}}}"


def _text(value: Any) -> str:
    """A text of a ``mcp.json`` as Python: its ``${VARIABLE}`` come from the environment."""
    # The expression has a group, so that every second part is the name of a variable.
    parts = enumerate(REFERENCE.split(str(value)))
    shown = [_variable(part) if place % 2 else repr(part) for place, part in parts if part]
    return " + ".join(shown) or "''"


def _variable(reference: str) -> str:
    name, has_default, default = reference.removeprefix("env:").partition(":-")
    return f"os.environ.get({name!r}, {default!r})" if has_default else f"os.environ[{name!r}]"
