"""``knime-mcp audit pack``, and the commands that take a dossier as it is."""

import base64
import json
import zipfile

import pytest

from knime_mcp.audit.dossier import DossierWriter
from knime_mcp.knwf import check_archive
from tests.support.files import json_lines

from .conftest import SECRET

RULES = '{"replay_rules": 1, "rules": [{"volatile": "/time"}]}'


@pytest.fixture
def packed(cli, server, tmp_path):
    """A signed dossier of calls with a picture and a secret argument; the picture is nowhere else."""
    env = {"KNIME_MCP_AUDIT_KEYS": str(tmp_path / "keys.json")}
    key = cli("audit", "key", "new", env=env).out.strip()
    cli("call", server.url, "picture", "--save-dir", "saved", "--audit", "run.jsonl")
    cli("call", server.url, "echo", "text=hello", "--audit", "run.jsonl")
    hidden = ("show", f"code={SECRET}", "--secret-argument", "code")
    cli("call", server.url, *hidden, "--audit", "run.jsonl")
    (tmp_path / "rules.json").write_text(RULES, "utf-8")
    done = cli("audit", "pack", "run.jsonl", "run.zip", "--rules", "rules.json", env=env)
    assert (done.code, done.out) == (0, "")
    assert "Wrote run.zip: 3 calls" in done.err
    for file in [*(tmp_path / "saved").iterdir(), tmp_path / "run.jsonl"]:
        file.unlink()
    return key


def test_everything_is_in_it_and_no_secret(packed, tmp_path):
    with zipfile.ZipFile(tmp_path / "run.zip") as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
        (tmp_path / "out.knwf").write_bytes(members["audit.knwf"])
    folders = {name.rpartition("/")[0] for name in members}
    assert folders == {"", "tools", "files", "rules"}
    (picture,) = (data for name, data in members.items() if name.startswith("files/"))
    report = members["report.html"].decode()
    assert base64.b64encode(picture).decode() in report
    assert members["rules/rules.json"].decode() == RULES
    assert {json.loads(data)["name"] for name, data in members.items() if "tools/" in name} == {
        "picture",
        "echo",
        "show",
    }
    assert check_archive(tmp_path / "out.knwf") == []
    assert not any(SECRET.encode() in data for data in members.values())


def test_commands_take_it_as_it_is(packed, cli, tmp_path):
    done = cli("audit", "verify", "run.zip", "--key", packed)
    assert (done.code, done.out.splitlines()[0]) == (0, "run.zip: intact")
    without_key = cli("audit", "verify", "run.zip")
    assert (without_key.code, "No signature that counts" in without_key.err) == (4, True)
    assert [call["tool_name"] for call in cli("audit", "show", "run.zip", "--json").json] == [
        "picture",
        "echo",
        "show",
    ]
    assert cli("audit", "show", "run.zip", "--html", "page.html", "--out", "t.parquet").code == 0
    assert "data:image/png" in (tmp_path / "page.html").read_text("utf-8")
    assert cli("audit", "export", "run.zip", "again.knwf").code == 0
    replayed = cli("replay", "run.zip", "--call", "*", "--rows", "1,2", "--audit", "new.jsonl", "--json")
    assert {call["verdict"] for call in replayed.json["calls"] if "new_status" in call} == {"same"}
    assert [rule["volatile"] for rule in replayed.json["rules"]] == ["/time"]
    assert len([line for line in json_lines(tmp_path / "new.jsonl") if line["kind"] == "call"]) == 2
    ran = cli("run", "run.zip", "--json").json
    assert len(ran["nodes"]) == 3


@pytest.mark.parametrize(
    ("others", "said"),
    [
        ((), None),
        (("audit-2.knwf",), "1 workflow with further calls"),
        (("audit-2.knwf", "audit-3.knwf"), "2 workflows with further calls, audit-2.knwf and so on"),
    ],
)
def test_run_says_that_a_dossier_has_further_workflows(others, said, cli, server, tmp_path):
    cli("call", server.url, "echo", "text=hello", "--audit", "run.jsonl")
    cli("audit", "export", "run.jsonl", "audit.knwf")
    with DossierWriter(tmp_path / "run.zip") as dossier:  # each has up to 1,000 calls
        dossier.about["files"] = {}
        dossier.add("journal.jsonl", tmp_path / "run.jsonl")
        for name in ("audit.knwf", *others):
            dossier.add(name, tmp_path / "audit.knwf")
    done = cli("run", "run.zip", "--json")
    assert (done.code, len(done.json["nodes"])) == (0, 1)
    assert ("further calls" in done.err) == bool(said)
    assert said is None or said in done.err


def test_an_altered_one_is_taken_by_none(packed, cli, tmp_path):
    with zipfile.ZipFile(tmp_path / "run.zip") as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    members["audit.knwf"] += b"x"
    with zipfile.ZipFile(tmp_path / "run.zip", "w") as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    done = cli("audit", "verify", "run.zip", "--key", packed)
    assert (done.code, done.out.splitlines()[0]) == (1, "run.zip: altered")
    assert "audit.knwf is not what was put into the dossier" in done.err
    for command in (("replay",), ("run",), ("audit", "show")):
        refused = cli(*command, "run.zip")
        assert (refused.code, refused.out) == (1, "")
        assert "run.zip is altered, so nothing is taken from it" in refused.err


def test_only_journals_that_are_not_altered_are_packed(cli, server, tmp_path):
    cli("call", server.url, "echo", "text=hello", "--audit", "run.jsonl")
    text = (tmp_path / "run.jsonl").read_text("utf-8")
    (tmp_path / "run.jsonl").write_text(text.replace("hello", "hullo"), "utf-8")
    done = cli("audit", "pack", "run.jsonl", "run.zip")
    assert (done.code, "is altered, so it is not packed" in done.err) == (1, True)
    assert not (tmp_path / "run.zip").exists()
    (tmp_path / "t.csv").write_text("Tool name,Arguments\n", "utf-8")
    for file, out in [("t.csv", "run.zip"), ("nothing.jsonl", "run.zip"), ("run.jsonl", "run.tar")]:
        assert cli("audit", "pack", file, out).code == 2


def test_no_file_of_this_machine_gets_into_it_because_a_journal_names_it(cli, server, tmp_path):
    (tmp_path / "private.png").write_bytes(b"mine")
    cli("call", server.url, "picture", "--save-dir", "saved", "--audit", "run.jsonl")
    (saved,) = (tmp_path / "saved").iterdir()
    saved.unlink()
    saved.symlink_to(tmp_path / "private.png")
    done = cli("audit", "pack", "run.jsonl", "run.zip")
    assert done.code == 1  # the file is not what was saved
    saved.unlink()
    done = cli("audit", "pack", "run.jsonl", "run.zip")
    assert (done.code, "1 saved file not packed" in done.err) == (0, True)
    assert "1 saved file is not there any more" in cli("audit", "verify", "run.zip").err


def test_rules_that_replay_could_not_take_are_not_packed(cli, server, tmp_path):
    cli("call", server.url, "echo", "text=hello", "--audit", "run.jsonl")
    for option in ("--rules", "--workflow"):
        done = cli("audit", "pack", "run.jsonl", "run.zip", option, "nosuch")
        assert (done.code, "There is no file nosuch." in done.err) == (1, True)
    (tmp_path / "rules.txt").write_text("/time", "utf-8")
    done = cli("audit", "pack", "run.jsonl", "run.zip", "--rules", "rules.txt")
    assert (done.code != 0, "rules.txt" in done.err) == (True, True)
    assert not (tmp_path / "run.zip").exists()
