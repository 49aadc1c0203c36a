"""Records, and which status an error gives."""

import json
import subprocess
import sys
from dataclasses import fields
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from knime_mcp.audit.record import CallRecord, CallStatus, status_of, utc_text
from knime_mcp.types import errors

ROOT = Path(__file__).parents[2]
TEXT = st.none() | st.text(st.characters(exclude_categories=["Cs"]))
RECORDS = st.builds(
    CallRecord,
    run=st.text("abc", min_size=1),
    call=st.integers(0, 9),
    iteration=st.none() | st.integers(0, 9),
    input_row=TEXT,
    tool_name=TEXT,
    arguments=TEXT,
    status=st.sampled_from(CallStatus),
    result=TEXT,
    structured_result=TEXT,
    error=TEXT,
    files=st.lists(st.text("abc/.", min_size=1), max_size=3).map(tuple),
    duration=st.none() | st.floats(0, 1e6),
    attempts=st.integers(0, 5),
)


@given(RECORDS)
def test_a_record_survives_json(record):
    assert CallRecord.from_json(record.to_json()) == record


def test_keys_of_later_versions_are_ignored():
    assert CallRecord.from_json({"run": "r", "status": "ok", "color": "x"}) == CallRecord(
        run="r", status=CallStatus.OK
    )


@pytest.mark.parametrize("data", [{}, {"run": "r"}, {"run": "r", "status": "fine"}, {"status": "ok"}])
def test_what_is_no_record_is_refused(data):
    with pytest.raises(ValueError):
        CallRecord.from_json(data)


def test_status_texts_are_the_contract():
    assert [status.value for status in CallStatus] == [
        "ok",
        "tool error",
        "invalid arguments",
        "not found",
        "denied",
        "failed",
        "outcome unknown",
        "canceled",
    ]


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (errors.ArgumentsInvalid("x", pointer="/a"), CallStatus.INVALID_ARGUMENTS),
        (errors.ToolNotFound("x"), CallStatus.NOT_FOUND),
        (errors.Canceled("x"), CallStatus.CANCELED),
        (errors.ConnectError("x", phase="tcp"), CallStatus.FAILED),
        (errors.ToolChanged("x"), CallStatus.FAILED),
        (errors.TimedOut("x", kind="idle"), CallStatus.FAILED),
        (errors.ResultTooLarge("x", limit=1), CallStatus.FAILED),
        (ZeroDivisionError(), CallStatus.FAILED),
    ],
)
def test_every_error_has_a_status(error, status):
    assert status_of(error) is status


def test_times_are_utc_with_microseconds():
    berlin = timezone(timedelta(hours=2))
    moment = datetime(2026, 7, 1, 12, 0, tzinfo=berlin)
    assert utc_text(moment) == "2026-07-01T10:00:00.000000Z"
    assert CallRecord(run="r", status=CallStatus.OK, started_at=utc_text(moment)).moment == moment.astimezone(
        UTC
    )


def test_records_are_frozen():
    record = CallRecord(run="r", status=CallStatus.OK)
    with pytest.raises(AttributeError):
        record.status = CallStatus.FAILED


ODD = [
    None,
    True,
    -1,
    1 << 40,
    0.5,
    float("inf"),
    float("nan"),
    "",
    "x",
    "\ud800",
    [],
    ["a"],
    [1],
    {},
    {"a": 1},
]


@pytest.mark.parametrize("name", [field.name for field in fields(CallRecord)])
def test_whatever_a_file_says_a_record_fits_into_tables(name):
    """A file may have been tampered with, or come from another program."""
    from knime_mcp.audit.calls_table import calls_table

    for value in ODD:
        data = {"run": "r", "status": "ok", "call": 1, name: value}
        try:
            record = CallRecord.from_json(data)
        except ValueError:
            continue
        again = CallRecord.from_json(json.loads(json.dumps(record.to_json())))
        assert again == record
        assert calls_table([record]).num_rows == 1
        assert hash(record)
        assert sorted([(record.run, record.call), ("r", 2)])


NEW_FIELD = """
import json, sys, types
kind, more, column = sys.argv[3:6]
values = json.loads(sys.argv[6])
from importlib.machinery import SourceFileLoader

class WithAnotherField(SourceFileLoader):
    def get_data(self, path):
        new = f'model: Annotated[{kind}, Recorded("The model.", "Model"{more})] = None'.encode()
        before, after = super().get_data(path).split(b"    tool_name:")
        return before + b"    " + new + b"\\n    tool_name:" + after
    def get_code(self, name):
        return compile(self.get_data(self.path), self.path, "exec", dont_inherit=True)

import knime_mcp.audit
from importlib.util import module_from_spec, spec_from_file_location
name, path = "knime_mcp.audit.record", f"{knime_mcp.audit.__path__[0]}/record.py"
spec = spec_from_file_location(name, path, loader=WithAnotherField(name, path))
sys.modules[name] = module_from_spec(spec)
spec.loader.exec_module(sys.modules[name])

from pathlib import Path
from knime_mcp.audit.record import chain_hash, link_of
from knime_mcp.audit.journal import Journal
from knime_mcp.audit.record import CallRecord, CallStatus
from knime_mcp.audit.calls_table import calls_table, read_calls, write_calls
from knime_mcp.audit.verify import verify_file
from knime_mcp.types.texts import canonical_json
folder, examples = map(Path, sys.argv[1:3])
with Journal(folder / "a.jsonl", run="r") as journal:
    written = journal.append(CallRecord(run="r", status=CallStatus.OK, model=values[0]))
lines = (folder / "a.jsonl").read_text().splitlines()
members = json.loads(lines[1])
del members["chain"]
assert canonical_json(members) == lines[1].rpartition(',"chain"')[0] + "}"
assert verify_file(folder / "a.jsonl").consistent
assert read_calls(folder / "a.jsonl") == [written]
assert str(calls_table([written]).schema.field("Model").type) == column
for ending in (".csv", ".parquet"):
    write_calls([written], folder / f"a{ending}")
    assert read_calls(folder / f"a{ending}") == [written]
    assert verify_file(folder / f"a{ending}").consistent
link = link_of(written.to_json() | {"model": values[1]}, "row 1")
assert chain_hash(link.previous, link.texts) != link.hash
assert all(verify_file(examples / f"what-the-agent-did{ending}").consistent for ending in (".jsonl", ".csv"))
print("as it should be")
"""


@pytest.mark.parametrize(
    ("kind", "more", "column", "values"),
    [
        ("str | None", "", "string", ["m1", "m2"]),
        ("float | None", ', "seconds"', "double", [5e-05, 0.5]),
        ("int | None", ', "count"', "int32", [3, 4]),
    ],
)
def test_a_new_field_stands_in_one_place(kind, more, column, values, tmp_path):
    """Journals, tables, hashes and checks know it; what was written before verifies as before."""
    asked = [str(tmp_path), str(ROOT / "examples" / "audit"), kind, more, column, json.dumps(values)]
    done = subprocess.run(
        [sys.executable, "-c", NEW_FIELD, *asked],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.stdout == "as it should be\n", done.stderr


def test_numbers_and_texts_of_a_file_are_numbers_and_texts():
    wrong = [("call", "1"), ("call", True), ("duration", "1"), ("result", 5), ("files", "ab"), ("run", None)]
    for name, value in wrong:
        with pytest.raises(ValueError, match=f"not a record of a call: '{name}' cannot be"):
            CallRecord.from_json({"run": "r", "status": "ok", name: value})
    assert CallRecord.from_json({"run": "r", "status": "ok", "duration": 1, "result": None}).duration == 1.0
