"""The chain: what is hashed, frozen; and that no change of any field stays hidden."""

import hashlib
import json
from dataclasses import replace

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from knime_mcp.audit.calls_table import COLUMNS
from knime_mcp.audit.record import (
    FIELDS,
    HASHED,
    CallStatus,
    Link,
    chain_hash,
    chained,
    line_of,
    link_of,
    simple_json,
)
from knime_mcp.types.texts import canonical_json
from knime_mcp.types.tool import MCPTool, to_json_text
from tests.audit.calls import FLOW, SEARCH, record

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)


def test_the_hash_is_frozen():
    """Changing this makes every journal that exists unverifiable; a further field, None here, does not."""
    first = chained(record(1), "", call=1)
    second = chained(record(2), first.hash, call=2)
    texts = {
        "arguments": second.arguments,
        "attempts": "1",
        "call": "2",
        "digest": "sha256:" + "ab" * 32,
        "duration": "12345.678901",
        "input_row": "Row2",
        "protocol": "2025-11-25",
        "result": "5",
        "run": "r1",
        "server": "https://host.example/mcp",
        "server_version": "1.0",
        "started_at": "2026-01-31T12:00:02.000120Z",
        "status": "ok",
        "tool": second.tool,
        "tool_name": "search",
        "tool_type": "mcp",
    }
    written = json.dumps(texts, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    expected = hashlib.sha256(f"{first.hash}\n{written}".encode()).hexdigest()
    assert second.hash == f"sha256:{expected}"
    assert (first.previous_hash, second.previous_hash) == (None, first.hash)
    assert first.hash == "sha256:b5aba4e770ba35f4941f0a77e34dbe843db1892ed986aa8a426f2ec8b142b77c"


def test_the_chain_covers_the_table_and_all_but_paths_and_origin():
    assert set(HASHED) == {"tool"} | {attribute for _, attribute, _ in COLUMNS} - {"previous_hash", "hash"}
    assert FIELDS.keys() - set(HASHED) == {
        *("files", "image", "resumed_from", "key"),
        *("previous_hash", "hash"),
    }


@given(st.sampled_from(HASHED), TEXT)
def test_every_change_of_a_field_changes_the_hash(name, text):
    link = link_of(chained(record(1), "", call=1).to_json(), "line 1")
    assume(link.texts.get(name, "") != text)
    changed = {key: value for key, value in {**link.texts, name: text}.items() if value}
    assert chain_hash(link.previous, changed) != link.hash
    assert chain_hash("x", link.texts) != link.hash


@given(st.dictionaries(st.sampled_from(HASHED), TEXT), st.dictionaries(st.sampled_from(HASHED), TEXT))
def test_different_records_have_different_hashes(one, other):
    kept = [{key: value for key, value in values.items() if value} for values in (one, other)]
    assert (chain_hash("", kept[0]) == chain_hash("", kept[1])) == (kept[0] == kept[1])


@given(st.floats(0, 1e9), st.integers(0, 99), st.none() | TEXT)
def test_a_record_that_went_through_json_has_the_same_hash(duration, iteration, result):
    written = chained(record(1, duration=duration, iteration=iteration, result=result), "p", call=1)
    link = link_of(json.loads(json.dumps(written.to_json())), "line 1")
    assert chain_hash(link.previous, link.texts) == link.hash == written.hash


ANY_TEXT = st.text(max_size=9) | st.sampled_from(["", '"\\\x00\n', "half \ud83d", "\ude00", "ü\u2028"])


@given(
    st.fixed_dictionaries(
        {"result": st.none() | ANY_TEXT, "server_version": st.none() | ANY_TEXT, "error": ANY_TEXT},
        optional={
            "duration": st.floats(0, 1e9) | st.integers(0, 9),
            "iteration": st.integers(0, 99),
            "arguments": ANY_TEXT | st.just("long" * 2_000),
            "input_row": ANY_TEXT,
            "files": st.lists(ANY_TEXT, max_size=2).map(tuple),
            "resumed_from": ANY_TEXT,
            "tool": st.sampled_from(["", "no json", '{"workflow_filestore":"a","b":"ü"}']),
        },
    ),
    st.sampled_from(["", "sha256:0", 'a "quoted" one']),
)
def test_the_line_of_a_record_is_its_canonical_json_and_has_the_hash_that_is_checked(values, previous):
    written = chained(record(1, **values), previous, call=7)
    assert line_of(written).decode() == canonical_json({"kind": "call", **written.to_json()})
    link = link_of(written.to_json(), "line 1")
    assert (link.call, link.previous) == (7, previous)
    assert chain_hash(link.previous, link.texts) == link.hash


def test_each_character_is_written_as_in_canonical_json():
    characters = "".join(chr(n) for n in range(0x110000) if not 0xD800 <= n < 0xE000)
    value = {"b": ["", characters, 0, -1, 2**40, None], "a": characters, "é": True, "😀": 0.25, "\uffff": {}}
    assert simple_json(value).decode() == canonical_json(value)


def test_lone_surrogates_are_hashed_as_they_are_written():
    one = chained(record(1, result="half \ud83d"), "", call=1)
    assert one.hash == chained(record(1, result="half \ufffd"), "", call=1).hash


@pytest.mark.parametrize("call", ["", "x", "-1", "1.5", "¹", "9" * 30])
def test_a_number_that_is_none(call):
    assert Link({"call": call}, "", "", "line 1").call is None


def test_the_text_of_a_tool_is_made_once_and_is_its_own():
    swapped = {"type": "object", "properties": {"a": {"type": "integer"}, "z": {"type": "string"}}}
    same = MCPTool(
        name=SEARCH.name,
        description=SEARCH.description,
        parameter_schema=swapped,
        server_uri=SEARCH.server_uri,
        tool_name=SEARCH.tool_name,
        annotations=SEARCH.annotations,
    )
    assert same == SEARCH
    for tool in (SEARCH, same, FLOW, replace(SEARCH, name="other")):
        assert to_json_text(tool) is to_json_text(tool)
    assert to_json_text(same) != to_json_text(SEARCH)


def test_status_is_hashed_as_its_text():
    texts = link_of({"status": CallStatus.TOOL_ERROR.value}, "").texts
    assert texts == {"status": "tool error"}
    assert (
        chained(record(3), "", call=1).hash
        == chained(record(3, status=CallStatus.TOOL_ERROR), "", call=1).hash
    )


def test_a_workflows_file_store_may_get_another_key():
    """KNIME gives it a new one when a workflow is exported or copied."""
    moved = replace(FLOW, filestore_keys="another-key")
    one, other = (
        chained(replace(record(1), tool=to_json_text(tool), tool_type="workflow"), "", call=1)
        for tool in (FLOW, moved)
    )
    assert one.tool != other.tool
    assert one.hash == other.hash
    renamed = chained(replace(record(1), tool=to_json_text(replace(FLOW, name="other"))), "", call=1)
    assert renamed.hash != one.hash


@pytest.mark.parametrize(
    "text", ['"workflow_filestore":"', '["workflow_filestore":"x"]', '{"workflow_filestore":"a"']
)
def test_a_tool_that_is_no_json_is_hashed_as_it_stands(text):
    link = link_of({"run": "r", "tool": text}, "row 1")
    assert link.texts["tool"] == text
