"""``mcpgraph check``, ``show`` and ``new``."""

import json

import pytest

from tests.graph.graphs import ENTRY, EXIT, one_tool, transform


@pytest.fixture
def started(cli, tmp_path):
    assert cli("mcpgraph", "new", "g.yaml").code == 0
    return tmp_path / "g.yaml"


def test_new_writes_a_document_that_is_fine(cli, started):
    done = cli("mcpgraph", "check", "g.yaml", "--strict")
    assert (done.code, done.out) == (0, "g.yaml: 1 tool, 0 errors, 0 warnings\n")
    assert "Dialect 'next': the switch 'time_of_day' uses 'next'." in done.err
    again = cli("mcpgraph", "new", "g.yaml")
    assert again.code == 1
    assert "--force" in again.err
    started.write_text("broken", "utf-8")
    assert cli("mcpgraph", "new", "g.yaml", "--force").code == 0
    assert cli("mcpgraph", "check", "g.yaml").code == 0


def test_check_names_everything(cli, started):
    text = started.read_text("utf-8")
    started.write_text(text.replace("next: later", "next: latr").replace("title:", "titel:"), "utf-8")
    done = cli("mcpgraph", "check", "g.yaml", "--json")
    assert done.code == 1
    said = done.json
    assert (said["ok"], said["dialect"], said["tools"]) == (False, "next", [])
    warning, error = said["problems"][:2]
    assert (warning["path"], warning["fix"]) == ("server.titel", "Did you mean 'title'?")
    assert (error["severity"], error["path"]) == ("error", "tools[0].nodes[1].next")
    assert error["fix"] == "Did you mean 'later'?"
    plain = cli("mcpgraph", "check", "g.yaml")
    assert plain.code == 1
    assert f"g.yaml:{error['line']}:{error['column']}: error: " in plain.err
    shown = cli("mcpgraph", "show", "g.yaml")
    assert (shown.code, shown.out) == (1, "")
    assert 'non-existent default next node "latr"' in shown.err


def test_strict_fails_on_warnings(cli, started):
    started.write_text(started.read_text("utf-8").replace("title:", "titel:"), "utf-8")
    assert cli("mcpgraph", "check", "g.yaml").code == 0
    assert cli("mcpgraph", "check", "g.yaml", "--strict").code == 1


def test_show(cli, started, tmp_path):
    done = cli("mcpgraph", "show", "g.yaml")
    assert done.code == 0
    assert done.out.startswith("flowchart TD\n")
    run = [{"nodeId": "entry", "output": {}}, {"nodeId": "time_of_day", "output": "later"}]
    (tmp_path / "run.json").write_text(json.dumps(run), "utf-8")
    done = cli("mcpgraph", "show", "g.yaml", "--html", "g.html", "--run", "run.json", "--tool", "greet")
    assert done.code == 0
    page = (tmp_path / "g.html").read_text("utf-8")
    assert page.count('class="way taken"') == 1
    assert "<script" not in page
    (tmp_path / "run.json").write_text('{"tool": "greet", "executionHistory": []}', "utf-8")
    assert cli("mcpgraph", "show", "g.yaml", "--html", "g.html", "--run", "run.json").code == 0
    assert "No node ran" in (tmp_path / "g.html").read_text("utf-8")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--tool", "gret"], "There is no tool 'gret'"),
        (["--run", "run.json"], "--run needs --html"),
        (["--html", "g.txt"], "should end in .html"),
    ],
)
def test_options_that_cannot_work(cli, started, options, said):
    done = cli("mcpgraph", "show", "g.yaml", *options)
    assert done.code == 2
    assert said in " ".join(done.err.split())


@pytest.mark.parametrize("command", [("mcpgraph", "serve", "g.yaml"), ("knime-nodes", "serve")])
@pytest.mark.parametrize(
    ("option", "value", "said"),
    [("--log-level", "loud", "warning"), ("--http", "65536", "65535")],
)
def test_options_of_serving_are_checked(cli, started, command, option, value, said):
    done = cli(*command, option, value, env={"COLUMNS": "200"})
    assert (done.code, done.out) == (2, "")
    assert option in done.err
    assert said in done.err


def test_an_address_beyond_this_machine_needs_a_word(cli, started):
    done = cli("mcpgraph", "serve", "g.yaml", "--http", "0", "--host", "0.0.0.0")
    assert (done.code, done.out) == (2, "")
    told = " ".join(done.err.split())
    assert "Everybody who reaches 0.0.0.0 could call these tools" in told
    assert "--unprotected is for a proxy that guards it" in told
    started.write_text("broken", "utf-8")  # so that it ends where it would serve
    done = cli("mcpgraph", "serve", "g.yaml", "--http", "0", "--host", "0.0.0.0", "--unprotected")
    assert done.code == 1
    assert "Everybody who reaches 0.0.0.0 can call these tools, with the rights of this program" in done.err


def test_a_run_that_keeps_too_much_ends(cli, tmp_path):
    large = transform("{'all': $pad('', 4000000 + $executionCount('x'), 'x')}", following="more")
    more = "{id: more, type: switch, conditions: [{rule: true, next: x}], next: exit}"
    limits = "executionLimits: {maxMemoryMb: 60, maxNodeExecutions: 200}\n"
    (tmp_path / "g.yaml").write_text(one_tool(ENTRY, large, more, EXIT, more=limits), "utf-8")
    done = cli("mcpgraph", "run", "g.yaml", "t")
    assert done.code == 1
    assert "60 MB are for all runs of this process" in done.err
    assert "executionLimits.maxMemoryMb" in done.err


def test_the_studio_refuses_a_port_that_there_is_not(cli):
    done = cli("mcpgraph", "studio", "tools.yaml", "--no-open", "--port", "65536")
    assert (done.code, "65536" in done.err, "Unexpected" in done.err) == (2, True, False)
