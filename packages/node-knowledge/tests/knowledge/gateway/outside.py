"""Services outside, on loopback: PostgREST in front of `match_node_knowledge`, embeddings, Elasticsearch."""

import difflib
import json
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

KEY = "service-role-key"
ROWS = [
    {
        "id": "8d6b0a5e-0000-4000-8000-000000000001",
        "node_type": "ACTION",
        "node_subtype": "HTTP_REQUEST",
        "title": "HTTP Request",
        "description": "Calls a URL.",
        "content": "Calls a URL and hands on the answer.",
        "metadata": {"capabilities": ["http"]},
    },
    {
        "id": "8d6b0a5e-0000-4000-8000-000000000002",
        "node_type": "FLOW",
        "node_subtype": "MERGE",
        "title": "Merge",
        "description": "Brings branches together.",
        "content": "Waits for all branches.",
        "metadata": {},
    },
]
ARGUMENTS = {"match_threshold", "match_count", "node_type_filter"}


def embedding(text):
    counts = [text.lower().count(letter) for letter in "abcdefghijklmnopqrstuvwxyz"]
    length = sum(count * count for count in counts) ** 0.5 or 1.0
    return [count / length for count in counts]


def matching(asked):
    """What the function in docs/gateway.md gives, or the one of the sources."""

    def similarity(row):
        if "query_text" in asked:
            return difflib.SequenceMatcher(None, asked["query_text"].lower(), row["title"].lower()).ratio()
        pairs = zip(asked["query_embedding"], embedding(row["title"]), strict=True)
        return sum(a * b for a, b in pairs)

    rows = [row | {"similarity": similarity(row)} for row in ROWS]
    rows = [row for row in rows if row["similarity"] > asked["match_threshold"]]
    return sorted(rows, key=lambda row: -row["similarity"])[: asked["match_count"]]


class Outside(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def __init__(self, found):
        super().__init__(("127.0.0.1", 0), Handler)
        self.matching = found
        self.asked = []
        self.answer = None  # (status, body) instead of the right answer
        self.embeddings_only = False

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server_port}"


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *arguments):
        pass

    def reply(self, status, body):
        text = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json; charset=utf-8")
        self.send_header("X-Elastic-Product", "Elasticsearch")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        asked = json.loads(body) if body else {}
        self.server.asked.append((self.path, asked, dict(self.headers)))
        if self.path == "/v1/embeddings":
            self.reply(200, {"data": [{"embedding": embedding(asked["input"])}]})
        elif self.server.answer is not None:
            self.reply(*self.server.answer)
        elif self.path == "/rest/v1/rpc/match_node_knowledge":
            self.postgrest(asked)
        elif self.path.startswith("/nodes") and "/_search" in self.path:
            self.elasticsearch(asked)
        else:
            self.reply(404, {"code": "PGRST202", "message": "no such function"})

    def postgrest(self, asked):
        authorized = (
            self.headers.get("apikey") == KEY and self.headers.get("Authorization") == f"Bearer {KEY}"
        )
        query = "query_embedding" if self.server.embeddings_only else "query_text"
        if not authorized:
            self.reply(401, {"code": "PGRST301", "details": None, "hint": None, "message": "JWSError"})
        elif set(asked) != ARGUMENTS | {query}:
            self.reply(404, {"code": "PGRST202", "details": "", "hint": None, "message": "no such function"})
        else:
            self.reply(200, self.server.matching(asked))

    def elasticsearch(self, asked):
        hits = [{"_index": "nodes", "_id": row["id"], "_score": 1.0, "_source": row} for row in ROWS]
        total = {"value": len(ROWS), "relation": "eq"}
        found = {"total": total, "max_score": 1.0, "hits": hits[: asked["size"]]}
        self.reply(200, {"took": 1, "timed_out": False, "_shards": {"total": 1}, "hits": found})


@contextmanager
def outside(found=matching):
    """The services, until the end of the block.

    `found` is what `match_node_knowledge` gives for the arguments of a call.
    """
    server = Outside(found)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join(30)
