"""The page of ``knime-mcp demo --open``: what the demo did, with charts, and a search for nodes.

It is served on loopback, without scripts, and ends with the command.
"""

from __future__ import annotations

import json
import threading
from contextlib import contextmanager
from dataclasses import dataclass, field
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import parse_qs, urlsplit

from ..audit.calls_table import journal_calls
from ..audit.verdicts import Verdict
from ..audit.verify import verify_file
from ..tools.calling_hints import signature
from ..tools.views.html import (
    Html,
    details,
    element,
    heading,
    join,
    json_block,
    meaning_of,
    note,
    page,
    paragraph,
    status_badge,
    table,
)
from .terminal import one_line

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator, Mapping, Sequence
    from pathlib import Path

    from ..audit.record import CallRecord

_LONGEST_QUERY: Final = 200
_STYLE: Final = Html("""<style>
body { max-width: 1080px; margin: 0 auto; } h1 { font-size: 26px; }
.tiles { display: grid; gap: 12px; grid-template-columns: repeat(auto-fit, minmax(150px, 1fr));
  margin: 16px 0; }
.tile { border: 1px solid var(--line); border-radius: 8px; padding: 10px 14px; color: var(--soft); }
.tile b { display: block; font-size: 26px; line-height: 1.3; color: var(--ink); font-weight: 600; }
section { border: 1px solid var(--line); border-radius: 8px; padding: 4px 18px 12px; margin: 16px 0; }
section h2 { margin-top: 12px; }
.bars { display: grid; grid-template: "name track said" / 11em 1fr 5.5em; gap: 2px 12px; margin: 6px 0;
  align-items: center; } .bars .name { grid-area: name; } .bars .said { grid-area: said; text-align: right; }
.bars .track { grid-area: track; background: var(--tint); border-radius: 4px; }
.bars .bar { height: 16px; border-radius: 4px; min-width: 3px; background: currentColor; }
form { display: flex; gap: 8px; margin: 8px 0; } input { flex: 1; min-width: 0; }
input, button { font: inherit; color: inherit; background: var(--paper); border: 1px solid var(--soft);
  border-radius: 6px; padding: 6px 12px; } button { background: var(--tint); cursor: pointer; }
@media (max-width: 480px) { body { padding: 12px 10px 32px; } section { padding: 4px 10px 8px; }
  .bars { grid-template: "name said" "track track" / 1fr max-content; } }
</style>""")


@dataclass(frozen=True)
class ToolCatalogue:
    """The tools of a server, as the Provider listed them."""

    server: str
    rows: Sequence[Mapping[str, Any]]


@dataclass
class DemoPage:
    """Collects what the demo did, and shows it.

    `journals` is the folder where the Caller keeps the records of its calls.
    """

    journals: Path
    catalogues: list[ToolCatalogue] = field(default_factory=list[ToolCatalogue])
    results: Sequence[Mapping[str, Any]] = ()

    def html(self, query: str) -> str:
        """The page; the nodes on it are those that are found for `query`."""
        files = sorted(self.journals.glob("*.jsonl"))
        calls = [call for file in files for call in journal_calls(file)]
        verdicts = [verify_file(file).verdict for file in files]
        return page(
            "knime-mcp demo",
            _STYLE,
            heading(1, "Tools of MCP servers in KNIME tables"),
            paragraph(
                "What knime-mcp demo just did on this machine. This page ends with the command.", soft=True
            ),
            self._tiles(calls),
            _section("One call per row of a table", self._words()),
            _section("Timeline", _timeline(calls)),
            _section("Audit", _audit(files, verdicts), *map(_call, calls)),
            _section("Catalogue", *map(_catalogue, self.catalogues)),
            _section("Which KNIME node?", *_nodes(query)),
            _section("A tool made of other steps, as a graph", *_graph()),
        )

    def _tiles(self, calls: Sequence[CallRecord]) -> Html:
        tools = sum(len(catalogue.rows) for catalogue in self.catalogues)
        failed = sum(call.error is not None for call in calls)
        numbers = (
            (len(self.catalogues), "MCP servers"),
            (tools, "tools listed"),
            (len(calls), "calls, all recorded"),
            (failed, "of them failed, and say why"),
        )
        tiles = (element("div", element("b", number), text, class_="tile") for number, text in numbers)
        return element("div", *tiles, class_="tiles")

    def _words(self) -> Html:
        counts = [
            json.loads(row["Structured result"])["words"] if row["Structured result"] else None
            for row in self.results
        ]
        most = max(filter(None, counts), default=1)
        rows = (
            (
                row["path"],
                _bar(0, 100 * (count or 0) / most, "good" if count else "bad"),
                row["Status"] if count is None else f"{count:,} words",
            )
            for row, count in zip(self.results, counts, strict=True)
        )
        errors = (note(f"{row['path']}: {row['Error']}", kind="bad") for row in self.results if row["Error"])
        return join((_chart(rows), *errors))


def _section(title: str, *content: Html) -> Html:
    return element("section", heading(2, title), *content)


def _chart(rows: Iterator[tuple[str, Html, str]]) -> Html:
    return join(
        element(
            "div",
            element("span", name, class_="name"),
            element("div", bar, class_="track"),
            element("span", said, class_="said"),
            class_="bars",
        )
        for name, bar, said in rows
    )


def _bar(left: float, width: float, kind: str) -> Html:
    return element("div", class_=f"bar {kind}", style=f"margin-left:{left:.2f}%;width:{width:.2f}%")


def _catalogue(catalogue: ToolCatalogue) -> Html:
    tools = (
        element(
            "p",
            element("b", row["Tool name"]),
            element("code", f"({signature(json.loads(row['Parameters']))})"),
            element("br"),
            element("span", one_line(row["Description"], 120), class_="soft"),
        )
        for row in catalogue.rows
    )
    return details(f"{catalogue.server}: {len(catalogue.rows)} tools", *tools)


def _timeline(calls: Sequence[CallRecord]) -> Html:
    """When each call was made and how long it took, from the first call's beginning to the last one's end."""
    timed = [(call, moment.timestamp(), call.duration or 0.0) for call in calls if (moment := call.moment)]
    if not timed:
        return note("No call was recorded.")
    start = min(begun for _, begun, _ in timed)
    whole = max(begun + took for _, begun, took in timed) - start or 1.0
    timed.sort(key=lambda each: each[1])
    rows = (
        (
            f"{call.tool_name}{f', {call.input_row}' if call.input_row else ''}",
            _bar(min(100 * (begun - start) / whole, 99), 100 * took / whole, meaning_of(call.status)),
            f"{took * 1000:,.0f} ms",
        )
        for call, begun, took in timed
    )
    return _chart(rows)


def _audit(files: Sequence[Path], verdicts: Sequence[Verdict]) -> Html:
    worst = max(verdicts, key=list(Verdict).index, default=Verdict.UNANCHORED)
    said = (
        "Each record holds the hash of the one before, so that nothing can be changed or left out unseen."
        f" {len(files)} journals, one per run of a node: {worst.value}. Check one yourself:"
        f" knime-mcp audit verify {files[-1] if files else 'JOURNAL'}"
    )
    return note(said, kind="bad" if worst is Verdict.ALTERED else "good")


def _call(call: CallRecord) -> Html:
    summary = join((str(call.call or ""), call.tool_name, status_badge(call.status)), " ")
    answer = call.result or call.error or ""
    return details(summary, json_block(json.loads(call.arguments or "{}")), paragraph(answer[:2000]))


def _graph() -> Iterator[Html]:
    try:
        from ..graph.document_loading import STARTER, load_document
        from .graph_page import STYLE, drawing
    except ModuleNotFoundError:
        yield note("Graphs need the extra 'graph': pip install 'PATH[graph]'.")
        return
    (tool, *_) = load_document(STARTER, environ=None).tools
    yield STYLE
    yield drawing(tool, dict.fromkeys(tool.by_id, ""), {}, frozenset(), frozenset())
    yield paragraph("Yours: knime-mcp graph new my.yaml, then knime-mcp graph serve my.yaml", soft=True)


def _nodes(query: str) -> Iterator[Html]:
    from ..knowledge.catalogue_reader import Catalogue
    from ..knowledge.node_search import search
    from .nodes.node_catalogue import catalogue_that_comes_along

    yield element(
        "form",
        element("input", name="q", value=query, aria_label="What the node should do", type="search"),
        element("button", "Search"),
        action="/",
    )
    with Catalogue(catalogue_that_comes_along()) as catalogue, catalogue.reading() as reader:
        found = search(reader, query, limit=5)
        rows = [(hit.node.name, hit.node.short_description) for hit in found.hits if not hit.node.deprecated]
    yield table(("Node", "What it does"), rows) if rows else note("Nothing was found.")
    yield paragraph("Also by words of Excel, SQL, R and pandas, and in German.", soft=True)


@contextmanager
def served(shown: DemoPage, query: str) -> Generator[str]:
    """Serves the page while the block lasts; gives its URL."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            host = (self.headers.get("Host") or "").rpartition(":")[0]
            place = urlsplit(self.path)
            if place.path != "/" or host not in ("127.0.0.1", "localhost"):  # no other site's name for us
                self.send_error(HTTPStatus.NOT_FOUND)
                return
            asked = parse_qs(place.query).get("q", [query])[0][:_LONGEST_QUERY]
            body = shown.html(asked).encode()
            self.send_response(HTTPStatus.OK)
            self.send_header("Content-Type", "text/html; charset=utf-8")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - its name in the base
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
