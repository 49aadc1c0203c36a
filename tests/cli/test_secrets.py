"""Secrets by the command line: what is a secret is left nowhere, and no other value changes."""

import base64
import json
import random
import zipfile
from urllib.parse import quote

import pytest

from knime_mcp.types.secret_rules import stands_out
from tests.support.files import csv_rows
from tests.support.scripted_server import ScriptedServer, http, modern, rpc, text, tool
from tests.support.short_secrets import rows_of_values

STRONG = "c4n4ry/5ecret+v4lue"
ENV = {"KNIME_MCP_PROD_PASSWORD": STRONG, "KNIME_MCP_PROD_USERNAME": "anna"}
USE = ("--credential", "prod")


def says(said, **more):
    return modern(tools__call=rpc(text(said, resultType="complete", **more)))


@pytest.mark.parametrize(
    ("password", "said"),
    [
        ("test", "latest contest, a test"),
        ("1234", '[{"id":1234}]'),
        ("1234", '{"id": "1234", "1234": 1.0}'),
        ("error", '{"level":"error"}'),
        ("list", "⟨secret 0123456789ab⟩ list"),
    ],
)
def test_ordinary_words_stay(cli, password, said):
    with ScriptedServer(says(said)) as server:
        done = cli("call", server.url, "echo", *USE, env={"KNIME_MCP_PROD_PASSWORD": password})
    assert done.out == f"{said}\n"
    assert "secret" not in done.err


def test_our_own_sentences_stay(cli):
    refused = http(401, "wrong token", headers={"WWW-Authenticate": "Bearer"})
    with ScriptedServer(modern(tools__call=refused)) as server:
        done = cli("call", server.url, "echo", *USE, env={"KNIME_MCP_PROD_PASSWORD": "wrong"})
    assert "it may be wrong, expired" in " ".join(done.err.split())
    assert "'[secret] token'" in " ".join(done.err.split())


SPELLINGS = {
    "plain": STRONG,
    "url": quote(STRONG, safe=""),
    "base64": base64.b64encode(STRONG.encode()).decode(),
    "basic": base64.b64encode(f"anna:{STRONG}".encode()).decode(),
    "hex": STRONG.encode().hex(),
}


@pytest.mark.parametrize("spelled", SPELLINGS.values(), ids=SPELLINGS)
def test_a_secret_in_another_spelling_is_hidden_and_counted(cli, tmp_path, spelled):
    with ScriptedServer(says(f"you sent {spelled}.")) as server:
        done = cli("call", server.url, "echo", *USE, "--audit", "c.jsonl", env=ENV)
    assert spelled not in done.out + done.err + (tmp_path / "c.jsonl").read_text("utf-8")
    assert "held a secret in one place" in done.err


LOGIN = tool("login", inputSchema={"type": "object"}, annotations={"readOnlyHint": True})
CANARIES = {"password": "pw-one", "api_key": "key-two", "token": "tok-three", "code": "code-four"}


def test_arguments_that_are_secrets_by_name_are_left_nowhere(cli, tmp_path):
    script = modern(
        tools__list=rpc({"tools": [LOGIN], "resultType": "complete"}),
        tools__call=rpc(text("welcome", resultType="complete")),
    )
    words = [f"{name}={value}" for name, value in CANARIES.items()]
    named = ("--secret-argument", "code")
    with ScriptedServer(script) as server:
        runs = [
            cli("call", server.url, "login", *words, *named, "--audit", "c.jsonl", "--json"),
            cli("audit", "show", "c.jsonl", "--html", "c.html"),
            cli("audit", "show", "c.jsonl", "--out", "c.csv"),
            cli("audit", "show", "c.jsonl", "--out", "c.parquet"),
            cli("audit", "export", "c.jsonl", "c.knwf"),
            cli("audit", "verify", "c.csv"),
            cli("replay", "c.jsonl", "--json"),
        ]
    assert any(request.body and b"pw-one" in request.body for request in server.requests)
    assert [run.code for run in runs[:6]] == [0] * 5 + [4], runs
    left = "\n".join(run.out + run.err for run in runs)
    for file in tmp_path.rglob("*"):
        if file.suffix == ".knwf":
            with zipfile.ZipFile(file) as archive:
                left += "".join(archive.read(name).decode("utf-8", "replace") for name in archive.namelist())
        elif file.is_file():
            left += file.read_bytes().decode("utf-8", "replace")
    assert [value for value in CANARIES.values() if value in left] == []
    assert "fill in /password" in left
    assert "Give their values" in runs[6].out


def test_ten_thousand_values_in_four_batches_with_short_credentials(cli, tmp_path):
    rows = rows_of_values(random.Random(5), 25, 100)
    (tmp_path / "p.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")

    def echo(request):
        sent = json.dumps(request.params["arguments"], ensure_ascii=False)
        return rpc(text(sent, resultType="complete"))(request)

    schema = {"type": "object", "properties": {"values": {"type": "array"}}}
    listed = rpc({"tools": [tool("echo", inputSchema=schema)], "resultType": "complete"})
    for password in ("test", "1234", "a", "list"):
        assert not stands_out(password)
        with ScriptedServer(modern(tools__list=listed, tools__call=echo)) as server:
            env = {"KNIME_MCP_PROD_PASSWORD": password}
            done = cli("batch", server.url, "echo", "p.jsonl", *USE, "--json", env=env)
            arrived = [r.params["arguments"] for r in server.requests if r.rpc == "tools/call"]
        assert sorted(map(json.dumps, arrived)) == sorted(map(json.dumps, rows))
        assert [json.loads(record["result"]) for record in done.json] == rows
        assert [record["arguments"] for record in done.json] == rows


LIKE_A_MARK = "⟨secret 0123456789ab⟩"
EDITS = {
    "as it was": lambda record: record,
    "a mark written into the arguments": lambda record: (
        record | {"arguments": json.dumps({"text": f"mine {LIKE_A_MARK}"}, ensure_ascii=False)}
    ),
    "a field that names it": lambda record: record | {"secrets": '{"arguments":{"/text":["0123456789ab"]}}'},
    "a field that is none": lambda record: record | {"secrets": '["0123456789ab"]'},
}


@pytest.mark.parametrize("how", EDITS)
def test_every_reader_takes_a_mark_that_somebody_wrote_as_text(cli, tmp_path, how):
    """Only a record's own field says what is a mark; who edits it as well is found out by the hash."""
    is_genuine = how == "as it was"

    def echo(request):
        return rpc(text(request.params["arguments"]["text"], resultType="complete"))(request)

    schema = {"type": "object", "properties": {"text": {"type": "string"}}}
    reading = {"readOnlyHint": True}
    listed = rpc({"tools": [tool("echo", inputSchema=schema, annotations=reading)], "resultType": "complete"})
    (tmp_path / "p.jsonl").write_text(json.dumps({"text": LIKE_A_MARK}), "utf-8")
    with ScriptedServer(modern(tools__list=listed, tools__call=echo)) as server:
        made = cli("batch", server.url, "echo", "p.jsonl", "--audit", "a.jsonl", "--json")
        assert made.json[0]["result"] == LIKE_A_MARK
        lines = (tmp_path / "a.jsonl").read_text("utf-8").splitlines()
        if not is_genuine:
            calls = [number for number, line in enumerate(lines) if '"tool_name"' in line]
            for number in calls:
                lines[number] = json.dumps(EDITS[how](json.loads(lines[number])), ensure_ascii=False)
            (tmp_path / "a.jsonl").write_text("\n".join(lines) + "\n", "utf-8")
        tables = [cli("audit", "show", "a.jsonl", "--out", f"t.{ending}") for ending in ("csv", "parquet")]
        verified = [cli("audit", "verify", file) for file in ("a.jsonl", "t.csv", "t.parquet")]
        shown = cli("audit", "show", "a.jsonl", "--json")
        exported = cli("audit", "export", "a.jsonl", "a.knwf")
        before = len(server.requests)
        force = [] if is_genuine else ["--force-altered"]
        replays = [cli("replay", file, "--json", *force) for file in ("a.jsonl", "t.csv", "t.parquet")]
        sent = [r.params["arguments"]["text"] for r in server.requests[before:] if r.rpc == "tools/call"]
    assert {run.code for run in tables} == {0 if is_genuine else 1}
    assert {run.code for run in verified} == {4 if is_genuine else 1}, verified  # 4: signed by nobody
    assert shown.json[0]["result"] == LIKE_A_MARK
    if how == "a field that names it":  # asked for, and not guessed
        assert sent == []
        assert all("Give their values" in run.out for run in replays)
        assert "to fill in: node 1: /text" in exported.err
    else:
        assert sent == [shown.json[0]["arguments"]["text"]] * 3, replays
        assert "fill in" not in exported.err


FORMULA = '=HYPERLINK("http://127.0.0.1/", "click")'


def test_a_result_that_is_a_formula_is_guarded_in_csv_and_read_back_as_it_was(cli, tmp_path):
    (tmp_path / "p.jsonl").write_text("{}\n", "utf-8")
    with ScriptedServer(says(FORMULA)) as server:
        done = cli("batch", server.url, "echo", "p.jsonl", "--out", "r.csv", "--audit", "a.jsonl", "--json")
        raw = cli("batch", server.url, "echo", "p.jsonl", "--out", "raw.csv", "--raw-csv")
    assert (done.code, raw.code) == (0, 0)
    assert done.json[0]["result"] == FORMULA
    (guarded,) = csv_rows(tmp_path / "r.csv")
    assert guarded["Result"] == f"'{FORMULA}"
    (bare,) = csv_rows(tmp_path / "raw.csv")
    assert bare["Result"] == FORMULA
    cli("audit", "show", "a.jsonl", "--out", "calls.csv")
    (shown,) = csv_rows(tmp_path / "calls.csv")
    assert shown["Result"] == f"'{FORMULA}"
    assert cli("audit", "show", "calls.csv", "--json").json[0]["result"] == FORMULA


def test_a_run_that_is_gone_on_with_takes_marks_of_results_as_text(cli, tmp_path):
    (tmp_path / "p.jsonl").write_text(json.dumps({"text": LIKE_A_MARK}) + "\n", "utf-8")
    schema = {"type": "object", "properties": {"text": {"type": "string"}}}
    listed = rpc({"tools": [tool("echo", inputSchema=schema)], "resultType": "complete"})
    with ScriptedServer(says(f"said {LIKE_A_MARK}") | {"tools/list": listed}) as server:
        cli("batch", server.url, "echo", "p.jsonl", "--audit", "a.jsonl")
        resumed = cli("batch", server.url, "echo", "p.jsonl", "--resume", "a.jsonl", "--json")
        before = len(server.requests)
        lines = (tmp_path / "a.jsonl").read_text("utf-8").replace("said ", "told ")
        (tmp_path / "a.jsonl").write_text(lines, "utf-8")
        altered = cli("batch", server.url, "echo", "p.jsonl", "--resume", "a.jsonl", "--json")
        called = [r for r in server.requests[before:] if r.rpc == "tools/call"]
    assert resumed.json[0]["result"] == f"said {LIKE_A_MARK}"
    assert resumed.json[0]["arguments"] == {"text": LIKE_A_MARK}
    assert altered.code == 1
    assert called == []
