"""The node *MCP Resource Reader*."""

import base64
import hashlib
import json
from pathlib import Path

import pyarrow as pa
import pytest

from tests.support.scripted_server import ScriptedServer, legacy, rpc, rpc_error

pytestmark = pytest.mark.quick


NODE = "mcp_resource_reader"
PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
SECRET = "canary-77c1f0aa92bd"
CONTENTS = {
    "a://text": {"text": "grüße", "mimeType": "text/plain"},
    "a://json": {"text": '{"n": [1, 2]}', "mimeType": "application/json"},
    "a://png": {"blob": base64.b64encode(PNG).decode(), "mimeType": "image/png"},
    "a://exe": {"blob": "AAAA", "mimeType": "application/x-msdownload"},
    "a://leak": {"text": f"your token is {SECRET}"},
    "a://item/1%202": {"text": "one"},
}


def read(request):
    uri = request.params["uri"]
    if uri not in CONTENTS:
        return rpc_error(-32002, f"Resource not found: {uri}")(request)
    return rpc({"contents": [{"uri": uri, **CONTENTS[uri]}]})(request)


@pytest.fixture
def server():
    listed = rpc({"resources": [{"uri": uri, "name": uri[4:]} for uri in CONTENTS]})
    templates = rpc({"resourceTemplates": [{"uriTemplate": "a://item/{key}"}]})
    script = legacy(resources__list=listed, resources__templates__list=templates, resources__read=read)
    with ScriptedServer(script) as running:
        yield running


@pytest.fixture
def reader(host, server, tmp_path):
    def run(rows=None, *, stored=None, **settings):
        table = None if rows is None else host.table(pa.table(rows))
        return host.run(
            NODE,
            [table, None],
            {"server_url": server.url, **settings},
            workflow_dir=tmp_path / "workflow",
            credentials=stored or {},
        )

    return run


def contents(result):
    assert result.ok, result.failure
    assert not result.problems
    return result.outputs[0].to_pylist()


def test_what_there_is_is_listed(reader, server):
    result = reader()
    assert contents(result) == []
    listed = result.outputs[1].to_pylist()
    assert [row["URI"] for row in listed] == [*CONTENTS, "a://item/{key}"]
    assert (listed[-1]["Kind"], listed[-1]["Variables"]) == ("template", "key")
    assert server.named("resources/read") == []


def test_one_resource_is_read(reader):
    (row,) = contents(reader(uri="a://text"))
    assert (row["Text"], row["Media type"], row["Size"]) == ("grüße", "text/plain", 7)
    assert row["SHA-256"] == hashlib.sha256("grüße".encode()).hexdigest()


def test_one_per_row_with_pictures_files_and_errors(reader):
    rows = contents(reader({"u": ["a://png", "a://exe", "a://gone", None]}, uri_column="u"))
    picture, program, gone, none = rows
    assert Path(picture["File"]).read_bytes() == PNG
    assert picture["File"].endswith(".png")
    assert picture["Image"] is not None
    assert program["File"].endswith(".bin")
    assert "Resource not found" in gone["Error"]
    assert "no URI" in none["Error"]
    assert [row["Input row"] for row in rows] == ["Row0", "Row1", "Row2", "Row3"]


def test_a_column_that_python_cannot_read_is_left_out(reader, cells):
    # in a year that Python does not have
    days = cells("org.knime.core.data.v2.time.LocalDateValueFactory", pa.array([10**9], pa.int64()))
    (row,) = contents(reader({"u": ["a://text"], "day": days}, uri_column="u"))
    assert row["Text"] == "grüße"


def test_a_template_is_filled_in_from_columns(reader):
    (row,) = contents(reader({"key": ["1 2"]}, uri="a://item/{key}"))
    assert (row["URI"], row["Text"]) == ("a://item/1%202", "one")
    failed = reader(uri="a://item/{key}")
    assert "template" in failed.failure["message"]
    assert "key" in failed.failure["message"]


def test_a_failure_ends_the_node_if_it_is_to(reader):
    result = reader({"u": ["a://gone"]}, uri_column="u", on_error="fail")
    assert "Resource not found" in result.failure["message"]
    assert "Row0" in result.failure["message"]


def test_what_changed_since_somebody_saw_it(reader):
    seen = {"u": ["a://text", "a://json"], "SHA-256": [hashlib.sha256("grüße".encode()).hexdigest(), "other"]}
    warned = reader(seen, uri_column="u")
    assert [row["Error"] for row in contents(warned)] == [None, None]
    assert "'a://json' is not the one that was seen before" in warned.warnings[-1]
    first, second = contents(reader(seen, uri_column="u", if_changed="fail"))
    assert first["Text"] == "grüße"
    assert second["Text"] is None
    assert "not the one" in second["Error"]
    assert contents(reader(seen, uri_column="u", if_changed="ignore"))[1]["Error"] is None


def test_a_secret_that_the_server_repeats_is_marked(reader, tmp_path):
    result = reader(uri="a://leak", credentials="key", stored={"key": ("me", SECRET)})
    (row,) = contents(result)
    assert SECRET not in row["Text"]
    assert row["Text"].startswith("your token is ")
    assert "repeated a secret" in result.warnings[-1]
    for file in (tmp_path / "workflow").rglob("*"):
        assert not file.is_file() or SECRET.encode() not in file.read_bytes()


def test_each_answer_is_a_line_in_a_journal(reader, tmp_path):
    from knime_mcp.audit.journal_reading import read_journal
    from knime_mcp.audit.verdicts import Verdict
    from knime_mcp.audit.verify import verify_file

    result = reader({"u": ["a://text", "a://gone"]}, uri_column="u")
    (journal,) = (tmp_path / "workflow").rglob("*.jsonl")
    lines = [json.loads(line) for line in journal.read_text(encoding="utf-8").splitlines()]
    reads = [line for line in lines if line["kind"] == "read"]
    assert [line["name"] for line in reads] == ["a://text", "a://gone"]
    assert reads[0]["digest"].startswith("sha256:")
    assert "not found" in reads[1]["error"]
    assert result.flow_variables["mcp_audit_head"]
    content = read_journal(journal)
    assert (content.outcome, content.torn) == ("complete", False)
    assert result.flow_variables["mcp_audit_head"].endswith(content.chain)
    assert verify_file(journal).verdict is Verdict.UNANCHORED


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"server_url": ""}, "URL"),
        ({"uri_column": "gone"}, "Connect a table with URIs"),
        ({"credentials": "gone"}, "no credential 'gone'"),
    ],
)
def test_settings_that_cannot_work_fail_in_configure(host, message, settings, said):
    given = {"server_url": "http://127.0.0.1:9/mcp", **settings}
    assert said in message(host.run(NODE, [None, None], given, execute=False))


def test_json_cells_where_knime_has_them(reader):
    from knime_mcp.tools.caller.calls_report import json_type

    if json_type() is None:
        assert "no JSON cells" in reader(uri="a://json", json_cells=True).failure["message"]
        return
    result = reader({"u": ["a://json", "a://text"]}, uri_column="u", json_cells=True)
    assert [row["JSON"] for row in contents(result)] == [{"n": [1, 2]}, None]
