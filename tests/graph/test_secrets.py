"""Values of the environment in graphs: plain ones change nothing, what was taken from ours is hidden."""

import json
import os
import subprocess
import sys

from tests.graph.graphs import ENTRY, EXIT, SERVER, call, tool, transform, yaml

GRAPH = [sys.executable, "-m", "knime_mcp.cli.app", "graph"]
STRONG = "c4n4ry-5ecret-v4lue"


def run(tmp_path, env, *nodes, words=(), environ=None):
    file = tmp_path / "graph.yaml"
    file.write_text(yaml(tool(ENTRY, *nodes, EXIT), servers=SERVER.replace("]}", f"], env: {env}}}")))
    return subprocess.run(
        [*GRAPH, "run", "graph.yaml", "t", *words, "--save-run", "run.json", "--audit", "a.jsonl", "--trace"],
        capture_output=True, text=True, timeout=60, check=False, cwd=tmp_path,
        env={**os.environ, **(environ or {})},
    )  # fmt: skip


def test_plain_values_change_no_id_type_key_or_argument(tmp_path):
    env = "{LOG_LEVEL: error, MODE: transform, KIND: list, NODE_ENV: text}"
    ended = run(tmp_path, env, call("echo", "{text: {list: [error, text]}}", node="x"))
    assert ended.returncode == 0, ended.stderr
    assert json.loads(ended.stdout) == {"received": {"text": {"list": ["error", "text"]}}}
    saved = json.loads((tmp_path / "run.json").read_text())
    assert [step["nodeId"] for step in saved["executionHistory"]] == ["entry", "x", "exit"]
    record = json.loads((tmp_path / "a.jsonl").read_text().splitlines()[1])
    assert json.loads(record["arguments"]) == {"text": {"list": ["error", "text"]}}
    assert "secret" not in ended.stderr + json.dumps(saved)


def test_a_failed_run_is_saved_as_failed(tmp_path):
    ended = run(tmp_path, "{LOG_LEVEL: error, MODE: transform}", transform("$error('bad')"))
    assert ended.returncode == 1
    step = json.loads((tmp_path / "run.json").read_text())["executionHistory"][-1]
    assert (step["nodeId"], step["nodeType"]) == ("x", "transform")
    assert "bad" in step["error"]["message"]


def test_what_was_taken_from_our_environment_is_hidden(tmp_path):
    ended = run(
        tmp_path,
        "{SETTING: '${MINE}'}",
        call(
            "echo",
            "{v: {expr: entry.v}, password: {expr: entry.password}, code: {expr: entry.code}}",
            node="x",
        ),
        words=(f"v=I am {STRONG}", "password=pw-one", "code=my-c0de", "--secret-argument", "code"),
        environ={"MINE": STRONG},
    )
    assert ended.returncode == 0, ended.stderr
    left = (
        ended.stderr + (tmp_path / "run.json").read_text() + (tmp_path / "a.jsonl").read_text().split("\n")[1]
    )
    assert STRONG not in left + ended.stdout
    assert "pw-one" not in (tmp_path / "run.json").read_text() + ended.stderr
    assert "my-c0de" not in (tmp_path / "run.json").read_text() + ended.stderr
    assert "I am ⟨secret " in ended.stdout
    assert "held a secret" in ended.stderr
