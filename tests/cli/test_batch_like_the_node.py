"""The node and the command line read a table of parameters the same way: the same table, the same calls."""

import html
from datetime import date

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.support.scripted_server import ScriptedServer, modern, rpc, tool

PARAMETERS = {
    "city": {"type": "string"},
    "days": {"type": "integer"},
    "status": {"type": "string"},
    "result": {"type": "string"},
    "tags": {"type": "array", "items": {"type": "string"}},
    "day": {"type": "string"},
    "price": {"type": "number"},
}
#: What *Results* has beside the rows of its input.
OUTCOME = {
    "Input row": ["1", "2"],
    "Status": ["ok", "failed"],
    "Result": ["warm", None],
    "Error": [None, "x"],
}
TABLES = {
    "plain columns": {"city": ["Ulm", "Bern"], "days": [1, 2]},
    "missing cells": {"city": ["Ulm", None], "days": [None, 2]},
    "names that look alike": {" City ": ["Ulm", "Bern"], "DAYS": [1.0, 2.0]},
    "outcome of an earlier run": {"city": ["Ulm", "Bern"], **OUTCOME, "Duration (s)": [0.5, 0.6]},
    "outcome of two earlier runs": {
        "city": ["Ulm", "Bern"],
        "Status (input)": ["ok", "ok"],
        "Result (input) #2": ["a", "b"],
        **OUTCOME,
    },
    "a parameter's own name beside an outcome": {"status": ["a", "b"], "Status": ["ok", "ok"], **OUTCOME},
    "types": {"city": ["Ulm", "Bern"], "tags": [["a"], []], "day": [date(2026, 1, 31), None]},
    "text as JSON": {"tags": ['["a", "b"]', "[]"], "city": ["007", ""]},
    "unknown columns": {"city": ["Ulm", "Bern"], "other": [1, 2]},
}


@pytest.fixture(scope="module")
def server():
    echo = tool("echo", inputSchema={"type": "object", "properties": PARAMETERS})
    with ScriptedServer(modern(tools__list=rpc({"tools": [echo]}))) as scripted:
        yield scripted


@pytest.fixture
def from_node(host, server, tmp_path):
    def run(columns, **settings):
        before = len(server.named("tools/call"))
        settings = {"server_url": server.url, "tool_name": "echo", "concurrency": 1, **settings}
        table = host.table(pa.table(columns))
        done = host.run("mcp_tool_caller", [None, table, None], settings, workflow_dir=tmp_path / "workflow")
        assert done.ok, done.failure
        return _sent(server, before)

    return run


@pytest.fixture
def from_batch(cli, server, tmp_path):
    def run(file, *options):
        before = len(server.named("tools/call"))
        done = cli("batch", server.url, "echo", file, "--concurrency", "1", *options)
        assert done.code == 0, done.err
        return _sent(server, before)

    return run


def _sent(server, before):
    return [request.params.get("arguments", {}) for request in server.named("tools/call")[before:]]


@pytest.mark.parametrize("name", TABLES)
def test_typed_tables(from_node, from_batch, tmp_path, name):
    pq.write_table(pa.table(TABLES[name]), tmp_path / "p.parquet")
    assert from_batch("p.parquet") == from_node(TABLES[name])


def test_a_json_column(from_node, from_batch, tmp_path):
    columns = {"all": ['{"city": "Ulm", "status": "s"}', None], "Status": ["ok", "ok"], "Result": ["a", "b"]}
    pq.write_table(pa.table(columns), tmp_path / "p.parquet")
    settings = {"arguments_column": "all"}
    assert from_batch("p.parquet", "--arguments-column", "all") == from_node(columns, **settings)


def test_results_are_the_parameters_of_the_next_run(from_batch, cli, server, tmp_path):
    """Of text, too, as a CSV file has it: a *Status* is no ``status``."""
    (tmp_path / "in.csv").write_text("city,days\n007,1\nBern,\n", encoding="utf-8")
    assert cli("batch", server.url, "echo", "in.csv", "--out", "r1.csv").code == 0
    assert from_batch("r1.csv") == [{"city": "007", "days": 1}, {"city": "Bern"}]


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        (
            {"city": ["Ulm"], "price": ["1.000"]},
            "Numbers of the column 'price' are read with a decimal point, though it may separate thousands:"
            " 1.000 in row",
        ),
        (
            {"city": ["Ulm"], "price": ["1.000,5"]},
            "The column 'price' has numbers with a decimal comma, such as 1.000,5 in row",
        ),
        (
            {"Stadt": ["Ulm"]},
            "None of the columns 'Stadt' is called like a parameter of the tool echo: city, days,",
        ),
    ],
)
def test_what_is_doubtful_about_a_table_is_said_in_the_same_words(
    host, server, cli, tmp_path, columns, words
):
    pq.write_table(pa.table(columns), tmp_path / "p.parquet")
    said = cli("batch", server.url, "echo", "p.parquet", "--dry-run").err
    assert words in " ".join(said.split())
    settings = {"server_url": server.url, "tool_name": "echo"}
    inputs = [None, host.table(pa.table(columns)), None]
    done = host.run("mcp_tool_caller", inputs, settings, workflow_dir=tmp_path / "workflow")
    assert done.ok, done.failure
    assert words in done.warnings[-1]
    assert words in html.unescape(done.view_html)
