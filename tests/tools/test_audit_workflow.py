"""The audit workflow: what becomes of each call, that the nodes load it, what the rig says about it."""

import dataclasses
import json

import pytest

from knime_mcp.audit.record import CallRecord, CallStatus
from knime_mcp.knwf import check, write_workflow
from knime_mcp.knwf.workflow_model import NodeState
from knime_mcp.tools.audit_workflow import audit_workflow, save_after_run, target_of
from knime_mcp.types.texts import canonical_json
from knime_mcp.types.tool import MCPTool, WorkflowTool, to_json_text
from tests.support import real_knime as rig
from tests.support.archives import read_workflow

pytestmark = pytest.mark.requirement("T61")

SCHEMA = {
    "type": "object",
    "properties": {
        "q": {"type": "string"},
        "n": {"type": "integer"},
        "tags": {"type": "array", "items": {"type": "string"}},
        "password": {"type": "string", "format": "password"},
        "any": {},
    },
}
TOOL = MCPTool(
    "prefix-search",
    "Finds",
    SCHEMA,
    "https://host.example/mcp?x=1#credential=prod&send_credentials_as=header&header_name=X-Key"
    "&header=X-Team:sales&transport=sse&digest=sha256:" + "a" * 64,
    "search",
    annotations={"readOnlyHint": True},
)
FLOW = WorkflowTool("Flow", "", {"n": {"type": "integer"}})


def record(call, tool=TOOL, arguments=None, **more):
    values = {
        "run": "r1",
        "call": call,
        "tool": to_json_text(tool),
        "tool_name": tool.name,
        "tool_type": tool.tool_type.name.lower(),
        "server": tool.route.url if isinstance(tool, MCPTool) else None,
        "digest": tool.digest if isinstance(tool, MCPTool) else None,
        "arguments": canonical_json(arguments or {}),
        "status": CallStatus.OK,
        "started_at": "2026-01-31T12:00:00.000000Z",
        "duration": 0.5,
    }
    return CallRecord(**{**values, **more})


ARGUMENTS = {"q": "100% <&> \n😀", "n": 3, "tags": ["a", "b"], "any": "5", "more": {"x": None}}


def model_of(node):
    return node.parameters["model"]


def test_a_step_says_all_that_the_record_says(host):
    exported = audit_workflow([record(1, arguments=ARGUMENTS)], name="w")
    (node,) = exported.workflow.nodes
    model = model_of(node)
    assert model["server_url"] == "https://host.example/mcp?x=1"
    assert (model["credentials"], model["tool_name"]) == ("prod", "search")
    assert model["connection_options"].splitlines() == [
        "send_credentials_as = header",
        "header_name = X-Key",
        "header = X-Team:sales",
        "transport = sse",
        "digest = sha256:" + "a" * 64,
    ]
    assert node.state is NodeState.CONFIGURED
    assert [own.name for own in exported.workflow.credentials] == ["prod"]
    assert check(exported.workflow) == []


def test_the_caller_reads_the_very_arguments(host):
    from knime_mcp.client.validation.argument_schemas import parameters_of
    from knime_mcp.runs.argument_sources import arguments_from_pairs, parse_arguments_setting

    (node,) = audit_workflow([record(1, arguments=ARGUMENTS)], name="w").workflow.nodes
    model = model_of(node)
    pairs = [(pair["name"], pair["value"]) for pair in model["arguments"]]
    assert {"q", "n", "tags"} <= {name for name, _ in pairs}  # what people can read without knowing JSON
    again = {
        **parse_arguments_setting(model["arguments_json"]),
        **arguments_from_pairs(pairs, parameters_of(TOOL)),
    }
    assert canonical_json(again) == canonical_json(ARGUMENTS)


def test_settings_are_those_of_the_caller(host, tmp_path):
    """All of them: KNIME refuses a node in which one is missing."""
    fresh = host.dialog("mcp_tool_caller")["data"]["model"]
    write_workflow(audit_workflow([record(1, arguments=ARGUMENTS)], name="w").workflow, tmp_path / "w.knwf")
    (node,) = read_workflow(tmp_path / "w.knwf").nodes
    assert model_of(node).keys() == fresh.keys()
    loaded = host.load_parameters(node.node_id, node.parameters, node.parameters_version)
    assert loaded["model"] == model_of(node)
    declared = {own["id"]: own for own in host.describe()["nodes"]}["mcp_tool_caller"]
    names = [port["name"] for port in declared["input_port_specifier"]]
    assert [group.name for group in node.port_groups] == [*names, "Results", "Records"]


def test_steps_stand_in_the_order_of_calls_and_cover_no_note(host):
    records = [record(call, iteration=1 + call // 8) for call in range(1, 21)]
    workflow = audit_workflow(records, name="w", question="Why?", answer="Because.").workflow
    assert [f"{call} · prefix-search" for call in range(1, 21)] == [
        node.annotation.split("\n")[0] for node in workflow.nodes
    ]
    assert [(c.source, c.source_port, c.destination, c.destination_port) for c in workflow.connections] == [
        (call, 0, call + 1, 0) for call in range(1, 20)
    ]
    places = [(node.position.x, node.position.y) for node in workflow.nodes]
    assert len(set(places)) == 20
    rows = {y for _, y in places}
    assert len(rows) == 5  # two turns of more than six calls, and one of five
    texts = [note.text for note in workflow.annotations]
    assert "Question\nWhy?" in texts
    assert texts[-1] == "Answer\nBecause."
    assert "Turn 2" in texts
    boxes = [(n.x, n.y, n.x + n.width, n.y + n.height) for n in workflow.annotations]
    for x, y in places:
        assert not any(left < x < right and top < y < bottom for left, top, right, bottom in boxes)


def test_secrets_are_placeholders_that_the_caller_refuses(host, tmp_path):
    marked = {"q": "x", "password": "⟨secret 0123456789ab⟩"}
    secrets = '{"arguments": {"/password": ["0123456789ab"]}}'
    exported = audit_workflow([record(1, arguments=marked, secrets=secrets)], name="w")
    assert exported.placeholders == ("node 1: /password",)
    write_workflow(exported.workflow, tmp_path / "w.knwf")
    (node,) = read_workflow(tmp_path / "w.knwf").nodes
    assert "0123456789ab" not in json.dumps(node.parameters)
    assert "fill in /password" in node.annotation
    result = host.run("mcp_tool_caller", [None, None, None], model_of(node), execute=False)
    assert "placeholders for secrets that were not recorded: /password" in result.failure["message"]


def test_calls_that_cannot_be_steps_are_notes(host):
    records = [
        record(1, FLOW, {"n": 3}),
        record(2, status=CallStatus.DENIED, arguments={"q": "never"}),
        CallRecord(run="r1", call=3, status=CallStatus.NOT_FOUND, tool_name="nothing"),
        record(4),
    ]
    exported = audit_workflow(records, name="w")
    assert (exported.steps, exported.notes) == (1, 3)
    texts = "\n".join(note.text for note in exported.workflow.annotations)
    for words in ('Flow\nKNIME workflow, ok\nParameters: {"n":3}', "not made: denied", "nothing\nnot found"):
        assert words in texts


def test_a_record_without_its_cell_is_a_step_all_the_same(host):
    bare = dataclasses.replace(record(1, arguments=ARGUMENTS), tool=None)
    (node,) = audit_workflow([bare], name="w").workflow.nodes
    assert model_of(node)["tool_name"] == "prefix-search"
    assert json.loads(model_of(node)["arguments_json"]) == ARGUMENTS


def test_several_runs_have_headings_and_numbers_that_go_on(host):
    """A file that calls were added to: each run has a heading, and numbers go on."""
    records = [record(call, run=run) for run in ("r1", "r2") for call in (1, 2)]
    workflow = audit_workflow(records, name="w").workflow
    assert [node.annotation.split(" ")[0] for node in workflow.nodes] == ["1", "2", "3", "4"]
    assert {"Run r1", "Run r2"} <= {note.text for note in workflow.annotations}


def test_calls_beyond_what_a_canvas_takes_are_in_further_workflows(host, tmp_path, monkeypatch):
    monkeypatch.setattr("knime_mcp.tools.audit_workflow.MOST_STEPS", 10)
    records = [record(call) for call in range(25, 0, -1)]  # in the order of a table
    warning = save_after_run(records, "all.knwf", tmp_path, "r", question="Why?", answer="Because.")
    assert "25 calls as nodes; in 3 files, up to all-3.knwf" in warning
    calls, notes = [], []
    for name in ("all", "all-2", "all-3"):
        workflow = read_workflow(tmp_path / f"{name}.knwf")
        calls.append([node.annotation.split(" ")[0] for node in workflow.nodes])
        notes.append([note.text.split("\n")[0] for note in workflow.annotations])
    assert calls == [
        [str(call) for call in range(first, last)] for first, last in ((1, 11), (11, 21), (21, 26))
    ]
    before, after = "The calls before these are in", "… the calls after these are in"
    assert notes[0][1:] == ["Question", f"{after} all-2.knwf"]
    assert notes[1][1:] == [f"{before} all.knwf", f"{after} all-3.knwf"]
    assert notes[2][1:] == [f"{before} all-2.knwf", "Answer"]


def test_the_setting_names_a_folder_or_a_file(tmp_path):
    assert target_of("", tmp_path, "r") is None
    assert target_of("audits", tmp_path, "r") == tmp_path / "audits" / "r.knwf"
    assert target_of("last.knwf", tmp_path, "r") == tmp_path / "last.knwf"
    assert target_of(str(tmp_path / "x"), tmp_path / "data", "r") == tmp_path / "x" / "r.knwf"


def test_a_file_that_cannot_be_written_is_a_warning(host, tmp_path):
    (tmp_path / "file").write_text("x")
    warning = save_after_run([record(1)], "file/inside", tmp_path, "r")
    assert "cannot be written" in warning


@pytest.mark.parametrize("place", ["~nobody-of-that-name/x.knwf", "a\0b.knwf", "half a \ud83d", "x" * 300])
def test_a_name_that_no_file_can_have_is_a_warning(host, tmp_path, place):
    warning = save_after_run([record(1)], place, tmp_path, "r")
    assert "audit workflow cannot be written" in warning
    assert warning.encode()


@pytest.mark.real_knime
def test_the_rig_finds_nothing_wrong(host, tmp_path):
    records = [record(call, arguments=ARGUMENTS, iteration=call // 3) for call in range(1, 9)]
    records += [record(9, FLOW, {"n": 3}), record(10, arguments={"password": "⟨secret 0123456789ab⟩"})]
    exported = audit_workflow(records, name="An audit: 100%", question="Why?", answer="Because.")
    write_workflow(exported.workflow, tmp_path / "w.knwf")
    found = rig.check_knwf(str(tmp_path / "w.knwf"), host.host)
    assert found["problems"] == []
    assert len(found["nodes"]) == 9


def test_nothing_waits_for_a_server_that_was_a_command(host):
    local = MCPTool("read", "", {}, "stdio:files", "read", annotations={"readOnlyHint": True})
    calls = [record(1), record(2, local), record(3, local), record(4), record(5)]
    exported = audit_workflow(calls, name="w")
    lines = [(own.source, own.destination) for own in exported.workflow.connections]
    assert lines == [(1, 2), (1, 3), (1, 4), (4, 5)]
    assert "start the server over HTTP first" in exported.workflow.nodes[1].annotation
    about = exported.workflow.annotations[0].text
    assert "run them over HTTP and enter their URLs" in about
    assert "No other node waits" in about
    first = audit_workflow([record(1, local), record(2), record(3)], name="w").workflow.connections
    assert [(own.source, own.destination) for own in first] == [(2, 3)]
    assert "stdio" not in audit_workflow([record(1)], name="w").workflow.annotations[0].text


@pytest.mark.requirement("T50")
@pytest.mark.parametrize(
    ("arguments", "values"),
    [
        ({"city": "Konstanz", "days": 3, "factor": 2, "really": True}, ["Konstanz", 3, 2.0, True]),
        ({"city-1": {"string": "Ulm"}, "days": {"integer": 4}, "factor": None}, ["Ulm", 4, 1.5, False]),
        ({"configuration": {"city": "Bonn"}, "data_inputs": {"rows": "t1"}}, ["Bonn", 1, 1.5, False]),
        ({"city": "⟨secret 0123456789ab⟩", "days": "many", "other": 1}, ["Rom", 1, 1.5, False]),
    ],
)
def test_the_segment_of_a_workflow_tool_does_what_the_call_did(host, arguments, values):
    from knime_mcp.knwf import Configuration, Workflow, configuration_node, read_configuration
    from knime_mcp.tools.recorded_steps import with_arguments

    kinds = [
        ("string", "city", "Rom"),
        ("integer", "days", 1),
        ("double", "factor", 1.5),
        ("boolean", "really", False),
    ]
    nodes = tuple(
        configuration_node(
            node_id, Configuration(kind=kind, variable=f"v{node_id}", parameter=name, value=value)
        )
        for node_id, (kind, name, value) in enumerate(kinds, start=1)
    )
    secrets = '{"arguments": {"/city": ["0123456789ab"]}}' if "⟨" in str(arguments) else None
    text = canonical_json(arguments)
    call = CallRecord(run="r", status=CallStatus.OK, arguments=text, secrets=secrets)
    changed = with_arguments(Workflow("inner", nodes), call)
    assert [read_configuration(node).value for node in changed.nodes] == values
    for text in (None, "", "[1]", "{", '"x"'):
        unread = CallRecord(run="r", status=CallStatus.OK, arguments=text)
        assert with_arguments(Workflow("inner", nodes), unread).nodes == nodes


def test_the_place_of_a_secret_may_have_a_backslash():
    secrets = json.dumps({"arguments": {r"/C:\group\1": ["0123456789ab"]}})
    arguments = {r"C:\group\1": "⟨secret 0123456789ab⟩"}
    exported = audit_workflow([record(1, arguments=arguments, secrets=secrets)], name="w")
    assert exported.placeholders == (r"node 1: /C:\group\1",)


def test_what_only_looks_like_a_mark_is_text():
    arguments = {"a": {"⟨secret 0123456789ab⟩": 1}, "b": "⟨secret 0123456789ab⟩"}
    exported = audit_workflow([record(1, arguments=arguments)], name="w")
    assert exported.placeholders == ()
    (node,) = exported.workflow.nodes
    assert "0123456789ab" in json.dumps(node.parameters)
