"""``knime-mcp audit key``, and verifying with keys."""

import contextlib
import json
import resource

import pytest
import typer

from knime_mcp.audit.journal import Journal
from knime_mcp.audit.journal_lines import JournalError
from knime_mcp.audit.verify import verify_file
from knime_mcp.cli import audit as audit_commands
from tests.audit.calls import write_run
from tests.audit.signing import new_key, write_journal


@pytest.fixture
def audit(cli, tmp_path, monkeypatch):
    variables = {"KNIME_MCP_AUDIT_KEYS": str(tmp_path / "keys" / "audit-keys.json")}
    monkeypatch.setenv("KNIME_MCP_AUDIT_KEYS", variables["KNIME_MCP_AUDIT_KEYS"])
    return lambda *words: cli("audit", *words, env=variables)


def test_keys_on_the_command_line(audit, tmp_path):
    assert "Make one: audit key new" in audit("key", "show").err
    made = audit("key", "new", "--name", "me")
    assert made.code == 0
    assert audit("key", "new").code == 1
    write_journal(tmp_path / "r.jsonl")
    assert audit("verify", "r.jsonl").code == 0
    assert audit("key", "rotate", "--name", "me-2").code == 0
    shown = audit("key", "show").out.split()
    assert [text.split("+")[0] for text in shown] == ["me", "me-2"]
    assert audit("verify", "r.jsonl", "--key", shown[0]).code == 0
    assert audit("verify", "r.jsonl", "--key", shown[1]).code == 4
    assert "is not a public key" in audit("verify", "r.jsonl", "--key", "x").err
    assert audit("verify", "r.jsonl", "--json").json["covered"][0]["by"]


def test_whose_key_wrote_a_journal_is_said_in_words(audit, tmp_path, monkeypatch):
    """By who got it: before and after they know the key, beside their own, and when it was changed."""
    public = {}
    for writer in ("ada", "bob"):
        monkeypatch.setenv("KNIME_MCP_AUDIT_KEYS", str(tmp_path / f"{writer}.json"))
        public[writer] = str(new_key(tmp_path / f"{writer}.json", f"{writer}@there"))
        write_journal(tmp_path / "both.jsonl", (writer,))
        write_journal(tmp_path / f"{writer}.jsonl", (writer,))

    def first_line(file, code, *options):
        done = audit("verify", file, *options)
        assert done.code == code
        return done.out.splitlines()[0].removeprefix(f"{file}: ")

    nobody = "complete in itself, but nobody vouches for it"
    number = {writer: text.split("+")[1] for writer, text in public.items()}
    assert first_line("ada.jsonl", 4) == nobody
    said = audit("verify", "ada.jsonl").err
    assert f"Signed by ada@there+{number['ada']}, which you do not know" in said
    assert "key new" not in said  # which would help whoever wrote it
    (tmp_path / "ada.txt").write_text(public["ada"] + "\n")
    assert audit("trust", "@ada.txt").code == 2
    assert audit("trust", "ada", "--as", "Ada").code == 1
    assert "written by Ada's key" in audit("trust", "@ada.txt", "--as", "Ada").out
    assert first_line("ada.jsonl", 0) == f"written by Ada's key ({number['ada']}), unchanged"
    assert first_line("both.jsonl", 4) == "complete in itself, but nobody vouches for lines 15 to 28"
    assert "Ada has another key" in audit("trust", public["bob"], "--as", "Ada").err
    assert "Until now it was Ada's" in audit("trust", public["bob"], "--as", "Bob").err
    assert {"Ada", "Bob"} < set(audit("trust").out.split())
    both = f"written by Ada's key ({number['ada']}) and Bob's key ({number['bob']}), unchanged"
    assert first_line("both.jsonl", 0) == both
    assert first_line("both.jsonl", 4, "--key", public["ada"]).endswith("vouches for lines 15 to 28")
    audit("show", "ada.jsonl", "--html", "page.html")
    assert "Records: written by Ada&#x27;s key (" in (tmp_path / "page.html").read_text("utf-8")
    lines = (tmp_path / "ada.jsonl").read_bytes().splitlines(keepends=True)
    (tmp_path / "ada.jsonl").write_bytes(b"".join([*lines[:2], *lines[3:]]))
    assert first_line("ada.jsonl", 1).startswith("changed at line")
    (tmp_path / "keys" / "known-keys.json").write_text("{")
    assert first_line("bob.jsonl", 4) == nobody
    assert "known-keys.json cannot be read: it is not as it was written" in audit("verify", "bob.jsonl").err


@contextlib.contextmanager
def full_disk(size):
    """No file may become larger."""
    _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))


def said(capsys, command, *words, **options):
    """The exit code of a command, and its words in one line."""
    with pytest.raises(typer.Exit) as ended:
        command(*words, **options)
    return ended.value.exit_code, " ".join(capsys.readouterr().err.split())


@pytest.fixture
def keys(tmp_path, monkeypatch):
    monkeypatch.setenv("COLUMNS", "1000")
    monkeypatch.setenv("KNIME_MCP_AUDIT_KEYS", str(tmp_path / "keys.json"))
    return tmp_path / "keys.json"


def test_a_key_on_a_full_disk_is_not_made_and_the_older_ones_stay(keys, capsys):
    with full_disk(100):
        code, words = said(capsys, audit_commands.new, name="me")
    assert (code, "No key was made, as" in words, "too large" in words) == (1, True, True)
    assert list(keys.parent.iterdir()) == []
    new_key(keys, "old")
    before = keys.read_bytes()
    with full_disk(100):
        assert said(capsys, audit_commands.rotate, name="me")[0] == 1
    assert (keys.read_bytes(), list(keys.parent.iterdir())) == (before, [keys])


def test_keys_that_are_no_keys_are_named_by_all_who_need_them(keys, tmp_path, capsys):
    new_key(keys)
    whole = keys.read_text()
    private = json.loads(whole)["keys"][0]["private"]
    spoiled = {
        "empty": ("", "it is empty"),
        "blank": (" \n", "it is empty"),
        "torn": (whole[:60], "it is not as it was written"),
        "torn in the key": (whole.replace(private, private[:20]), "it is not as it was written"),
        "another key's name": (whole.replace("auditor", "auditer"), "it is not as it was written"),
        "a list": ("[]", "it is not as it was written"),
        "no key": ('{"keys": []}', "it holds no key"),
        "not UTF-8": (b"\xff\xfe", "it is not as it was written"),
        "a folder": (None, "is a directory"),
    }
    path = write_journal(tmp_path / "r.jsonl", ("a",), calls=1)
    wrong = {}
    for name, (text, why) in spoiled.items():
        keys.unlink()
        if text is None:
            keys.mkdir()
        else:
            keys.write_bytes(text if isinstance(text, bytes) else text.encode())
            keys.chmod(0o600)
        wanted = f"The keys in {keys} cannot be read: {why}. Restore the file"
        for command in (audit_commands.show, audit_commands.new, audit_commands.rotate):
            code, words = said(capsys, command)
            if code != 1 or wanted not in words:
                wrong[name] = words
        with pytest.raises(JournalError) as refused:
            Journal(tmp_path / "new.jsonl", run="r")
        if wanted not in str(refused.value):
            wrong[name] = str(refused.value)
        # Whoever checks is told why the signature does not count.
        if wanted not in " ".join(verify_file(path).notes):
            wrong[name] = verify_file(path).notes
    assert wrong == {}


def test_keys_that_others_may_read_sign_nothing(keys, tmp_path, capsys):
    new_key(keys)
    path = write_journal(tmp_path / "r.jsonl", ("a",), calls=1)
    for mode in (0o644, 0o640, 0o604, 0o660, 0o620):
        keys.chmod(mode)
        with pytest.raises(JournalError, match=r"may be read by others.*chmod 600"):
            Journal(tmp_path / "new.jsonl", run="r")
        code, words = said(capsys, audit_commands.show)
        assert (code, "so nothing is signed" in words) == (0, True)
        assert verify_file(path).intact
    assert said(capsys, audit_commands.rotate)[0] == 0
    Journal(tmp_path / "new.jsonl", run="r").close()


def test_a_page_or_table_on_a_full_disk_has_no_half_under_its_name(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "1000")
    write_run(tmp_path / "r.jsonl", 40)
    there = sorted(tmp_path.iterdir())
    for options in ({"html": tmp_path / "r.html"}, {"out": tmp_path / "t.csv"}):
        (file,) = options.values()
        with full_disk(3_000):
            code, words = said(capsys, audit_commands.show_records, tmp_path / "r.jsonl", **options)
        assert (code, f"{file} could not be written: " in words) == (1, True), words
        assert sorted(tmp_path.iterdir()) == there
        file.write_text("what was there")
        with full_disk(3_000):
            assert said(capsys, audit_commands.show_records, tmp_path / "r.jsonl", **options)[0] == 1
        assert file.read_text() == "what was there"
        link = tmp_path / f"link{file.suffix}"
        link.symlink_to(file)
        assert (
            said(capsys, audit_commands.show_records, tmp_path / "r.jsonl", **{next(iter(options)): link})[0]
            == 0
        )
        assert link.is_symlink()
        assert file.stat().st_size > 3_000
        link.unlink()
        file.unlink()


def test_a_part_of_a_journal_that_is_a_folder_is_said(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "1000")
    write_run(tmp_path / "r.jsonl", 2)
    (tmp_path / "r.jsonl.2").mkdir()
    for command in (audit_commands.verify, audit_commands.show_records):
        code, words = said(capsys, command, tmp_path / "r.jsonl")
        assert code == 1
        assert "r.jsonl.2 is a folder, and has the name of a part of a journal" in words
    with pytest.raises(JournalError, match=r"r\.jsonl\.2 is a folder"):
        Journal(tmp_path / "r.jsonl", run="s", append=True)
