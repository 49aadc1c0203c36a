"""What node knowledge costs: each tool at 5,000 nodes, in process and over HTTP; memory, start, file size.

    python benchmarks/node_search.py [--catalogue FILE] [--nodes 5000] [--rounds 400]

Without a catalogue one is made up: the nodes that come along, and others with names, settings and
descriptions as long as KNIME's, of words whose frequencies fall like those of a language. Answers are not
kept anywhere, so every call does its work.
"""

import argparse
import http.client
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path

from timing import Row, Table, Way

from knime_node_knowledge.catalogue_reader import Catalogue
from knime_node_knowledge.node_model import NodeParameter, NodeSpec, Origin, SourceKind
from knime_node_knowledge.node_service import NodeKnowledgeMCPService
from knime_node_knowledge.packs import BASICS
from knime_node_knowledge.sources.catalogue_build import build_catalogue
from knime_node_knowledge.sources.spec_packs import read_pack

QUERIES = (
    Path(__file__).parents[1]
    / "packages"
    / "node-knowledge"
    / "tests"
    / "knowledge"
    / "relevance"
    / "queries.txt"
)
WORDS_PER_DESCRIPTION = 260
SETTINGS = 9


def main() -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--catalogue", type=Path)
    parser.add_argument("--nodes", type=int, default=5_000)
    parser.add_argument("--rounds", type=int, default=400)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        file = options.catalogue or Path(folder) / "nodes.sqlite"
        if options.catalogue is None:
            report = build_catalogue(file, further=made_up(options.nodes))
            print(f"build       {report.seconds:8.2f} s  {report.origin.nodes} nodes")
        print(f"file        {file.stat().st_size / 1e6:8.1f} MB")
        tell_all(file, options.rounds)


def measure(table: Table, *, smoke: bool, rounds: int) -> None:
    """Each tool, in process, with a catalogue that is made up."""
    count, calls = (200, 5) if smoke else (5_000, 200)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "nodes.sqlite")
        report = build_catalogue(file, further=made_up(count))
        table.add(Row(f"{count:,} nodes", "build of the catalogue", "s", (report.seconds,)))
        with Catalogue(file) as catalogue:
            service = NodeKnowledgeMCPService(catalogue)
            for title, listed in workload(catalogue, calls).items():
                way = Way(title, partial(_seconds, service, listed))
                table.compare(f"{count:,} nodes", [way], min(rounds, 3))


def _seconds(service: NodeKnowledgeMCPService, calls: list[tuple[str, dict]]) -> float:
    start = time.perf_counter()
    for call in calls:
        service.invoke_tool(*call)
    return (time.perf_counter() - start) / len(calls)


def made_up(count: int) -> list[NodeSpec]:
    """Nodes that look like KNIME's to an index; always the same ones."""
    chance = random.Random(42)
    real = read_pack(BASICS).nodes
    words = sorted({word for node in real for word in node.description.lower().split() if word.isalpha()})
    words += [f"{left}{right}" for left in words[:60] for right in words[60:120]]
    weights = [1 / (rank + 3) for rank in range(len(words))]
    found = list(real)
    while len(found) < count:
        model = chance.choice(real)
        texts = chance.choices(words, weights, k=WORDS_PER_DESCRIPTION + 3 * SETTINGS + 2)
        name = f"{model.name} {texts[0].title()}"
        node_id = f"org.example.nodes.{texts[1]}.{name.title().replace(' ', '')}{len(found)}NodeFactory"
        settings = tuple(
            NodeParameter(
                name=" ".join(texts[at : at + 3]), type="string", description=" ".join(texts[at : at + 20])
            )
            for at in range(2, 2 + 3 * SETTINGS, 3)
        )
        found.append(
            replace(
                model,
                id=node_id,
                node_type="MANIPULATOR",
                subtype=node_id,
                name=name,
                description=" ".join(texts[-WORDS_PER_DESCRIPTION:]),
                parameters=settings,
                settings_known=True,
                keywords=(),
                origin=Origin(kind=SourceKind.KNIME, name="org.example.nodes", version="5.8.0"),
            )
        )
    return found


def tell_all(file: Path, rounds: int) -> None:
    """Measures one catalogue, in process and over HTTP, and prints."""
    began = time.perf_counter()
    with Catalogue(file) as catalogue:
        service = NodeKnowledgeMCPService(catalogue)
        service.invoke_tool("search_nodes", {"query": "joiner"})
        print(f"first call  {(time.perf_counter() - began) * 1e3:8.1f} ms, catalogue opened included")
        calls = workload(catalogue, rounds)
        print(f"{'tool':34} {'p50 ms':>8} {'p95 ms':>8} {'max ms':>8}   in process")
        for title, listed in calls.items():
            tell(title, [timed(lambda c=call: service.invoke_tool(*c)) for call in listed])
        print(f"{'tool':34} {'p50 ms':>8} {'p95 ms':>8} {'max ms':>8}   in process, time of the CPU only")
        for title, listed in calls.items():
            tell(title, [timed(lambda c=call: service.invoke_tool(*c), time.process_time) for call in listed])
    with served(file) as (process, port, started):
        print(f"{'tool':34} {'p50 ms':>8} {'p95 ms':>8} {'max ms':>8}   over HTTP, one connection")
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
        for title, listed in calls.items():
            tell(title, [timed(lambda c=call: post(connection, *c)) for call in listed[: rounds // 2]])
        print(f"cold start  {started * 1e3:8.0f} ms, process until it listens")
        print(f"memory      {resident(process.pid):8.1f} MB resident after that")


def workload(catalogue: Catalogue, rounds: int) -> dict[str, list[tuple[str, dict]]]:
    """Calls by title."""
    with catalogue.reading() as reader:
        ids = [entry.id for entry in reader.summaries()]
    chance = random.Random(7)
    lines = [line.partition(" => ")[0] for line in QUERIES.read_text("utf-8").splitlines() if " => " in line]
    queries = [chance.choice(lines) for _ in range(rounds)]
    some = [chance.choice(ids) for _ in range(rounds)]
    ten = [[{"id": chance.choice(ids)} for _ in range(10)] for _ in range(rounds)]
    return {
        "get_node_types": [("get_node_types", {})] * rounds,
        "get_node_details, 1 node": [("get_node_details", {"nodes": [{"id": entry}]}) for entry in some],
        "get_node_details, 10 nodes": [("get_node_details", {"nodes": entry}) for entry in ten],
        "get_node_details, not there": [
            ("get_node_details", {"nodes": [{"node_type": "MANIPULATOR", "subtype": query}]})
            for query in queries
        ],
        "search_nodes": [("search_nodes", {"query": query}) for query in queries],
        "search_nodes, with details": [
            ("search_nodes", {"query": query, "include_details": True}) for query in queries
        ],
        "find_compatible": [("find_compatible", {"node": entry}) for entry in some],
        "check_configuration": [("check_configuration", {"node": entry, "settings": {}}) for entry in some],
    }


def timed(call: Callable[[], object], clock: Callable[[], float] = time.perf_counter) -> float:
    """Milliseconds."""
    began = clock()
    call()
    return (clock() - began) * 1e3


def tell(title: str, times: list[float]) -> None:
    ordered = sorted(times)
    at_95 = ordered[min(len(ordered) - 1, int(len(ordered) * 0.95))]
    print(f"{title:34} {statistics.median(ordered):8.2f} {at_95:8.2f} {ordered[-1]:8.2f}")


def post(connection: http.client.HTTPConnection, tool: str, arguments: dict) -> None:
    body = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "tools/call",
        "params": {"name": tool, "arguments": arguments},
    }
    headers = {
        "Content-Type": "application/json",
        "Accept": "application/json, text/event-stream",
        "MCP-Protocol-Version": "2025-11-25",
    }
    connection.request("POST", "/mcp", json.dumps(body), headers)
    answer = connection.getresponse()
    text = answer.read()
    if answer.status != 200 or b'"result"' not in text:
        raise SystemExit(f"{tool} answered {answer.status}: {text[:500]!r}")


@contextmanager
def served(file: Path) -> Iterator[tuple[subprocess.Popen, int, float]]:
    """The server in a process of its own, its port, and how long it took to listen."""
    began = time.perf_counter()
    options = ["serve", "--http", "0", "--catalogue", str(file)]
    command = [sys.executable, "-m", "knime_node_knowledge.commands.program", *options]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    try:
        for line in process.stderr:
            if line.startswith("Serving at "):
                port = int(line.strip().removesuffix("/mcp").rpartition(":")[2])
                yield process, port, time.perf_counter() - began
                return
        raise SystemExit("the server did not start")
    finally:
        process.terminate()
        process.wait(10)
        process.stderr.close()


def resident(pid: int) -> float:
    """MB."""
    status = Path(f"/proc/{pid}/statm")
    if not status.exists():
        return float("nan")
    return int(status.read_text().split()[1]) * os.sysconf("SC_PAGESIZE") / 1e6


if __name__ == "__main__":
    main()
