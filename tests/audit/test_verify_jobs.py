"""Several processes say of a journal what one says, whatever was done to it, and wherever a piece ends."""

from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import get_context

import pytest

from knime_mcp.audit import verify_jobs
from knime_mcp.audit.dossier import JOURNAL, DossierWriter
from knime_mcp.audit.journal import Journal
from knime_mcp.audit.verify import verify_file
from tests.audit import test_journal_parts, test_tampering
from tests.audit.calls import record
from tests.audit.signing import new_key, write_journal

WAYS = test_tampering.FOUND | {f"anew: {name}": way for name, way in test_tampering.FORGED.items()}


@pytest.fixture
def pool(tmp_path, monkeypatch):
    """Threads do what processes do; in pieces of one to three lines."""
    monkeypatch.setenv("KNIME_MCP_AUDIT_KEYS", str(tmp_path / "keys" / "keys.json"))
    monkeypatch.setattr(verify_jobs, "_PIECE", 1_500)
    with ThreadPoolExecutor(2) as pool:
        yield pool


def same_of(path, pool, head=None):
    one, many = verify_file(path, head=head), verify_file(path, head=head, pool=pool)
    assert many == one
    return one


@pytest.mark.parametrize("signed", [False, True])
@pytest.mark.parametrize("name", WAYS)
def test_tampering_is_found_in_the_same_words(name, signed, pool, tmp_path):
    if signed:
        new_key(tmp_path / "keys" / "keys.json")
    path = write_journal(tmp_path / "r.jsonl")
    head = same_of(path, pool).runs[-1].anchor
    assert same_of(path, pool, head).intact
    WAYS[name](path)
    assert not same_of(path, pool).intact
    same_of(path, pool, head)


@pytest.mark.parametrize("name", test_journal_parts.TAMPERED)
def test_tampering_with_files_is_found_in_the_same_words(name, pool, tmp_path, monkeypatch):
    monkeypatch.setenv("KNIME_MCP_AUDIT_PART", "2KB")
    path = test_journal_parts.write(tmp_path / "r.jsonl")
    assert len(same_of(path, pool).runs) == 1
    test_journal_parts.TAMPERED[name][0](path)
    same_of(path, pool)


@pytest.mark.parametrize("size", [1, 700, 5_000, 8 << 20])
@pytest.mark.parametrize(
    "change",
    [
        lambda data: data,
        lambda data: data.replace(b"\n", b"\r\n"),
        lambda data: data.replace(b"\n", b"\n\n", 3),
        lambda data: data + b"\n\n",
        lambda data: data[:-1],
        lambda data: data[:-50],
        lambda data: b"\xef\xbb\xbf" + data,
        lambda data: b"",
    ],
)
def test_wherever_a_piece_ends(change, size, pool, tmp_path, monkeypatch):
    monkeypatch.setattr(verify_jobs, "_PIECE", size)
    path = tmp_path / "r.jsonl"
    for run in ("a", "b"):
        with Journal(path, run=run, append=path.exists()) as journal:
            for number in range(1, 8):
                journal.append(record(number, run=run))
    path.write_bytes(change(path.read_bytes()))
    same_of(path, pool)


def test_lines_that_are_as_they_should_be_are_summed_up(pool, tmp_path, monkeypatch):
    """Otherwise several processes would be no faster than one."""
    monkeypatch.setattr(verify_jobs, "_PIECE", 20_000)
    path = tmp_path / "r.jsonl"
    with Journal(path, run="a") as journal:
        for number in range(1, 101):
            journal.append(record(number, run="a"))
    pieces = list(verify_jobs._pieces(path))
    assert len(pieces) > 3
    for piece in pieces:
        found = verify_jobs.look_at(piece, ())
        assert sum(isinstance(item, verify_jobs.Span) for item in found.items) == 1
        assert len(found.items) <= 4
    told = []
    verify_file(path, pool=pool, on_progress=told.append)
    assert told == sorted(told)
    assert told[-1] == path.stat().st_size


def test_processes(tmp_path, monkeypatch):
    path = write_journal(tmp_path / "r.jsonl")
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
        assert same_of(path, pool).consistent


def test_a_dossier(pool, tmp_path):
    path = write_journal(tmp_path / "r.jsonl")
    with DossierWriter(tmp_path / "r.zip") as dossier:
        dossier.about["files"] = {}
        dossier.add(JOURNAL, path)
    assert same_of(tmp_path / "r.zip", pool).consistent
