"""The last line of a signed journal, which only the signature in it covers; and each byte of it all."""

import base64
import json
import random

import pytest

from knime_mcp.audit.journal_lines import JournalError
from knime_mcp.audit.record import line_chain
from knime_mcp.audit.verdicts import Verdict
from knime_mcp.audit.verify import verify_file
from knime_mcp.types.texts import canonical_json
from tests.audit.outside import outside_verdict
from tests.audit.signing import new_key, write_journal

BASE64 = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"


@pytest.fixture
def keys(tmp_path, monkeypatch):
    file = tmp_path / "keys" / "audit-keys.json"
    monkeypatch.setenv("KNIME_MCP_AUDIT_KEYS", str(file))
    return file


def rewritten(path, change):
    """The journal with another text of its last line up to its chain, which is made anew."""
    *before, last = path.read_bytes().splitlines(keepends=True)
    text = change(last.rpartition(b',"chain"')[0].decode()).encode()
    chain = line_chain(json.loads(before[-1])["chain"], text)
    return b"".join([*before, text + b',"chain":"%b"}\n' % chain.encode()])


def noted(change):
    def tamper(text):
        entry = json.loads(f"{text}}}")
        return canonical_json(entry | {"note": change(entry["note"])})[:-1]

    return tamper


def with_other_bits(note):
    """The last letter of 68 bytes in base64 has two bits that say nothing."""
    letter = note[-3]
    return f"{note[:-3]}{BASE64[BASE64.index(letter) ^ 1]}=\n"


STRANGER = f"— stranger {base64.b64encode(bytes(68)).decode()}\n"
LAST = {
    **{
        f"time_stamp is {value}": lambda text, value=value: f'{text},"time_stamp":{value}'
        for value in ("{}", '{"at":"2026"}', "null", "1", "true", "[]", '""', '"checked"', '"AAAA"')
    },
    **{
        f"{name} twice": lambda text, name=name: text.replace(f'"{name}":', f'"{name}":"else","{name}":', 1)
        for name in ("note", "kind")
    },
    "another field": lambda text: f'{text},"said":"checked"',
    "a field without a name": lambda text: f'{text},"":0',
    "a chain": lambda text: f'{text},"chain":"0"',
    "order": lambda text: "{" + ",".join(reversed(text[1:].split(",", 1))),
    "blank": lambda text: text.replace('","', '", "'),
    "blank at the beginning": lambda text: text.replace("{", "{ "),
    "blank at the end": lambda text: f"{text} ",
    "escaped letter": lambda text: text.replace('"kind"', '"\\u006bind"'),
    "escaped dash": lambda text: text.replace("—", "\\u2014"),
    "a list around the note": lambda text: text.replace('"note":', '"note":[') + "]",
    "a stranger's signature": noted(lambda note: note + STRANGER),
    "a stranger's signature before ours": noted(lambda note: note.replace("— ", f"{STRANGER}— ")),
    "our signature twice": noted(lambda note: note + note.partition("\n\n")[2]),
    "another spelling of the signature": noted(with_other_bits),
    "a line behind the signature": noted(lambda note: f"{note}checked\n"),
    "no line break": noted(lambda note: note.removesuffix("\n")),
    "another time": noted(lambda note: note.replace("T", "t", 1)),
    "more text": noted(lambda note: note.replace("\n\n", "\nchecked\n\n")),
}


def test_the_last_line_has_one_spelling(keys, tmp_path):
    public = str(new_key(keys))
    path = write_journal(tmp_path / "r.jsonl", ("a",), calls=1)
    whole = path.read_bytes()
    assert rewritten(path, lambda text: text) == whole
    found = {}
    for name, change in LAST.items():
        path.write_bytes(whole)
        forged = rewritten(path, change)
        assert forged != whole, name
        path.write_bytes(forged)
        found[name] = verify_file(path).verdict, outside_verdict(path, public)
    assert {name: verdict for name, verdict in found.items() if verdict != ("changed", "changed")} == {}
    path.write_bytes(whole)
    assert (verify_file(path).verdict, outside_verdict(path, public)) == ("unchanged", "unchanged")


def test_a_signature_of_somebody_else_instead_of_ours_is_none(keys, tmp_path):
    new_key(keys)
    path = write_journal(tmp_path / "r.jsonl", ("a",), calls=1)
    path.write_bytes(rewritten(path, noted(lambda note: f"{note.partition('— ')[0]}{STRANGER}")))
    assert verify_file(path).verdict is Verdict.UNANCHORED
    assert "Signed by stranger+" in " ".join(verify_file(path).notes)


def edited(data, at, chance):
    """The data with an edit at a place, as a random generator says; never the same."""
    end = min(at + chance.choice((1, 1, 2, 9)), len(data))
    other = chance.randrange(len(data))
    piece, byte = data[at:end], bytes([chance.choice((chance.randrange(256), *b'"{},:=\\ \n0Aa'))])
    new = chance.choice(
        (
            byte,  # replaced
            byte + piece,
            b"",
            piece * 2,
            piece.swapcase(),
            piece[::-1],
            bytes([data[at] ^ 1 << chance.randrange(8)]) + data[at + 1 : end],
            data[other : other + len(piece)],
            b"\\u%04x" % data[at] + data[at + 1 : end],
        )
    )
    return edited(data, at, chance) if new == piece else data[:at] + new + data[end:]


def not_found(keys, folder, trials):
    """The edits, by the number of their trial, that somebody takes for the journal as it was written."""
    public = str(new_key(keys))
    path = write_journal(folder / "r.jsonl", ("a",), calls=1)
    data, missed = path.read_bytes(), {}
    first = data.rindex(b'{"kind":"checkpoint"')
    for trial in trials:
        # One after the other through all of it, and as often in the last line.
        length = len(data) - first if trial % 2 else len(data)
        at = len(data) - 1 - trial * 37 // 2 % length
        forged = edited(data, at, random.Random(trial))
        path.write_bytes(forged)
        try:
            verdicts = verify_file(path).verdict, outside_verdict(path, public)
        except JournalError:
            continue
        if "unchanged" in verdicts:
            missed[trial] = verdicts, forged[max(at - 20, 0) : at + 20]
    path.write_bytes(data)
    assert (verify_file(path).verdict, outside_verdict(path, public)) == ("unchanged", "unchanged")
    return missed


def test_random_edits_are_found(keys, tmp_path):
    assert not_found(keys, tmp_path, range(300)) == {}


@pytest.mark.long
def test_thousands_of_random_edits_are_found(keys, tmp_path):
    assert not_found(keys, tmp_path, range(2_000)) == {}
