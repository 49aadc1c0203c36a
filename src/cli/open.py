"""``knime-mcp open``: the runs of a folder in a browser, live, and servers to try by hand.

The page is for this person's browser only: every address begins with a token, and requests that another
site's page sends are refused by their Host, Origin and type.
"""

from __future__ import annotations

import json
import re
import secrets
import sys
import tempfile
import threading
import time
import webbrowser
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final
from urllib.parse import parse_qs, quote, unquote, urlsplit

import typer

from ..audit.journal import JournalBusy, JournalWriteError, held
from ..audit.journal_reading import SUFFIX, JournalError, journal_parts
from ..audit.verify import verify_file
from ..client.protocol.messages import as_object
from ..tools.views.html import element, heading, page, paragraph
from ..tools.views.journal_page import journal_pages, news
from ..types.errors import MCPError
from .command_errors import CommandError, ExitCode, Interrupt, UsageError, at_terminal, reports_errors
from .terminal import can_ask, note, say
from .tried_calls import TriedCalls

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator

    from ..audit.verdicts import Verification

_LARGEST: Final = 16 << 20  # of a request
_BEGINNING: Final = 1 << 20  # of a journal, where its first line is
_END: Final = 1 << 16  # where its closing line is
_POLL_SECONDS: Final = 0.2
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
        tempfile.TemporaryDirectory() as pages,
        TriedCalls(folder, interrupt) as tried,
        _serving(RunsInFolder(folder, Path(pages), tried), port) as url,
    ):
        say(f"Open in a browser: {url}")
        note("Ctrl-C ends it.")
        if can_ask():
            webbrowser.open(url)
        while not interrupt():
            time.sleep(_POLL_SECONDS)
    return ExitCode.OK


class RunsInFolder:
    """What the page asks for: by path, as a page or as JSON."""

    def __init__(self, folder: Path, pages: Path, tried: TriedCalls) -> None:
        self.token = secrets.token_urlsafe(24)
        self._folder = folder
        self._pages = pages
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
        if shown is None or shown.is_old:
            shown = self._shown[file.name] = ShownRun(file, self._pages)
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
    """The pages of a journal as it was when they were asked for; each is made when it is looked at."""

    FIRST: Final = "run.html"

    def __init__(self, file: Path, folder: Path) -> None:
        self._file = file
        self._size, self._goes_on = _size(file), _is_written(file)
        self.verification: Verification = verify_file(file)
        # The pages of a large journal are large, so that those that were made are kept in files.
        self._folder = Path(tempfile.mkdtemp(dir=folder))
        self._more = self._made()
        self._making = threading.Lock()

    def _made(self) -> Iterator[tuple[Path, str]]:
        first, goes_on = self._folder / self.FIRST, self._goes_on
        return journal_pages(self._file, first, self.verification, is_served=True, goes_on=goes_on)

    @property
    def is_old(self) -> bool:
        # A run that was killed has written nothing more.
        return _size(self._file) != self._size or (self._goes_on and not _is_written(self._file))

    def page(self, name: str) -> str | None:
        if not re.fullmatch(r"run(-[0-9]+)?\.html", name):
            return None
        wanted = self._folder / name
        with self._making:
            while not wanted.is_file():
                made = next(self._more, None)
                if made is None:
                    return None
                made[0].write_text(made[1], encoding="utf-8")
        return wanted.read_text(encoding="utf-8")


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
