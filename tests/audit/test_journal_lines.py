"""What journals say beside their calls, in lines that are made by real runs."""

import base64
import hashlib
import json
import platform

import pytest

from knime_mcp.audit.journal import Journal
from knime_mcp.audit.journal_reading import LINES, OTHERS, SentCall, unknown_fields
from knime_mcp.audit.record import content_digests
from knime_mcp.audit.verdicts import Verdict
from knime_mcp.audit.verify import verify_file
from knime_mcp.client.protocol.tools import read_blocks
from knime_mcp.version import VERSION
from tests.audit.calls import record
from tests.support.files import json_lines

pytestmark = pytest.mark.quick


@pytest.mark.parametrize("kind", sorted(OTHERS - {"sent"}))
def test_every_kind_of_line_is_one_of_a_journal(kind, tmp_path):
    path = tmp_path / "r.jsonl"
    with Journal(path, run="r") as journal:
        journal.note(kind, dict.fromkeys(LINES[kind].keys() - {"run", "at"}))
    assert verify_file(path).verdict is Verdict.UNANCHORED


def test_every_line_has_known_fields_only(tmp_path):
    path = tmp_path / "r.jsonl"
    with Journal(path, run="r", what={"kind": "agent"}) as journal:
        journal.note("prompt", {"row": "Row0", "text": "how many?", "history": None})
        said = {"row": "Row0", "iteration": 1, "text": "", "calls": [], "usage": {}}
        journal.note("turn", said)
        journal.sent(SentCall(key="k", plan="p", tool_name="pay"))
        journal.append(record(1, key="k"))
        journal.note("answer", {"row": "Row0", "text": "3", "ending": "answer"})
    lines = json_lines(path)
    assert [line["kind"] for line in lines] == ["start", "prompt", "turn", "sent", "call", "answer", "end"]
    assert [unknown_fields(line) for line in lines] == [[]] * 7
    for line in lines:
        if line["kind"] != "call":
            assert LINES[line["kind"]].keys() == line.keys() - {"kind", "chain"}
    assert unknown_fields({**lines[1], "mood": "good"}) == ["mood"]


def test_the_start_says_who_and_what(tmp_path):
    path = tmp_path / "r.jsonl"
    Journal(path, run="r", what={"kind": "call"}).close()
    start = json_lines(path)[0]
    assert start["what"] == {"kind": "call"}
    assert start["who"]["machine"] == platform.node()
    assert start["who"]["product"] == f"knime-mcp {VERSION}"
    assert start["who"].keys() == {"user", "machine", "system", "product"}


PICTURE = base64.b64encode(b"\x89PNG one").decode()


@pytest.mark.parametrize(
    ("block", "digested", "more"),
    [
        ({"type": "text", "text": "ü"}, "ü".encode(), {"type": "text"}),
        (
            {"type": "image", "data": PICTURE, "mimeType": "image/png"},
            b"\x89PNG one",
            {"type": "image", "mime_type": "image/png", "size": 8},
        ),
        (
            {"type": "resource", "resource": {"uri": "a:b", "blob": PICTURE, "mimeType": "application/pdf"}},
            b"\x89PNG one",
            {"type": "resource", "mime_type": "application/pdf", "size": 8},
        ),
    ],
)
def test_each_block_has_its_digest(block, digested, more):
    (found,) = json.loads(content_digests(read_blocks(block), lambda value: value))
    assert found == {**more, "sha256": hashlib.sha256(digested).hexdigest()}


@pytest.mark.parametrize(
    "block", [{"type": "resource_link", "uri": "a:b", "name": "n"}, {"type": "new", "x": [1]}, "bare"]
)
def test_blocks_of_all_kinds_have_one(block):
    assert len(json.loads(content_digests(read_blocks(block), lambda value: value))) == 1


def test_a_secret_in_a_text_is_not_what_is_digested():
    (found,) = json.loads(content_digests(read_blocks({"type": "text", "text": "pw"}), lambda _: "mark"))
    assert found["sha256"] == hashlib.sha256(b"mark").hexdigest()
