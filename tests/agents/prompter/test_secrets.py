"""Secrets in every place where an agent has some: none may appear in its outputs, files and logs."""

import io
import logging
import zipfile

import pyarrow as pa
import pytest

from tests.support.canaries import ARGUMENTS, canary, debugging_server, found, login_with
from tests.support.chat_server import Turn, call, calls, fails, says
from tests.support.scripted_server import ScriptedServer

PASSWORD = "canary-pass-0002"
STORED = {"llm": ("", "sk-canary-0001")}
SECRETS = (STORED["llm"][1], PASSWORD)


def left_behind(result, folder, caplog):
    """All outputs of a run: files, tables, view, messages, progress, flow variables, log."""
    texts = [result.view_html or "", str(result.failure), str(result.warnings), str(result.progress)]
    texts += [str(result.flow_variables), caplog.text]
    for output in result.outputs or ():
        for table in output if isinstance(output, list) else [output]:
            sink = io.BytesIO()
            with pa.ipc.new_stream(sink, table.arrow.schema) as writer:
                writer.write_table(table.arrow)
            texts.append(sink.getvalue().decode("utf-8", "replace"))
    files = [path for path in folder.rglob("*") if path.is_file()]
    assert {".jsonl", ".knwf"} <= {path.suffix for path in files}
    for path in files:
        if path.suffix == ".knwf":  # compressed
            with zipfile.ZipFile(path) as archive:
                texts += [archive.read(name).decode("utf-8", "replace") for name in archive.namelist()]
        else:
            texts.append(path.read_bytes().decode("utf-8", "replace"))
    return texts


@pytest.fixture
def run(host, model_of, tools_of, servers, tmp_path, caplog):
    """Runs an agent with secrets; returns the result and all outputs of the run."""

    def go(server, data=(), **parameters):
        tables = [host.table(pa.table(table)) for table in data]
        caplog.set_level(logging.DEBUG)
        model = model_of(server, STORED, credentials="llm", extra_headers="X-Key: {credential.password}")
        result = host.run(
            "mcp_agent_prompter",
            [model, tools_of(servers[0].url("/one")), None, tables, None],
            {"user_message": "log in", "save_audit_workflow_to": "audit.knwf", **parameters},
            workflow_dir=tmp_path / "workflow",
            credentials=STORED,
        )
        return result, left_behind(result, tmp_path / "workflow", caplog)

    return go


WRITTEN = {
    "as it should be": call("login", {"user": "ada", "password": PASSWORD}),
    "refused by the server": call("login", {"user": "nobody", "password": PASSWORD}),
    "without the other argument": call("login", {"password": PASSWORD}),
    "a list": call("login", {"user": "ada", "password": [PASSWORD]}),
    "under a wrong name": call("Login", {"user": "ada", "password": PASSWORD}),
    "under a name with a prefix": call("functions.login", {"user": "ada", "password": PASSWORD}),
    "cut off": call("login", f'{{"user": "ada", "password": "{PASSWORD}'),
    "no object": call("login", f'["{PASSWORD}"]'),
    "cut off under a wrong name": call("Login", f'{{"user": "ada", "password": "{PASSWORD}'),
    "the key of the model": call("echo", {"value": {"key": STORED["llm"][1]}}),
}


def test_a_secret_argument(subtests, run, script):
    for how in WRITTEN:
        with subtests.test(how=how):
            result, left = run(script(calls(WRITTEN[how]), says("done")))
            assert result.ok, result.failure
            assert [secret for secret in SECRETS for text in left if secret in text] == []


def test_the_model_itself_remembers_the_secret_that_it_wrote(run, script, rows_of):
    server = script(calls(WRITTEN["as it should be"]), says("done"))
    result, _ = run(server)
    asked = next(m.tool_calls for row in rows_of(result) if (m := row["Conversation"]).tool_calls)
    assert asked[0].arguments["user"] == "ada"
    assert asked[0].arguments["password"].startswith("⟨secret ")
    (sent,) = [message for message in server.requests[1].messages if message["role"] == "assistant"]
    assert PASSWORD in str(sent)


def test_our_own_sentences_stay_with_a_key_that_is_one_of_their_words(host, model_of, script):
    stored = {"llm": ("", "credential")}
    model = model_of(script(fails(401, "no")), stored, credentials="llm")
    result = host.run(
        "mcp_agent_prompter", [model, None, None, [], None], {"user_message": "hi"}, credentials=stored
    )
    assert "does not accept the credential (401)" in str(result.failure)
    assert "Choose a credential whose password is the API key" in str(result.failure)
    assert "secret" not in str(result.failure)


@pytest.mark.parametrize("rows", [False, True])
@pytest.mark.parametrize(
    ("turn", "requests"),  # a refusal that names nothing is asked again with simpler tools
    [
        (fails(401, f"Incorrect API key: {STORED['llm'][1]}"), 1),
        (fails(400, f"Bad header X-Key: {STORED['llm'][1]}"), 3),
        (Turn(body=f'{{"error": "{STORED["llm"][1]}"}}'.encode(), status=422), 3),
        (Turn(body=f'{{"error": {{"code": 403, "message": "{STORED["llm"][1]}"}}}}'.encode()), 1),
    ],
)
def test_an_endpoint_that_repeats_the_key(turn, requests, rows, run, script):
    server = script(calls(call("add", {"a": 1})), *[turn] * requests)
    result, left = run(server, **({"data": [{"text": ["Add."]}], "prompt_column": "text"} if rows else {}))
    assert result.ok is rows
    assert server.requests[0].headers["x-key"] == STORED["llm"][1]
    assert [secret for secret in SECRETS for text in left if secret in text] == []


@pytest.mark.parametrize(
    "arguments",
    [
        {"configuration": {"user": "ada", "password": PASSWORD}},
        {"configuration": {"password": PASSWORD}},
        {"password": PASSWORD},
        f'{{"configuration": {{"password": "{PASSWORD}',
    ],
    ids=["as-it-should-be", "incomplete", "in-another-place", "cut-off"],
)
@pytest.mark.parametrize("rules", ["", "deny *"])
def test_a_secret_parameter_of_a_workflow(
    arguments, rules, host, workflow_tool, script, model_of, tmp_path, caplog
):
    schema = {"user": {"type": "string"}, "password": {"type": "string", "format": "password"}}
    caplog.set_level(logging.DEBUG)
    ran = []

    def handler(tool, parameters, inputs, hints):
        ran.append(parameters["password"])
        return f"logged in with {parameters['password']}", []

    result = host.run(
        "mcp_agent_prompter",
        [
            model_of(script(calls(call("login", arguments)), says("done"))),
            workflow_tool("login", schema),
            None,
            [],
            None,
        ],
        {"user_message": "log in", "rules": rules, "save_audit_workflow_to": "audit.knwf"},
        workflow_dir=tmp_path / "workflow",
        tool_handler=handler,
    )
    assert result.ok, result.failure
    assert set(ran) <= {PASSWORD}
    assert [text for text in left_behind(result, tmp_path / "workflow", caplog) if PASSWORD in text] == []


KINDS = {name: canary(name) for name in ("password", *ARGUMENTS)}


def test_every_kind_in_every_spelling_is_in_no_artefact(host, model_of, script, tmp_path, caplog):
    caplog.set_level(logging.DEBUG)
    stored = STORED | {"prod": ("anna", KINDS["password"])}
    given = login_with(KINDS)
    with ScriptedServer(debugging_server(KINDS.values())) as server:
        settings = {"column_form": "auto", "server_url": server.url, "credentials": "prod"}
        provided = host.run("mcp_tool_provider", [None, None], settings, credentials=stored)
        assert provided.ok, provided.failure
        turns = calls(call("login", given), call("login", given | {"fail": True}))
        model = script(turns, says("done"))
        result = host.run(
            "mcp_agent_prompter",
            [model_of(model, stored, credentials="llm"), provided.outputs[0].as_input(), None, [], None],
            {"user_message": "log in", "secret_arguments": "code", "save_audit_workflow_to": "audit.knwf"},
            workflow_dir=tmp_path / "workflow",
            credentials=stored,
        )
    assert result.ok, result.failure
    assert [request.key for request in server.requests].count("tools/call") == 2
    left = left_behind(result, tmp_path / "workflow", caplog)
    assert found(KINDS, *left, str(provided.outputs[0].to_pylist()), str(provided.view_html)) == []
    # The model remembers what it wrote itself, and reads nothing back.
    (*_, last) = model.requests
    assert found(KINDS, *(str(each) for each in last.messages if each["role"] == "tool")) == []
