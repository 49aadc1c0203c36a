"""Nodes run as in KNIME: fresh objects, another thread, the contexts, ports, tools and views."""

import json
import threading

import pytest

from tests.standin.scenarios import KNIME_YML, tool_table
from tests.support.host import StandInHost
from tests.support.knime_host import CredentialPort, HostError, load_extension


def context(trial, what="", **options):
    options.setdefault("inputs", (None, [], None))
    return trial.run_node("Context", parameters={"what": what, **options.pop("parameters", {})}, **options)


def answers(result):
    assert result.ok, result.failure
    return {row["name"]: json.loads(row["value"]) for row in result.outputs[0].to_pylist()}


def test_nothing_survives_from_configure_to_execute(trial):
    assert answers(context(trial))["state"] is False


def test_runs_off_the_main_thread(trial):
    assert answers(context(trial))["thread"] is False


def test_a_group_of_ports_is_a_list_and_an_open_port_is_none(trial):
    import pyarrow as pa

    table = pa.table({"a": [1]})
    seen = answers(context(trial, inputs=(table, [table, table], None), output_groups={"Copies": 3}))
    assert seen["first"] == [1, 1, ["a"]]
    assert seen["others"] == [1, 1]
    assert seen["sizes"] == [1, 3]


def test_inputs_that_do_not_fit_the_ports_are_refused(trial):
    with pytest.raises(HostError, match="2 inputs for 3 ports"):
        trial.run_node("Context", (None, []))
    with pytest.raises(HostError, match="'In' is not optional"):
        trial.run_node("Read", (None,))
    with pytest.raises(HostError, match="'In' is not optional"):
        trial.run_node("Read")


def test_no_inputs_means_that_nothing_is_connected(trial):
    seen = answers(trial.run_node("Context", parameters={"what": ""}))
    assert seen == answers(context(trial, inputs=(None, [], None)))
    assert seen["others"] == []


def test_credentials_are_found_by_name_and_never_shown(trial):
    result = context(trial, parameters={"credential": "c"}, credentials={"c": ("user", "secret")})
    assert answers(result)["credential"] == ["user", "secret", "c"]
    failure = context(trial, parameters={"credential": "x"}, credentials={"c": ("user", "secret")}).failure
    assert "KeyError" in failure["details"]
    assert "'x'" in failure["message"]
    assert "secret" not in failure["details"]


def test_a_credential_port_gives_its_token_when_asked(trial):
    port = CredentialPort("Bearer", "token", 0.0)
    assert answers(context(trial, inputs=(None, [], port)))["auth"] == [
        "Bearer",
        "token",
        "1970-01-01 00:00:00",
    ]
    assert "token" not in repr(port)
    failure = context(trial, inputs=(None, [], CredentialPort(available=False))).failure
    assert "upstream" in failure["message"]


def test_flow_variables_go_through_configure_and_execute(trial):
    result = context(trial, "list variable", flow_variables={"v": 1, "knime.workspace": "/"})
    assert answers(result)["variables"] == {"v": 1, "knime.workspace": "/", "configured": True}
    assert result.flow_variables == {"v": 1, "knime.workspace": "/", "configured": True, "x": ["a", "b"]}


def test_a_tuple_is_a_list_to_java(trial):
    assert context(trial, "tuple variable").flow_variables["x"] == [1, 2]


def test_a_view_that_is_not_given(trial):
    assert "ValueError" in context(trial, "no view").failure["details"]


def test_empty_flow_variables_are_dropped(run_source):
    result = run_source('ctx.flow_variables.update({"none": None, "empty": [], "kept": [1.5]})')
    assert result.flow_variables == {"kept": [1.5]}
    assert [severity for severity, _ in result.logs] == ["warn", "warn"]


def test_numbers_that_cannot_be_compared_with_lists_are_flow_variables(run_source):
    """As numpy's."""
    number = "class Number(float):\n    def __eq__(self, other): raise ValueError"
    assert run_source('ctx.flow_variables["x"] = Number(2.5)', before=number).ok


@pytest.mark.parametrize("value", ["{1: 2}", "[1, 'a']", "b'x'", "object()"])
def test_values_that_are_no_flow_variables(run_source, value):
    assert "'odd'" in run_source(f'ctx.flow_variables["odd"] = {value}').failure["message"]


def test_warnings_and_progress(trial):
    result = trial.run_node("Settings", (None,))
    assert result.warnings == ["first", "second"]  # KNIME shows the last one
    assert context(trial).progress == [(1.0, "done")]


def test_settings_that_configure_refuses_are_marked_as_invalid(trial):
    result = trial.run_node("Settings", (None,), {"mode": "HIDDEN"})
    assert result.failure["invalid_settings"]
    assert result.failure["message"] == "hidden is not possible"
    assert result.outputs == []


def test_a_node_is_canceled_where_it_asks_or_at_its_end(trial):
    assert context(trial, cancel=True).failure["message"] == "Canceled"
    assert context(trial, "cancel", cancel=1).failure["message"] == "stopped"
    assert context(trial, "cancel", cancel=2).failure["message"] == "Canceled"
    assert context(trial, "cancel", cancel=3).ok
    asked = threading.Event()
    assert context(trial, "cancel", cancel=lambda: asked.set()).ok
    assert asked.is_set()


def test_a_node_that_is_only_configured_gives_specs(trial):
    result = context(trial, execute=False)
    assert result.ok
    assert result.outputs == []
    assert result.specs[0]["columnNames"] == ["RowKey", "name", "value"]


def test_the_view_of_a_node_is_its_page(trial):
    assert context(trial).view_html == "<!DOCTYPE html><p>page</p>"


@pytest.mark.parametrize("page", ["None", r"'\ud800'"])
def test_a_page_that_cannot_be_written_fails_the_node(make_extension, page):
    source = f"""
@knext.node("Shows", knext.NodeType.OTHER, "icon.png", "/community")
@knext.output_view("View", "")
class Shows:
    def configure(self, ctx): return None
    def execute(self, ctx): return knext.view_html({page})
"""
    name = f"shows_{len(page)}"
    failure = load_extension(make_extension(name, source)).run_node("Shows").failure
    assert failure["details"].splitlines()[-1].startswith(("TypeError", "UnicodeEncodeError"))


def test_the_data_area_is_in_the_folder_of_the_workflow(trial, tmp_path):
    folder = tmp_path / "flow"
    assert answers(context(trial, workflow_dir=folder))["data area"] == "data"
    assert folder.is_dir()
    assert not (folder / "data").exists()  # as in KNIME, the node has to make it


def test_what_a_node_logs_is_kept(run_source):
    result = run_source('logging.getLogger("some.place").warning("%s things", 3)', before="import logging")
    assert result.logs == [("warn", "some.place:3 things")]


def test_a_logged_error_has_its_traceback(run_source):
    failing = 'def fail():\n    try: 1 / 0\n    except ZeroDivisionError: logging.exception("no")'
    [(severity, text)] = run_source("fail()", before=f"import logging\n{failing}").logs
    assert severity == "error"
    assert text.startswith("root:no\nTraceback")
    assert text.endswith("ZeroDivisionError: division by zero")


def test_objects_of_own_port_types_go_from_node_to_node(trial):
    import trial_ports as module

    spoken = trial.run_node("Speak")
    assert spoken.outputs[0] == ({"id": module.words.id, "data": {"language": "en"}}, b"hello")
    result = trial.run_node("Listen", (module.Loud(module.LoudSpec("de"), "HALLO"),))
    assert result.warnings == ["de"]
    assert result.outputs[0].column("value") == ["Loud; HALLO"]


def test_custom_ports_that_do_not_fit(trial):
    import trial_ports as module

    failure = trial.run_node("Listen", (module.Other(module.OtherSpec()),)).failure
    assert failure["invalid_settings"]
    assert "needs Words, not Other" in failure["message"]


def test_a_workflow_tool_runs_through_the_tool_handler(trial):
    import pyarrow as pa

    seen = []

    def handler(tool, parameters, inputs, hints):
        seen.append((tool, parameters, [table.num_rows for table in inputs], hints))
        return "5", [pa.table({"r": ["x"]})], ["1#0"]

    result = trial.run_node("RunTool", (tool_table(StandInHost(KNIME_YML)),), tool_handler=handler)
    assert json.loads(result.outputs[0].to_pylist()[0]["value"]) == ["5", "Sum", [1], ["1#0"], 1, "key"]
    tool, *rest = seen[0]
    assert rest == [{"a": 1}, [3], {"execution-mode": "DETACHED"}]
    assert (tool.parameter_schema, tool.input_ports[0].type) == ({"a": {"type": "integer"}}, "Table")


def test_tools_that_run_nodes(trial):
    """A tool's workflow may run nodes of the same extension while the outer node waits."""

    def handler(tool, parameters, inputs, hints):
        return "inner", [trial.run_node("Tables").outputs[0].as_input()]

    result = trial.run_node("RunTool", (tool_table(StandInHost(KNIME_YML)),), tool_handler=handler)
    assert json.loads(result.outputs[0].to_pylist()[0]["value"])[:3] == ["inner", "Sum", [2]]


def test_missing_tool_cells_crash_as_in_knime(trial):
    import pyarrow as pa
    from knime.types.tool import WorkflowTool

    table = pa.table({"Tool": trial.column_of([None], WorkflowTool)})
    assert not trial.run_node("RunTool", (table,), tool_handler=lambda *given: "x").ok
