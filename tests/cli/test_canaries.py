"""Canaries by the command line: whoever repeats a secret, it is in no output, journal, table or page."""

import base64
import json
from pathlib import Path

import pytest
from pyarrow import csv, parquet

from tests.client.oauth.world import CANARY, open_world
from tests.support.canaries import (
    ARGUMENTS,
    canary,
    debugging_server,
    files_below,
    found,
    login_with,
    processes,
    spellings,
)
from tests.support.scripted_server import (
    ScriptedServer,
    event,
    http,
    modern,
    notification,
    reply_event,
    rpc,
    stream,
    text,
)

from .conftest import SECRET

ENCODED = base64.b64encode(f"anna:{SECRET}".encode()).decode()
PASSWORD = {"KNIME_MCP_PROD_PASSWORD": SECRET, "KNIME_MCP_PROD_USERNAME": "anna"}
AS_HEADER = ("--send-credentials-as", "header", "--header-name", "X-Key")
WAYS = {
    "bearer": (("--credential", "prod"), PASSWORD),
    "basic": (("--credential", "prod", "--send-credentials-as", "basic"), PASSWORD),
    "header": (("--credential", "prod", *AS_HEADER), PASSWORD),
    "variable": (("--bearer-env", "MY_TOKEN"), {"MY_TOKEN": SECRET}),
    "template": (("--credential", "prod", "-H", "X-Key: {credential.password}"), PASSWORD),
    "url": (("--credential", "prod"), PASSWORD),
}


def repeated(request):
    """Everything that came, as a server does that debugs."""
    return f"{request.headers} {request.target} {request.body.decode()}"


def result(request):
    said = repeated(request)
    return rpc(text(said, structuredContent={"said": said}, resultType="complete"))(request)


def refusal(request):
    return http(401, repeated(request), headers={"WWW-Authenticate": f'Bearer error="{request.headers}"'})


REPLIES = {
    "result": {"tools__call": result},
    "refused call": {"tools__call": refusal},
    "refused": {"server__discover": refusal, "initialize": refusal, "tools__list": refusal},
    "broken": {
        "tools__call": lambda request: http(200, f"<html>{repeated(request)}", content_type="text/html")
    },
}


def left_behind(folder, *runs):
    """All that people and programs can read afterwards."""
    texts = [run.out + run.err for run in runs]
    texts += [file.read_bytes().decode("utf-8", "replace") for file in folder.rglob("*") if file.is_file()]
    return "\n".join(texts)


@pytest.mark.parametrize(
    ("way", "reply"),
    [
        ("bearer", "result"),
        ("basic", "result"),
        ("url", "result"),
        ("header", "refused call"),
        ("variable", "refused"),
        ("template", "broken"),
    ],
)
def test_a_credential_that_servers_repeat_is_nowhere(cli, tmp_path, way, reply):
    options, env = WAYS[way]
    (tmp_path / "p.csv").write_text("text\na\n", encoding="utf-8")
    with ScriptedServer(modern(**REPLIES[reply])) as server:
        url = f"{server.url}?key={{credential.password}}" if way == "url" else server.url
        runs = [
            cli("call", url, "echo", f"text={SECRET}", *options, "--audit", "c.jsonl", "--json", env=env),
            cli("batch", url, "echo", "p.csv", *options, "--audit", "b.jsonl", "--out", "b.csv", env=env),
            cli("inspect", url, *options, "--json", env=env),
        ]
        if way == "basic":
            again = ("--call", "*", "--with-credential", "prod", "--html", "r.html", "--out", "r.csv")
            runs.append(cli("replay", "c.jsonl", *again, "--audit", "again.jsonl", "--json", env=env))
            runs.append(cli("audit", "export", "c.jsonl", "c.knwf", env=env))
    assert any(
        SECRET in f"{sent.headers} {sent.target}" or ENCODED in str(sent.headers) for sent in server.requests
    )
    left = left_behind(tmp_path, *runs)
    assert SECRET not in left
    assert ENCODED not in left


def test_a_token_that_an_authorization_server_gave(cli, tmp_path):
    """It stands nowhere before the first call."""
    tokens = {}
    with open_world() as world:
        usual = world.mcp._answer

        def repeat(origin, seen):
            reply = usual(origin, seen)
            if seen.fields.get("method") == "tools/call" and reply.status == 200:
                token = seen.headers["authorization"].removeprefix("Bearer ")
                tokens[f"token {len(tokens)}"] = token
                reply.body["result"]["content"][0]["text"] = "\n".join(spellings(token).values())
            return reply

        world.mcp._answer = repeat
        options = ("--credential", "prod", "--send-credentials-as", "client_credentials")
        issuer = ("--issuer", world.auth.issuer)
        (tmp_path / "p.jsonl").write_text('{"n": 1}\n{"n": 2}\n', encoding="utf-8")
        runs = [
            cli("call", world.url, "ask", *options, *issuer, "--audit", "c.jsonl", "--json", env=PASSWORD),
            cli(
                "batch",
                world.url,
                "ask",
                "p.jsonl",
                *options,
                *issuer,
                "--json",
                env=PASSWORD,
            ),
        ]
    assert [run.code for run in runs] == [0, 0], runs
    assert "⟨secret " in runs[0].json["result"]
    left = left_behind(tmp_path, *runs)
    assert CANARY not in left
    assert SECRET not in left
    assert tokens
    assert found(tokens, left) == []


@pytest.mark.parametrize(
    "command",
    [
        f"list http://anna:{SECRET}@127.0.0.1:1/mcp",
        f"list http://127.0.0.1:1/mcp?api_key={SECRET}",
        f"list http://127.0.0.1:1/mcp -H X-Api-Key:{SECRET}",
        f"list http://127.0.0.1:1/mcp -H {SECRET}",
        f"list http://127.0.0.1:1/mcp --proxy http://anna:{SECRET}@127.0.0.1:1",
        f"inspect http://127.0.0.1:1/mcp --proxy http://anna:{SECRET}@127.0.0.1:1 --json",
        f"list --stdio prog --env KEY={SECRET}",
        f"replay x.jsonl --secret {SECRET}",
        f"replay x.jsonl --secret 0123456789ab={SECRET}",
        f"login http://anna:{SECRET}@127.0.0.1:1/mcp",
        f"login http://127.0.0.1:1/mcp --client-id x --client-secret-env {SECRET}",
        f"agent q --model-url http://anna:{SECRET}@127.0.0.1:1/v1 --model m",
    ],
)
def test_a_secret_in_the_wrong_place(cli, command):
    """`CommandLine` fails if it is printed."""
    assert cli(*command.split()).code in (1, 2)


@pytest.mark.parametrize(
    ("way", "secret"),
    [
        ("bearer", f"{SECRET} {SECRET}"),
        ("basic", f"{SECRET}\n{SECRET}"),
        ("header", f"{SECRET}-ü-€"),
        ("template", f"{SECRET}\x07"),
        ("variable", f"{SECRET}\n{SECRET}"),
    ],
)
def test_a_secret_that_cannot_be_sent(cli, server, way, secret):
    options, env = WAYS[way]
    env = {name: secret if value == SECRET else value for name, value in env.items()}
    done = cli("call", server.url, "echo", "text=a", *options, env=env)
    assert "Unexpected" not in done.err


def test_progress_that_repeats_the_token(cli):
    def reports(request):
        token = request.params["_meta"]["progressToken"]
        said = notification(
            "notifications/progress", progressToken=token, progress=1, message=repeated(request)
        )
        return stream(event(said), reply_event(text("done", resultType="complete")))(request)

    with ScriptedServer(modern(tools__call=reports)) as server:
        done = cli("call", server.url, "echo", "text=a", "--bearer-env", "T", env={"T": SECRET})
    assert done.out == "done\n"
    assert "secret" in done.err


KINDS = {name: canary(name) for name in ("token", "password", *ARGUMENTS)}


def test_every_kind_in_every_spelling_is_in_no_artefact(cli, tmp_path):
    """A token, a password in URL and header, and arguments that are secret by name, schema and option."""
    given = login_with(KINDS)
    rows = [given, given | {"fail": True}]
    (tmp_path / "given").mkdir()  # what the user wrote is the user's
    (tmp_path / "given" / "p.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows), "utf-8")
    (tmp_path / "given" / "a.json").write_text(json.dumps(given), "utf-8")
    folder = tmp_path / "left"
    folder.mkdir()
    cli = type(cli)(folder)
    running = []

    def watched(script):
        usual = script["tools/call"]

        def answer(request):
            running.append(processes())
            return usual(request)

        return script | {"tools/call": answer}

    env = {"TOKEN": KINDS["token"], "KNIME_MCP_H_PASSWORD": KINDS["password"]}
    with ScriptedServer(watched(debugging_server(KINDS.values()))) as server:
        url, named = server.url, ("--secret-argument", "code")
        args = ("--json-arguments", "@../given/a.json")
        to = ("--bearer-env", "TOKEN", *named)
        header = (
            "-H",
            "X-More: {credential.password}",
            "--send-credentials-as",
            "header",
            "--header-name",
            "X-Key",
        )
        to_url = f"{url}?key={{credential.password}}"
        batch = ("batch", to_url, "login", "../given/p.jsonl", "--credential", "h", *header, *named)
        runs = [
            cli("call", url, "login", *args, *to, "--audit", "c.jsonl", "--json", env=env),
            cli("call", url, "login", "fail:=true", *args, *to, env=env),
            cli(*batch, "--audit", "b.jsonl", "--out", "b.csv", env=env),
            cli(*batch, "--out", "b.parquet", env=env),
            cli("list", url, *to, "--out", "l.parquet", env=env),
            cli("inspect", url, *to, "--json", env=env),
            cli("audit", "show", "b.jsonl", "--html", "b.html"),
            cli("audit", "show", "b.jsonl", "--out", "s.csv", "--json"),
            cli("audit", "show", "b.jsonl", "--out", "s.parquet"),
            cli("audit", "export", "c.jsonl", "c.knwf"),
            cli("replay", "c.jsonl", "--html", "r.html", "--out", "r.csv", "--audit", "r.jsonl"),
        ]
    codes = [run.code for run in runs]
    assert codes == [0, 1, 1, 1, 0, 0, 0, 0, 0, 0, 1], runs[2].err[-600:] + runs[3].err
    sent = "\n".join(
        "\n".join([*request.headers.values(), request.body.decode()]) for request in server.requests
    )
    assert json.dumps(KINDS["by-name"])[1:-1] in sent
    assert KINDS["password"] in sent
    assert KINDS["token"] in sent
    assert running
    # The table of results has the user's own columns, as they are.
    for file, read in ((folder / "b.csv", csv.read_csv), (folder / "b.parquet", parquet.read_table)):
        result = read(file).drop_columns(list(given))
        file.with_suffix(".txt").write_text(str(result.to_pylist()), "utf-8")
        file.unlink()
    left = files_below(folder)
    assert {Path(name).suffix for name in left} >= {".jsonl", ".csv", ".parquet", ".html", ".knwf"}
    left |= {f"run {number}": run.out + run.err for number, run in enumerate(runs)}
    shown = {name: found(KINDS, content) for name, content in left.items()}
    assert {name: what for name, what in shown.items() if what} == {}
    assert found(KINDS, *running) == []
