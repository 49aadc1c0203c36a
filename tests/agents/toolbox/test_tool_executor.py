"""Calls of a model on real servers: answers, helpful errors, records, and cancellation."""

import json
import threading
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import pytest

from knime_mcp.agents.toolbox.data_registry import DataRegistry
from knime_mcp.agents.toolbox.replies import AGENT_ORIGIN, WORKFLOW_ORIGIN, LargeResults, ReplyMaker
from knime_mcp.agents.toolbox.tool_executor import ToolOptions
from knime_mcp.agents.toolbox.toolset import Toolset, extract_tools
from knime_mcp.client.protocol.tools import ABSENT, ImageContent
from knime_mcp.runs.call_values import ToolAnswer
from knime_mcp.types.errors import Canceled
from knime_mcp.types.tool import MCPTool, ToolPort, WorkflowTool


@pytest.fixture
def one(box, tools_of, server):
    def make(**more):
        return box(tools_of(server.url("/one")), **more)

    return make


@pytest.mark.requirement("T20")
@pytest.mark.requirement("T23")
@pytest.mark.requirement("T28")
def test_a_call_and_its_record(one, server):
    made = one()
    reply = made.call("weather", {"city": "Bodman"}, iteration=4)
    assert json.loads(reply.content)["city"] == "Bodman"
    assert (reply.failed, reply.tool.name) == (False, "weather")
    (record,) = made.records
    assert reply.record is record
    assert (record.status, record.iteration, record.run, record.tool_type) == ("ok", 4, "run-1", "mcp")
    assert record.server == server.url("/one")
    assert json.loads(record.structured_result)["temperature"] == 20.5


def test_a_model_can_call_a_tool_of_either_server(box, tools_of, server):
    made = box([*tools_of(server.url("/one")), *tools_of(server.url("/two"))])
    names = [name for name in made.names if name.startswith("who_")]
    assert sorted(made.call(name, {}).content for name in names) == ["one", "two"]
    shown = {made.executor.shown_name(name) for name in names}
    assert shown == {f"who @ 127.0.0.1:{server.port}/one", f"who @ 127.0.0.1:{server.port}/two"}


@pytest.mark.requirement("T28")
@pytest.mark.parametrize(
    ("name", "arguments", "status", "said"),
    [
        ("add", {"a": "many"}, "invalid arguments", ["/a must be an integer", "text", '{"a":1']),
        ("add", {}, "invalid arguments", ["/a is missing", "for example"]),
        ("add", {"A": 1}, "invalid arguments", ["no argument 'A' (did you mean 'a'?)"]),
        ("weather", {"city": "x", "days": 9}, "invalid arguments", ["/days must be", "at most 7"]),
        ("fail", {"why": "the disk is full"}, "tool error", ["the tool failed", "the disk is full"]),
        ("fail", {"wy": "x"}, "tool error", ["did you mean 'why'?"]),
        ("wether", {"city": "x"}, "not found", ["Did you mean weather?"]),
        ("zzz", {}, "not found", ["There is no tool 'zzz'", "The tools are add, called"]),
    ],
)
def test_errors_say_what_to_do(one, name, arguments, status, said):
    made = one()
    reply = made.call(name, arguments)
    assert reply.failed
    assert [part for part in said if part not in reply.content] == []
    (record,) = made.records
    assert (record.status, record.iteration) == (status, 1)
    assert json.loads(record.arguments) == arguments


def test_allowed_values_and_names_are_told(box, tools_of, shapes):
    made = box(tools_of(shapes.url("/legacy/json/schemas")))
    reply = made.call("forest", {"tree": {"label": "x"}, "colour": "blue"})
    assert '"red"' in reply.content
    assert "/colour" in reply.content
    reply = made.call("forest", {"tree": {"label": "x"}, "place": {"city": {"zip": "1"}, "citty": 1}})
    assert "citty" in reply.content


def test_an_unknown_tool_is_on_record(one):
    made = one(secrets=["hush-hu5h-2026"])
    made.call("hush-hu5h-2026", {"a": "hush-hu5h-2026"})
    (record,) = made.records
    assert record.tool is None
    assert "hush" not in json.dumps(record.to_json())
    assert record.tool_name.startswith("⟨secret")


@pytest.mark.parametrize("arguments", [None, {}])
def test_arguments_that_could_not_be_read(one, arguments):
    made = one()
    reply = made.call("add", arguments, error="it ends in the middle of a text, at character 12")
    assert reply.failed
    assert "in the middle of a text" in reply.content
    assert '{"a":1' in reply.content
    assert [record.status for record in made.records] == ["invalid arguments"]
    assert made.call("add", None).record.status == "invalid arguments"


def test_a_server_that_is_not_there(box):
    made = box([MCPTool("gone", "", {}, "http://127.0.0.1:9/mcp", "gone")])
    reply = made.call("gone", {})
    assert (reply.failed, reply.record.status) == (True, "failed")
    assert "at most once" in reply.content


def test_secrets_reach_neither_model_nor_record(one):
    made = one(secrets=["s3cret-token"])
    reply = made.call("login", {"user": "a", "password": "t0p-h1dden"})
    assert "t0p-h1dden" not in reply.content
    reply = made.call("echo", {"value": {"x": "s3cret-token"}})
    assert "s3cret-token" not in reply.content
    assert "s3cret-token" not in json.dumps([record.to_json() for record in made.records])


def test_a_reply_says_which_server_wrote_it(one, server):
    made = one(options=ToolOptions(longest_result=2000))
    assert made.call("who", {}).origin == server.url("/one")
    assert made.call("fail", {"why": "x"}).origin == server.url("/one")
    made.call("big", {"megabytes": 1})
    assert made.call("read_result", {"id": "r1"}).origin == server.url("/one")
    for own in (made.call("read_result", {"id": "r2"}), made.call("add", {}), made.call("no_such", {})):
        assert own.failed
        assert own.origin == AGENT_ORIGIN


def test_long_results_are_read_on(one):
    made = one(options=ToolOptions(longest_result=2000))
    assert "read_result" not in made.names
    reply = made.call("big", {"megabytes": 1})
    assert len(reply.content) < 2300
    assert len(reply.record.result) == 1024 * 1024
    assert made.names[-1] == "read_result"
    more = made.call("read_result", {"id": "r1", "offset": 1500})
    assert more.content.endswith("\n" + "x" * 2000)
    assert (more.record, more.tool, more.failed) == (None, None, False)
    wrong = made.call("read_result", {"id": "r1", "offset": -1})
    assert wrong.failed
    assert "/offset" in wrong.content
    assert len(made.records) == 1


def test_a_real_tool_keeps_the_name_of_a_built_in_one(box, tools_of, shapes):
    real = [
        MCPTool("read_result", "", {}, tool.server_uri, tool.tool_name)
        for tool in tools_of(shapes.url("/legacy/json/parameterless"))
        if tool.name == "empty_schema"
    ]
    made = box(real, options=ToolOptions(longest_result=200))
    made.call("read_result", {"text": "y" * 500})
    assert made.names == ["read_result", "read_result_2"]
    assert '"offset": 150' in made.call("read_result", {"text": "y" * 500}).content
    assert made.call("read_result_2", {"id": "r1"}).record is None


@pytest.mark.parametrize("wrapped", [False, True])
def test_records_become_a_table(box, tools_of, shapes, wrapped):
    ports = (ToolPort("Cities", "Names of cities", "Table", None),)
    takes_tables = WorkflowTool("Count rows", "Counts", {}, 0, ports, ())
    made = box([*tools_of(shapes.url("/legacy/json/parameterless")), takes_tables])
    rows = [{"city": "Bodman", "n": 1}, {"city": "Konstanz", "n": 2, "more": [1]}]
    reply = made.call("empty_schema", {"result": rows} if wrapped else {"rows": rows, "total": 2})
    body, heading, line = reply.content.rsplit("\n", 2)
    assert heading == "## Data repository update"
    assert body.count("Bodman") == 1  # text and structured value are the same
    described = json.loads(line)
    assert described["id"] == "0"
    assert described["name"] == ("empty_schema" if wrapped else "empty_schema rows")
    assert described["columns"] == {"city": "string", "n": "int64", "more": "string"}
    table = made.executor.registry.table("0")
    assert table.to_pylist()[1] == {"city": "Konstanz", "n": 2, "more": "[1]"}


def test_records_have_no_id_where_no_tool_takes_one_and_are_csv(box, tools_of, shapes):
    made = box(tools_of(shapes.url("/legacy/json/parameterless")))
    rows = [{"city": "Bodman", "n": 1}, {"city": "Konstanz", "n": 2}]
    reply = made.call("empty_schema", {"result": rows})
    assert reply.content == "city,n\nBodman,1\nKonstanz,2"
    assert made.executor.registry.table("0").num_rows == 2


def test_structured_values_that_the_text_does_not_hold(box, tools_of, shapes):
    made = box(tools_of(shapes.url("/modern/json/contents")))
    assert made.call("list", {}).content == '[1, "two", null]'
    assert made.call("missing", {}).content == '{"content": "left out"}'
    assert made.call("null", {}).content == "null"
    assert made.call("none", {}).content == "(The tool gave no result.)"
    made = box(tools_of(shapes.url("/legacy/json/surrogates")))
    text, structured = made.call("talk", {}).content.splitlines()
    assert "after" in text
    assert json.loads(structured)


def test_images_reach_the_model_and_are_kept_for_people(one):
    made = one()
    text, image = made.call("pixel", {}).content
    assert (text["type"], image["type"], image["mime_type"]) == ("text", "image", "image/png")
    (item,) = made.executor.registry.items
    assert (item.type, item.data[:4]) == ("image/png", b"\x89PNG")


def test_an_image_that_is_too_large_is_named(tools_of, server):
    (tool,) = [tool for tool in Toolset(tools_of(server.url("/one"))).bound if tool.name == "pixel"]
    replies = ReplyMaker(registry=DataRegistry(), large=LargeResults(2000))
    for size, shown in ((3_750_000, True), (3_750_001, False)):
        image = ImageContent(data=b"p" * size, mime_type="image/png")
        answer = ToolAnswer(text="a picture", structured=ABSENT, blocks=(image,))
        content = replies.content(tool, answer, reads_on=True)
        assert isinstance(content, list) is shown
    assert "not shown all images of 'pixel'" in "".join(replies.notes)


def test_calls_from_many_threads_are_all_answered_and_recorded(one):
    made = one()
    with ThreadPoolExecutor(8) as threads:
        replies = list(threads.map(lambda n: made.call("add", {"a": n, "b": 1}), range(40)))
    assert [reply.content for reply in replies] == [str(n + 1) for n in range(40)]
    assert len(made.records) == 40


def test_cancel_while_a_tool_runs(one):
    made = one()
    canceled = threading.Event()
    threading.Timer(0.3, canceled.set).start()
    with pytest.raises(Canceled):
        made.call("wait", {"seconds": 60}, is_canceled=canceled.is_set)
    assert [record.status for record in made.records] == ["canceled"]


def test_a_tool_that_changed_is_noted(box, tools_of, server):
    from dataclasses import replace

    (tool,) = [tool for tool in tools_of(server.url("/one")) if tool.name == "add"]
    route = replace(tool.route, digest="sha256:" + "0" * 64)
    made = box([replace(tool, server_uri=route.uri, parameter_schema=tool.schema_json)])
    assert made.call("add", {"a": 1}).content == "2"
    assert [note for note in made.executor.notes if "has changed the tool" in note]


@pytest.mark.requirement("T24")
@pytest.mark.requirement("T25")
def test_tools_of_a_mixed_column(host, box, server):
    from knime.types.tool import WorkflowTool as KnimeTool

    host.add_file_store("segment-for-agents", b"workflow")
    schema = {"city": {"type": "string"}}
    cells = host.tool_column([KnimeTool("Report", "Makes one", schema, 0, [], [], "segment-for-agents")])
    settings = {"server_url": server.url("/one"), "column_form": "carrier", "include": "add, who"}
    provided = host.run("mcp_tool_provider", [None, None], settings)
    assert provided.ok, provided.failure
    column = pa.chunked_array([cells, *provided.outputs[0].arrow.column("Tool").chunks]).combine_chunks()
    table = host.table(pa.table({"Tool": pa.concat_arrays([column, pa.nulls(1, column.type)])}))
    with host.executing():
        tools = extract_tools(table)
    assert [type(tool) for tool in tools] == [WorkflowTool, MCPTool, MCPTool]
    made = box(
        tools, run_workflow=lambda tool, arguments, tables: (f"{tool.name} on {arguments['city']}", ())
    )
    reply = made.call("Report", {"configuration": {"city": "Konstanz"}})
    assert (reply.content, reply.origin) == ("Report on Konstanz", WORKFLOW_ORIGIN)
    assert made.call("add", {"a": 20}).content == "21"
    assert [record.tool_type for record in made.records] == ["workflow", "mcp"]


def test_a_canceled_run_begins_no_call(one):
    made = one()
    with pytest.raises(Canceled):
        made.call("wait", {"seconds": 60}, is_canceled=lambda: True)
    assert [record.status for record in made.records] == ["canceled"]


def test_what_a_person_does_not_see_is_not_told_to_the_model(one):
    made = one()
    said = "a\u200bb\x1b[2J\u202ec\U000e0041 👨\u200d👩\u200d👧"
    reply = made.call("login", {"user": said, "password": "p"})
    assert reply.content.startswith("ab[2Jc 👨\u200d👩\u200d👧 logged in")
    assert made.records[0].result.startswith(said)
    (note,) = made.executor.notes
    assert note.startswith("Results of 'login' hold hidden characters, which the model was not shown;")
    assert "no luck" in made.call("fail", {"why": "no \u200bluck"}).content


def test_what_a_model_hid_is_not_held_against_the_server(one):
    made = one()
    assert "\u200b" in made.call("add", error="no JSON: \u200b{").content
    assert not made.executor.notes


def test_a_short_credential_changes_nothing_that_the_model_reads(one):
    made = one(secrets=["test", "1234"])
    reply = made.call("echo", {"value": {"x": "latest contest", "id": 1234, "t": "a test"}})
    assert "latest contest" in reply.content
    assert "secret" not in reply.content + str([record.to_json() for record in made.records])
