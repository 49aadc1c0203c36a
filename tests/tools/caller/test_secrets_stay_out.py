"""Canaries: no secret in tables, journals, files, logs, errors, warnings, views or settings."""

import base64
import json
import logging
import os
import random
from urllib.parse import quote

import pyarrow as pa
import pytest

from knime_mcp.types.secret_rules import stands_out
from tests.support.canaries import (
    ARGUMENTS,
    canary,
    debugging_server,
    files_below,
    found,
    login_with,
    processes,
)
from tests.support.scripted_server import ScriptedServer, http, legacy, modern, rpc, text, tool
from tests.support.short_secrets import rows_of_values

CANARY = 'canary-9f3e"ü-quokka'  # with an end that no hash can have
TOKEN = "canary-token-4711"


def everything(result, folder):
    """All text that a run left anywhere."""
    parts = [
        str(result.failure),
        str(result.warnings),
        str(result.logs),
        str(result.progress),
        str(result.view_html),
    ]
    parts += [str(table.to_pylist()) for table in result.outputs]
    for path in folder.rglob("*"):
        if path.is_file():
            parts.append(path.read_bytes().decode("utf-8", "replace"))
    return "\n".join(parts)


@pytest.mark.parametrize("user", ["me", "nobody"])
def test_a_declared_secret_is_left_nowhere(server, tools_of, call, tmp_path, caplog, user):
    with caplog.at_level(logging.DEBUG):
        result = call(
            tools_of(server.url("/one")),
            tool_name="login",
            arguments={"user": user, "password": CANARY},
        )
    assert result.ok, result.failure
    left = everything(result, tmp_path)
    for part in (CANARY, "canary-9f3e", "quokka"):
        assert part not in left
        assert part not in caplog.text
    (row,) = result.outputs[0].to_pylist()
    assert "⟨secret " in row["Arguments"]
    assert row["Status"] == ("ok" if user == "me" else "tool error")
    assert "⟨secret " in (row["Result"] or row["Error"])


def test_a_declared_secret_of_the_wrong_type_is_left_nowhere(server, tools_of, call, tmp_path):
    result = call(
        tools_of(server.url("/one")),
        tool_name="login",
        arguments_json='{"user": "me", "password": [48151623421]}',
    )
    assert result.outputs[0].to_pylist()[0]["Status"] == "invalid arguments"
    assert "48151623421" not in everything(result, tmp_path)


def test_a_credential_in_use_is_left_nowhere(server, call, tmp_path, caplog):
    with caplog.at_level(logging.DEBUG):
        result = call(
            server_url=server.url("/one"),
            credentials="prod",
            stored={"prod": ("me", TOKEN)},
            tool_name="echo",
            arguments_json=json.dumps({"value": {"x": TOKEN, "y": f"a {TOKEN} b"}}),
        )
    assert result.ok, result.failure
    assert TOKEN not in everything(result, tmp_path)
    assert TOKEN not in caplog.text
    (row,) = result.outputs[0].to_pylist()
    assert row["Status"] == "ok"
    assert "⟨secret " in row["Result"]


def test_the_token_of_the_credential_port_is_left_nowhere(server, host, call, tmp_path):
    result = call(
        None,
        credential=host.credential_port(TOKEN),
        server_url=server.url("/one"),
        tool_name="echo",
        arguments_json=json.dumps({"value": {"x": TOKEN}}),
    )
    assert result.ok, result.failure
    assert result.outputs[0].to_pylist()[0]["Status"] == "ok"
    assert TOKEN not in everything(result, tmp_path)


@pytest.mark.parametrize("password", ["test", "1234", "error", "list"])
def test_a_short_password_changes_no_value(server, call, password):
    value = {"latest contest": ["test", "1234", 1234, 1.0, {"error": "list", "1234": "a test"}]}
    result = call(
        server_url=server.url("/one"),
        credentials="prod",
        stored={"prod": ("me", password)},
        tool_name="echo",
        arguments_json=json.dumps({"value": value}),
    )
    assert result.ok, result.failure
    (row,) = result.outputs[0].to_pylist()
    assert json.loads(row["Arguments"]) == {"value": value}
    assert "⟨secret" not in str(row)
    assert "secret" not in str(result.warnings)


def test_our_own_sentences_stay_with_a_password_that_is_one_of_their_words(call):
    refused = http(401, "wrong token", headers={"WWW-Authenticate": "Bearer"})
    with ScriptedServer(modern(tools__call=refused)) as server:
        result = call(
            server_url=server.url,
            credentials="prod",
            stored={"prod": ("me", "wrong")},
            tool_name="echo",
        )
    assert result.ok, result.failure
    (row,) = result.outputs[0].to_pylist()
    assert "it may be wrong, expired" in row["Error"]
    assert "'[secret] token'" in row["Error"]


@pytest.mark.parametrize("form", [str, lambda s: base64.b64encode(s.encode()).decode(), quote])
def test_a_credential_that_is_hidden_is_counted(server, call, form):
    secret = "c4n4ry/5ecret+v4lue"
    result = call(
        server_url=server.url("/one"),
        credentials="prod",
        stored={"prod": ("me", secret)},
        tool_name="echo",
        arguments_json=json.dumps({"value": {"x": form(secret)}}),
    )
    assert result.ok, result.failure
    (row,) = result.outputs[0].to_pylist()
    assert form(secret) not in str(row)
    assert "held a secret in" in str(result.warnings)


def test_an_argument_that_the_user_names_is_left_nowhere(server, call, tmp_path):
    result = call(
        server_url=server.url("/one"),
        tool_name="echo",
        arguments_json=json.dumps({"value": {"code": "my-canary", "api_key": "your-canary"}}),
        secret_arguments="code, other",
    )
    assert result.ok, result.failure
    (row,) = result.outputs[0].to_pylist()
    assert "canary" not in row["Arguments"]


KINDS = {name: canary(name) for name in ("password", *ARGUMENTS)}
WAYS = {
    "bearer": {},
    "basic": {"connection_options": "send_credentials_as = basic"},
    "header": {"connection_options": "header_name = X-Key"},
    "template": {"connection_options": "header = X-More: {credential.password}"},
    "url": {},
}


@pytest.mark.parametrize("way", WAYS)
def test_every_kind_in_every_spelling_is_in_no_artefact(call, host, tmp_path, caplog, way):
    rows = [login_with(KINDS), login_with(KINDS) | {"fail": True}]
    running = []
    script = debugging_server(KINDS.values())

    def answer(request):
        running.append(processes())
        return script["tools/call"](request)

    with ScriptedServer(script | {"tools/call": answer}) as server, caplog.at_level(logging.DEBUG):
        result = call(
            None,
            host.table(pa.table({"given": list(map(json.dumps, rows))})),
            server_url=f"{server.url}?key={{credential.password}}" if way == "url" else server.url,
            credentials="prod",
            stored={"prod": ("anna", KINDS["password"])},
            tool_name="login",
            arguments_column="given",
            secret_arguments="code",
            save_audit_workflow_to="w.knwf",
            **WAYS[way],
        )
    assert result.ok, result.failure
    sent = "".join(f"{request.target} {request.headers}" for request in server.requests)
    assert found({"password": KINDS["password"]}, sent)
    left = files_below(tmp_path)
    assert {name.rpartition(".")[2] for name in left} >= {"jsonl", "knwf"}
    for number, output in enumerate(result.outputs):
        columns = [name for name in output.column_names if name != "given"]  # the user's own column
        left[f"output {number}"] = "".join(str(row[name]) for row in output.to_pylist() for name in columns)
    for name in ("failure", "warnings", "logs", "progress", "view_html", "flow_variables"):
        left[name] = str(getattr(result, name))
    left |= {"log": caplog.text, "running": "".join(running), "environment": str(os.environ)}
    shown = {name: found(KINDS, content) for name, content in left.items()}
    assert {name: what for name, what in shown.items() if what} == {}
    assert "held a secret in" in str(result.warnings)


LISTED = {
    "tools": [tool("echo", inputSchema={"type": "object", "properties": {"values": {"type": "array"}}})]
}


def echo(request):
    sent = request.params["arguments"]
    return rpc(text(json.dumps(sent, ensure_ascii=False), structuredContent=sent))(request)


@pytest.mark.parametrize("password", ["test", "1234", "error", "a"])
def test_ten_thousand_values_in_four_runs_of_the_node(call, host, password):
    assert not stands_out(password)
    sent = rows_of_values(random.Random(password), 25, 100)
    with ScriptedServer(legacy(tools__list=rpc(LISTED), tools__call=echo)) as server:
        result = call(
            None,
            host.table(pa.table({"given": list(map(json.dumps, sent))})),
            server_url=server.url,
            credentials="prod",
            stored={"prod": ("me", password)},
            tool_name="echo",
            arguments_column="given",
        )
        arrived = [r.params["arguments"] for r in server.requests if r.rpc == "tools/call"]
    assert result.ok, result.failure
    rows = result.outputs[0].to_pylist()
    assert sorted(map(json.dumps, arrived)) == sorted(map(json.dumps, sent))
    for column in ("Arguments", "Result", "Structured result"):
        assert [json.loads(row[column]) for row in rows] == sent
    assert "secret" not in str(result.warnings)
