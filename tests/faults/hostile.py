"""Random hostile replies, and a client in a process of its own that meets them.

``python -m tests.faults.hostile 1000`` makes so many, and prints what came of them, with memory and processor
time. With ``client`` instead of a number this is the client: a URL per line, an outcome as JSON per line.
"""

import json
import resource
import subprocess
import sys
import time
import zlib
from collections import Counter
from contextlib import contextmanager
from pathlib import Path

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from knime_mcp.client.limits import Timeouts
from knime_mcp.client.mcp_client import MCPClient
from knime_mcp.types.errors import MCPError
from tests.faults.bomb_ways import PEAK, memory
from tests.support.scripted_server import Part, ScriptedServer, http, legacy

MIB = 1 << 20
LARGEST = 80 * MIB
CLOCKS = Timeouts(connect=10, idle=2, total=20)
PIECES = st.one_of(
    st.sampled_from(
        [
            *(
                b"0,",
                b"[",
                b"{",
                b'{"a":',
                b'"\\ud800",',
                b"\\",
                b'"',
                b"\0",
                b"\n",
                b"\r",
                b"9",
                b"1e999,",
                b"NaN,",
            ),
            *(
                b"]",
                b"}",
                b'"a":[],',
                b"{},",
                b'"x",',
                b" ",
                b"\xff",
                b"\xe2\x80\xa8",
                b"true,null,",
                b'"k":"v",',
            ),
            *(b"data: ", b": \n\n", b"id: 1\n\n", b"retry: 0\n\n", b"event: x\n", b"data: {}\n\n", b"data\n"),
            b'{"type":"text","text":"a"},',
            b'{"type":"image","mimeType":"image/png","data":"AAAA"},',
            b'{"type":"resource","resource":{"uri":"a:b","blob":"!"}},',
            b'{"name":"a","inputSchema":{"pattern":"(a+)+$"}},',
            b'data: {"jsonrpc":"2.0","method":"notifications/progress","params":{"progress":1}}\n\n',
            b'data: {"jsonrpc":"2.0","id":7,"method":"ping"}\n\n',
        ]
    ),
    st.binary(min_size=1, max_size=20),
)
TIMES = st.sampled_from([1, 2, 50, 300_000, 8_000_000])
BEGINNINGS = st.sampled_from(
    [
        b"",
        b'{"jsonrpc":"2.0","id":@,"result":{"content":[',
        b'{"jsonrpc":"2.0","id":@,"result":{"content":[],"structuredContent":{"v":[',
        b'{"jsonrpc":"2.0","id":@,"result":{"tools":[',
        b'{"jsonrpc":"2.0","id":@,"result":{"protocolVersion":"2025-11-25","capabilities":{"a":[',
        b'{"jsonrpc":"2.0","id":@,"error":{"code":-1,"message":"',
        b'data: {"jsonrpc":"2.0","id":@,"result":{"content":[',
        b'[{"jsonrpc":"2.0","id":@,"result":{}},',
    ]
)
ENDS = st.sampled_from([b"", b"0]}}", b"0]}}}", b'"}}', b"0]}}\n\n", b"\n\n", b"]"])
REPLIES = st.fixed_dictionaries(
    {
        "to": st.sampled_from(["initialize", "tools/list", "tools/call", "tools/call"]),
        "status": st.sampled_from([*[200] * 20, 202, 204, 400, 401, 404, 429, 500]),
        "kind": st.sampled_from(
            ["application/json", "application/json", "text/event-stream", "text/plain", "text/html", None]
        ),
        "encoding": st.sampled_from(["gzip", "gzip", "gzip", "deflate", "identity", "br"]),
        "beginning": BEGINNINGS,
        "middle": st.lists(st.tuples(PIECES, TIMES), max_size=4),
        "end": ENDS,
        "cut": st.booleans(),
    }
)


def hostile(recipe):
    """The reply of a recipe, to any request."""

    def reply(request):
        parts = [recipe["beginning"].replace(b"@", b"%d" % (request.json or {}).get("id", 0))]
        for piece, times in recipe["middle"]:
            parts.append(piece * min(times, LARGEST // len(piece) // 4))
        body = b"".join([*parts, recipe["end"]])
        headers = {} if recipe["encoding"] == "identity" else {"Content-Encoding": recipe["encoding"]}
        if recipe["encoding"] in {"gzip", "deflate"}:
            packer = zlib.compressobj(1, wbits=31 if recipe["encoding"] == "gzip" else 15)
            body = packer.compress(body) + packer.flush()
        sent = http(recipe["status"], body, content_type=recipe["kind"], headers=headers)
        return [sent[0][: len(sent[0]) * 9 // 10], Part.CLOSE] if recipe["cut"] else sent

    return reply


@contextmanager
def client():
    """A function that has the client meet a server, and returns what came of it."""
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.faults.hostile", "client"],
        cwd=Path(__file__).parents[2],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        bufsize=1,
    )

    def meet(recipe):
        script = legacy(**{recipe["to"]: hostile(recipe)})
        with ScriptedServer({**script, "GET": http(405)}) as server:
            process.stdin.write(f"{server.url}\n")
            return json.loads(process.stdout.readline() or '{"outcome": "the process ended"}')

    with process:
        try:
            yield meet
        finally:
            process.stdin.close()


def outcome(url):
    try:
        with MCPClient(url, timeouts=CLOCKS) as mcp:
            mcp.list_tools()
            mcp.call_tool("echo")
    except MCPError as error:
        return error.error_code
    except BaseException as error:
        return f"{type(error).__name__}: {error}"[:300]
    return "result"


def serve_urls():
    resource.setrlimit(resource.RLIMIT_AS, (4096 * MIB, resource.RLIM_INFINITY))  # not the machine's memory
    for line in sys.stdin:
        if PEAK.exists():
            PEAK.write_text("5")  # the peak begins anew
        before, cpu = memory("VmRSS"), time.process_time()
        found = {"outcome": outcome(line.strip())}
        found["cpu"] = round(time.process_time() - cpu, 2)
        found["more"] = round(memory("VmHWM") - before)
        print(json.dumps(found), flush=True)


def try_many(examples, check):
    """Has the client meet so many random replies; `check` gets the recipe and what came of it."""
    with client() as meet:

        @settings(
            max_examples=examples,
            deadline=None,
            database=None,
            suppress_health_check=list(HealthCheck),
            phases=[Phase.generate],
        )
        @given(REPLIES)
        def each(recipe):
            check(recipe, meet(recipe))

        each()


def print_many(examples):
    costs, outcomes = [], Counter()

    def note(recipe, found):
        outcomes[found["outcome"]] += 1
        costs.append((found.get("cpu", 0), found.get("more", 0), recipe))

    try_many(examples, note)
    for word, count in outcomes.most_common():
        print(f"{count:5} {word}")
    for about, place in (("s of processor time", 0), ("MiB more than before", 1)):
        ordered = sorted(cost[place] for cost in costs)
        middle, late = ordered[len(ordered) // 2], ordered[len(ordered) * 99 // 100]
        print(f"{len(costs)} replies, {about}: median {middle}, 99 % {late}, most {ordered[-1]}")
        print(f"      the most: {max(costs, key=lambda cost: cost[place])[2]}")


if __name__ == "__main__":
    if sys.argv[1] == "client":
        serve_urls()
    else:
        print_many(int(sys.argv[1]))
