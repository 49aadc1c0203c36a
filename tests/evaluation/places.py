"""The servers that the tasks are about, each behind a tap that notes which calls reach it."""

import http.client
import json
import shutil
import sqlite3
import threading
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import urlsplit

from knime_mcp.cli.demo_server import DemoServer
from tests.evaluation.tasks import Task
from tests.support import peers

ROOT = Path(__file__).parents[2]
DEADLINE = 60.0
_PROCESSES = {"one": "counting", "two": "counting"}
_PATHS = {"one": "/one", "two": "/two"}
FILES = {
    "contacts.txt": "Amara Okafor, buyer, +49 7531 5550\nJonas Weber, archive, +49 7531 5551\n",
    "prices.txt": "desk 349.00\nchair 189.00\nlamp 34.90\n",
    "draft.txt": "Dear customers, the desk is back.\n",
    "archive/2024.log": "opened\nclosed\n",
    "archive/2025.log": "opened\nlost key 4711\nclosed\n",
    "long.txt": "nothing to see\n" * 1500 + "the code is KESTREL\n" + "nothing to see\n" * 1500,
}
TABLES = """
    CREATE TABLE orders (id INTEGER PRIMARY KEY, region TEXT, product TEXT, quantity INTEGER, note TEXT);
    INSERT INTO orders VALUES (1, 'North', 'desk', 3, ''), (2, 'West', 'lamp', 10, ''),
        (3, 'North', 'chair', 7, ''), (4, 'South', 'desk', 1, ''), (5, 'North', 'desk', 2, '');
    CREATE TABLE prices (product TEXT PRIMARY KEY, price REAL);
    INSERT INTO prices VALUES ('desk', 349.0), ('chair', 189.0), ('lamp', 34.9);
"""
MEMORY = (
    {
        "type": "entity",
        "name": "Priya",
        "entityType": "person",
        "observations": ["writes the report by region"],
    },
    {
        "type": "entity",
        "name": "Supplier",
        "entityType": "company",
        "observations": ["delivers desks in April"],
    },
    {"type": "relation", "from": "Priya", "to": "Supplier", "relationType": "calls"},
)


class Tap:
    """A server on loopback that hands everything on to another one, and notes the calls of tools."""

    def __init__(self, url: str) -> None:
        self.calls: list[tuple[str, str]] = []  # name, and arguments as JSON
        self._host = urlsplit(url).netloc
        self._http = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._http.daemon_threads = True
        self._thread = threading.Thread(target=self._http.serve_forever, kwargs={"poll_interval": 0.05})

    def url(self, path: str) -> str:
        return f"http://127.0.0.1:{self._http.server_port}{path}"

    def __enter__(self) -> "Tap":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._http.shutdown()
        self._http.server_close()
        self._thread.join(DEADLINE)

    def passed_on(
        self, method: str, path: str, headers: dict[str, str], body: bytes
    ) -> tuple[int, list[tuple[str, str]], bytes]:
        message = json.loads(body) if body else {}
        if isinstance(message, dict) and message.get("method") == "tools/call":
            wanted = message["params"]
            self.calls.append((wanted["name"], json.dumps(wanted.get("arguments"), ensure_ascii=False)))
        with closing(http.client.HTTPConnection(self._host, timeout=DEADLINE)) as server:
            server.request(method, path, body, headers | {"Host": self._host})
            answer = server.getresponse()
            kept = [(name, value) for name, value in answer.getheaders() if name.lower() not in _OF_A_HOP]
            return answer.status, kept, answer.read()


_OF_A_HOP = {"connection", "content-length", "date", "keep-alive", "server", "transfer-encoding"}


def _handler(tap: Tap) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            headers = {name: value for name, value in self.headers.items() if name.lower() not in _OF_A_HOP}
            try:
                self._answer(*tap.passed_on(self.command, self.path, headers, body))
            except (OSError, http.client.HTTPException):  # one of the two went away
                self.close_connection = True

        do_DELETE = do_POST  # noqa: N815 - the name of the base class

        def do_GET(self) -> None:  # the stream of what servers tell unasked
            self._answer(405, [], b"")

        def _answer(self, status: int, headers: list[tuple[str, str]], body: bytes) -> None:
            self.send_response(status)
            for name, value in headers:
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    return Handler


@dataclass
class Places:
    """Servers by name, whose state begins anew with each task.

    `files`, `sql`, `time` and `memory` are servers that others wrote, `demo` is that of ``knime-mcp demo``,
    `one` and `two` have the same tools.
    """

    folder: Path
    _taps: dict[str, Tap] = field(default_factory=dict)
    _closing: ExitStack = field(default_factory=ExitStack)

    def __enter__(self) -> "Places":
        self.files.mkdir(parents=True)
        self._letters.mkdir()
        return self

    def __exit__(self, *_: object) -> None:
        self._closing.close()

    @property
    def files(self) -> Path:
        return self.folder / "files"

    @property
    def database(self) -> Path:
        return self.folder / "shop.db"

    @property
    def memory(self) -> Path:
        return self.folder / "memory.jsonl"

    @property
    def _letters(self) -> Path:
        return self.folder / "letters"

    def begin(self, task: Task) -> Task:
        """Sets everything up for a task, and returns it with the places in its texts."""
        for name in task.servers:
            process = _PROCESSES.get(name, name)
            if process not in self._taps:
                self._taps[process] = self._closing.enter_context(Tap(self._started(process)))
        demo = self._taps["demo"].url("/mcp") if "demo" in task.servers else ""
        task = task.placed({"files": str(self.files), "demo": demo})
        for folder in (self.files, self._letters):
            for inside in folder.iterdir():
                shutil.rmtree(inside) if inside.is_dir() else inside.unlink()
        shutil.copytree(ROOT / "examples" / "demo" / "files", self._letters, dirs_exist_ok=True)
        for name, text in {**FILES, **task.files}.items():
            in_letters = name.startswith("letters/")
            file = (self.folder if in_letters else self.files) / name
            file.parent.mkdir(exist_ok=True)
            file.write_text(text, "utf-8")
        self.memory.write_text("\n".join(map(json.dumps, MEMORY)), "utf-8")
        self.database.unlink(missing_ok=True)
        with closing(sqlite3.connect(self.database)) as database, database:
            database.executescript(TABLES + "".join(f"{statement};\n" for statement in task.sql))
        for tap in self._taps.values():
            tap.calls.clear()
        return task

    def urls(self, task: Task) -> list[str]:
        return [self._taps[_PROCESSES.get(name, name)].url(_PATHS.get(name, "/mcp")) for name in task.servers]

    def calls(self) -> list[tuple[str, str]]:
        """The calls that reached servers since the task began: names, and arguments as JSON."""
        return [made for tap in self._taps.values() for made in tap.calls]

    def rows(self, query: str) -> list[list[object]]:
        with closing(sqlite3.connect(self.database)) as database:
            try:
                return [list(row) for row in database.execute(query)]
            except sqlite3.OperationalError as error:  # such as a table that is not there
                return [[str(error)]]

    def _started(self, process: str) -> str:
        if process == "demo":
            return self._closing.enter_context(DemoServer(self._letters)).url
        starts = {
            "files": lambda: peers.filesystem(self.files),
            "time": peers.clock,
            "memory": lambda: peers.memory(self.memory),
            "sql": lambda: peers.sqlite(self.database),
            "counting": peers.counting,
        }
        return self._closing.enter_context(peers.running(starts[process]())).url("")
