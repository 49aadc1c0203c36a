import base64
import json

from tests.support.archives import check_archive
from tests.support.scripted_server import ScriptedServer, modern, rpc, tool
from tests.tools.test_tool_component import SCHEMA

TYPED = {
    "type": "object",
    "properties": {
        "day": {"type": "string", "format": "date"},
        "at": {"type": "string", "format": "date-time"},
        "picture": {"type": "string", "contentEncoding": "base64"},
        "options": {"type": "object"},
        "mode": {"enum": ["fast", "slow"]},
    },
    "required": ["day", "at", "picture", "options"],
}


def test_a_component_of_a_tool_runs_with_its_settings(cli, linear, tmp_path):
    rows = rpc({"content": [{"type": "text", "text": '[{"id": 1}, {"id": 2}]'}]})
    listed = rpc({"tools": [tool("find", inputSchema=SCHEMA, title="Find things")]})
    with ScriptedServer(modern(tools__list=listed, tools__call=rows)) as server:
        made = cli("make-component", server.url, "find", "--out", "find.knwf")
        assert (made.code, "with 8 settings" in made.err) == (0, True), made.err
        assert "not opened in KNIME itself" in made.err
        assert list(check_archive(tmp_path / "find.knwf")) == []
        done = linear("find.knwf", "out", "query=x", "limit=7")
        assert done.code == 0, done.err
        (sent,) = (request.params["arguments"] for request in server.named("tools/call"))
    assert sent == {"query": "x", "limit": 7, "order": "up", "exact": True, "ratio": 0.5}
    (output,) = {file.name.split()[0] for file in (tmp_path / "out").glob("* Component Output.json")}
    records, (row,) = (
        json.loads((tmp_path / "out" / f"{output} {port} Component Output.json").read_text("utf-8"))
        for port in (1, 2)
    )
    assert [record["id"] for record in records] == [1, 2]
    assert row["Status"] == "ok"


def test_dates_files_and_objects_are_sent_as_the_schema_wants_them(cli, linear, tmp_path):
    picture = b"\x89PNG\r\n\x1a\n123"
    (tmp_path / "a b.png").write_bytes(picture)
    listed = rpc({"tools": [tool("show", inputSchema=TYPED)]})
    answer = rpc({"content": [{"type": "text", "text": "ok"}]})
    with ScriptedServer(modern(tools__list=listed, tools__call=answer)) as server:
        assert cli("make-component", server.url, "show").code == 0
        missing = linear("show.knwf", "a", "options={}")
        assert (missing.code, "/picture is missing" in missing.err) == (2, True), missing.err
        values = {
            "day": "2026-03-04",
            "at": "2026-03-04T05:06:07+01:00[Europe/Berlin]",
            "picture": str(tmp_path / "a b.png"),
            "options": '{"deep": [1]}',
        }
        done = linear("show.knwf", "b", *(f"{name}={value}" for name, value in values.items()))
        assert done.code == 0, done.err
        gone = linear("show.knwf", "c", "options={}", f"picture={tmp_path / 'no.png'}")
        assert (gone.code, "no.png" in gone.err) == (2, True), gone.err
        (sent,) = (request.params["arguments"] for request in server.named("tools/call"))
    assert sent == {
        "day": "2026-03-04",
        "at": "2026-03-04T05:06:07+01:00",
        "picture": base64.b64encode(picture).decode(),
        "options": {"deep": [1]},
    }


def test_what_cannot_be_made_says_why(cli):
    assert cli("make-component", "http://h/mcp").code == 2
    assert cli("make-component", "http://h/mcp", "t", "--out", "t.zip").code == 2


def test_a_server_that_is_a_command_is_refused_at_once(cli, linear, tmp_path):
    made = cli("make-component", "--stdio", "files=no-such-program", "find")
    assert made.code == 2
    assert "stdio:files is a command on this computer, which KNIME does not start" in made.err
    assert "enter its URL" in made.err
    assert list(tmp_path.glob("*.knwf")) == []
