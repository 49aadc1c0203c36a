"""Files that cannot be read or written: one text that says what to do, before anything is called."""

import json
import os
import socket

import pytest

from .conftest import RECORDED

TOO_DEEP = "[" * 100_000


@pytest.fixture
def folder(tmp_path):
    """Folders with the names of files, a graph document, and a table of parameters."""
    for ending in ("csv", "parquet", "json", "jsonl", "html", "knwf"):
        (tmp_path / f"folder.{ending}").mkdir()
    (tmp_path / "table.csv").write_text("text\nhello\n", encoding="utf-8")
    return tmp_path


@pytest.mark.parametrize("name", ["folder", "nowhere/file"])
@pytest.mark.parametrize(
    ("command", "option"),
    [
        ("list URL", "--out .csv"),
        ("call URL echo text=a", "--audit .jsonl"),
        ("batch URL echo table.csv", "--out .parquet"),
        ("batch URL echo table.csv", "--audit .jsonl"),
        ("audit show RECORDED", "--html .html"),
        ("audit show RECORDED", "--out .csv"),
        ("audit export RECORDED", ".knwf"),
        ("replay RECORDED", "--html .html"),
        ("replay RECORDED", "--audit .jsonl"),
        ("agent question --model-url http://127.0.0.1:1/v1 --model m", "--html .html"),
        ("mcpgraph new", ".json"),
        ("mcpgraph run graph.yaml greet", "--save-run .json"),
        ("mcpgraph run graph.yaml greet", "--audit .jsonl"),
        ("mcpgraph show graph.yaml", "--html .html"),
    ],
)
def test_a_file_that_cannot_be_written_is_refused_before_anything_is_called(
    cli, server, folder, command, option, name
):
    assert cli("mcpgraph", "new", "graph.yaml").code == 0
    called = len(server.said())
    *flag, ending = option.split()
    words = command.replace("URL ", f"{server.url} ").replace("RECORDED", str(RECORDED)).split()
    words = [server.url if word == "URL" else word for word in words]
    done = cli(*words, *flag, f"{name}{ending}")
    assert done.code == 2, done.err
    assert f"folder{ending} is a folder" in done.err or "There is no folder nowhere" in done.err
    assert len(server.said()) == called


@pytest.mark.parametrize("command", ["call URL picture", "batch URL echo table.csv"])
def test_a_folder_for_files_that_cannot_be_made_is_refused(cli, server, folder, command):
    words = [server.url if word == "URL" else word for word in command.split()]
    done = cli(*words, "--save-dir", "table.csv")
    assert done.code == 2
    assert "table.csv is a file. Name a folder." in done.err


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (TOO_DEEP, "nested too deeply"),
        ('{"name": ', "line 1, column 10"),
        (b'{"name": "\xff"}', "is not UTF-8 text"),
        ("9" * 5000, "number with thousands of digits"),
        ("[1]", "must be a JSON object"),
    ],
)
def test_arguments_of_a_graph_that_cannot_be_read(cli, folder, content, said):
    (folder / "arguments.json").write_bytes(content if isinstance(content, bytes) else content.encode())
    cli("mcpgraph", "new", "graph.yaml")
    done = cli("mcpgraph", "run", "graph.yaml", "greet", "@arguments.json")
    assert done.code in (1, 2)
    assert said in done.err


def test_a_recorded_run_that_cannot_be_read(cli, folder):
    (folder / "run.json").write_text(TOO_DEEP, encoding="utf-8")
    cli("mcpgraph", "new", "graph.yaml")
    done = cli("mcpgraph", "show", "graph.yaml", "--html", "out.html", "--run", "run.json")
    assert done.code == 1
    assert "run.json cannot be read as JSON: it is nested too deeply" in done.err


def test_streams_that_the_shell_has_closed(cli, server, folder):
    cli("mcpgraph", "new", "graph.yaml")
    done = cli.closing("<&-", "mcpgraph", "run", "graph.yaml", "greet", "@-")
    assert done.code == 2
    assert "The arguments in standard input cannot be read as JSON" in done.err
    done = cli.closing(">&-", "call", server.url, "echo", "text=a")
    assert (done.code, done.err) == (0, "")
    assert cli.closing("2>&-", "call", server.url, "nothing").code == 1


def test_rows_of_json_lines_that_no_table_holds(cli, server, folder):
    lines = ('{"text": "\\ud800"}', f'{{"text": {10**40}}}', '{"text": "fine"}')
    (folder / "rows.jsonl").write_text("\n".join(lines), encoding="utf-8")
    done = cli("batch", server.url, "echo", "rows.jsonl", "--json")
    assert [record["status"] for record in done.json] == ["invalid arguments", "ok", "ok"]
    assert done.json[1]["arguments"] == {"text": str(10**40)}
    assert "surrogate" in done.json[0]["error"]


def test_json_lines_nested_too_deeply(cli, server, folder):
    (folder / "rows.jsonl").write_text(f'{{"text": "a"}}\n{TOO_DEEP}', encoding="utf-8")
    done = cli("batch", server.url, "echo", "rows.jsonl")
    assert done.code == 1
    assert "rows.jsonl, line 2 is not JSON: it is nested too deeply" in done.err


def test_a_folder_is_no_table_of_parameters(cli, server, folder):
    done = cli("batch", server.url, "echo", "folder.parquet")
    assert done.code == 1
    assert "folder.parquet: is a directory" in done.err


@pytest.mark.parametrize(
    "command", ["mcpgraph serve graph.yaml --http", "knime-nodes serve --http", "knime-nodes gateway --port"]
)
def test_a_port_that_is_taken(cli, folder, command):
    cli("mcpgraph", "new", "graph.yaml")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        env = {"GATEWAY_KEYS_FILE": str(folder / "keys"), "GATEWAY_INTERNAL_PORT": "0"}
        done = cli(*command.split(), port, env=env)
    assert done.code == 1
    assert f"Nothing can listen at 127.0.0.1, port {port}" in done.err
    assert "another port" in done.err


def test_an_address_of_another_machine(cli, folder):
    cli("mcpgraph", "new", "graph.yaml")
    words = ("--http", "0", "--host", "192.0.2.1", "--unprotected")  # an address for documents
    done = cli("mcpgraph", "serve", "graph.yaml", *words)
    assert done.code == 1
    assert "Nothing can listen at 192.0.2.1, port 0: " in done.err
    assert "Choose an address of this machine. [KMCP-ADDRESS]" in done.err


def test_a_long_list_of_damages_is_told_in_ranges(cli, folder):
    start = json.dumps({"kind": "start", "run": "r"}) + "\n"
    (folder / "damaged.jsonl").write_text(start + "no json\n" * 1000, encoding="utf-8")
    done = cli("audit", "verify", "damaged.jsonl")
    assert done.code == 1
    assert len(done.err.splitlines()) < 30
    assert "lines 2 to 1001" in done.err


def test_a_secret_in_a_url_is_told_where_else_to_go(cli):
    done = cli("list", "http://user:hushhush@127.0.0.1:1/mcp")
    assert done.code == 2
    assert "--credential NAME" in done.err
    assert "hushhush" not in done.err


def test_names_of_files_need_not_be_utf8(cli, server, tmp_path):
    """Those in old archives often are not."""
    name = os.fsdecode(b"M\xfcll")
    (tmp_path / f"{name}.csv").write_text("text\nx\n")
    results = [f"{name}-out.csv", f"{name}-out.parquet"]
    for table, out in zip((f"{name}.csv", results[0]), results, strict=True):
        done = cli("batch", server.url, "echo", table, "--out", out, "--audit", f"{out}.jsonl")
        assert done.code == 0, done.err
    for out in results:
        assert cli("audit", "show", f"{name}-out.csv.jsonl", "--out", out).code == 0
        assert cli("audit", "verify", out).code == 4  # consistent, and signed by nobody
