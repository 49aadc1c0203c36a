"""Canaries: no secret in tables, journals, files, logs, errors, warnings, views or settings."""

import base64
import json
import logging
from urllib.parse import quote

import pytest

CANARY = 'canary-9f3e"ü-7c1d'
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
    for text in (CANARY, "canary-9f3e", "7c1d"):
        assert text not in left
        assert text not in caplog.text
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
