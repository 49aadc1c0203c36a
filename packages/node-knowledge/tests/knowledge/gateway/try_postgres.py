"""`match_node_knowledge` of docs/ in a real PostgreSQL: `make postgres`.

Needs PostgreSQL 15 or newer with its contrib modules (Debian: postgresql), but none that runs: a cluster is
made, and removed at the end. In front of it is the loopback server that speaks PostgREST's protocol. Not
among the tests, because a machine without PostgreSQL would have to skip it.
"""

import contextlib
import json
import os
import pwd
import shutil
import subprocess
import tempfile
from pathlib import Path

from knime_node_knowledge.sources.catalogue_build import build_catalogue
from tests.knowledge.gateway.outside import KEY, ROWS, outside
from tests.knowledge.gateway.running import running_gateway

FUNCTION = Path(__file__).parents[3] / "docs" / "match_node_knowledge.sql"
TABLE = """
CREATE TABLE node_knowledge_vectors (
    id uuid PRIMARY KEY, node_type varchar NOT NULL, node_subtype varchar, title varchar NOT NULL,
    description text NOT NULL, content text NOT NULL, metadata jsonb DEFAULT '{}'
);
"""
ROW = """
INSERT INTO node_knowledge_vectors
SELECT * FROM json_populate_record(null::node_knowledge_vectors, :'row');
"""
# What PostgREST does with the JSON of a call: named arguments, and the rows as one JSON array.
CALL = """
SELECT coalesce(json_agg(found), '[]') FROM json_to_record(:'body') AS given(
    query_text text, match_threshold float, match_count int, node_type_filter text
), match_node_knowledge(
    query_text => given.query_text, match_threshold => given.match_threshold,
    match_count => given.match_count, node_type_filter => given.node_type_filter
) AS found;
"""


def programs():
    found = shutil.which("initdb")
    folders = [Path(found).resolve().parent] if found else sorted(Path("/usr/lib/postgresql").glob("*/bin"))
    assert folders, "PostgreSQL is not installed"
    return folders[-1]


class Cluster:
    def __init__(self, folder):
        self._folder = folder
        # PostgreSQL does not run as root.
        self._user = "postgres" if os.getuid() == 0 else None
        if self._user:
            os.chown(folder, *pwd.getpwnam(self._user)[2:4])

    def run(self, program, *arguments, text=None):
        done = subprocess.run(
            [programs() / program, *arguments],
            input=text,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
            user=self._user,
            group=self._user,
            cwd=self._folder,
            env={"PATH": os.defpath, "LC_ALL": "C.UTF-8"},
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def sql(self, text, **variables):
        given = [part for name, value in variables.items() for part in ("-v", f"{name}={value}")]
        options = ["-h", str(self._folder), "-U", "postgres", "-XqtA", "-v", "ON_ERROR_STOP=1"]
        return self.run("psql", *options, *given, text=text)


@contextlib.contextmanager
def cluster(folder):
    made, data = Cluster(folder), str(folder / "data")
    made.run("initdb", "-D", data, "-U", "postgres", "-A", "trust", "-E", "UTF8", "--no-sync")
    log = str(folder / "log")
    made.run("pg_ctl", "-D", data, "-l", log, "-w", "-o", f"-k {folder} -c listen_addresses=''", "start")
    try:
        yield made
    finally:
        made.run("pg_ctl", "-D", data, "-m", "immediate", "stop")


def look(running, *names):
    body = {
        "tool_name": "node_knowledge_retriever",
        "params": {"node_names": names, "include_metadata": True},
    }
    with running.client() as client:
        answer = client.post("/mcp/invoke", json=body)
    assert answer.status_code == 200, answer.text
    return answer.json()["result"]["results"]


def main():
    with tempfile.TemporaryDirectory() as name, contextlib.ExitStack() as stack:
        folder = Path(name)
        catalogue = folder / "nodes.sqlite"
        build_catalogue(catalogue)
        place = folder / "postgresql"
        place.mkdir()
        folder.chmod(0o755)
        made = stack.enter_context(cluster(place))
        made.sql(TABLE)
        for row in ROWS:
            made.sql(ROW, row=json.dumps(row))
        made.sql(FUNCTION.read_text("utf-8"))

        def found(asked):
            return json.loads(made.sql(CALL, body=json.dumps(asked)))

        there = stack.enter_context(outside(found))
        environment = {"SUPABASE_URL": there.url, "SUPABASE_SECRET_KEY": KEY}
        running = stack.enter_context(
            running_gateway(catalogue, folder / "keys.sqlite", environment=environment)
        )
        strange = "x'); DROP TABLE node_knowledge_vectors; --"
        exact, near, none, injected = look(running, "Merge", "HTTP Requests", "qqqq", strange)
        assert exact["similarity_score"] == 1
        assert exact["knowledge"] == "Waits for all branches."
        assert near["metadata"]["node_subtype"] == "HTTP_REQUEST"
        assert near["metadata"]["capabilities"] == ["http"]
        assert 0.3 < near["similarity_score"] < 1
        assert none["similarity_score"] is injected["similarity_score"] is None
        assert look(running, "HTTP Request")[0]["similarity_score"] == 1
        print(f"Everything worked with {made.sql('SELECT version()').strip()}")


if __name__ == "__main__":
    main()
