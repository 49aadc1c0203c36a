import json
import shlex
import signal
from decimal import Decimal

import openpyxl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from knime_mcp.audit.table_formats import read_parameters
from tests.support.files import csv_rows, json_lines
from tests.support.scripted_server import ScriptedServer, modern, rpc, text, tool


@pytest.fixture
def table(tmp_path):
    def write(text, name="p.csv"):
        (tmp_path / name).write_text(text, encoding="utf-8")
        return name

    return write


def test_one_call_per_row_in_order(cli, server, table, tmp_path):
    done = cli("batch", server.url, "add", table("a,b\n1,2\n3,4\n"), "--out", "r.csv")
    assert done.code == 0
    assert [row["Result"] for row in csv_rows(tmp_path / "r.csv")] == ["3", "7"]
    assert "2 of 2" in done.err


def test_a_bad_row_is_a_row(cli, server, table, tmp_path):
    done = cli("batch", server.url, "echo", table("text,times\na,1\nb,many\nc,\n"), "--out", "r.csv")
    assert done.code == 1
    rows = csv_rows(tmp_path / "r.csv")
    assert [row["Status"] for row in rows] == ["ok", "invalid arguments", "ok"]
    assert list(rows[0]) == ["text", "times", "Result", "Status", "Error"]
    assert "times" in rows[1]["Error"]
    assert "1 of 3 calls failed" in done.err


def test_the_whole_error_is_readable_on_the_terminal_once_for_all_its_rows(cli, server, table):
    done = cli("batch", server.url, "echo", table("text,times\na,many\nb,1\nc,many\nd,few\n"))
    below = [line for line in done.out.splitlines() if line.startswith("row")]
    assert [line.partition(": ")[0] for line in below] == ["rows 1, 3", "row 4"]
    assert all("/times must be" in line for line in below)
    assert all(line.endswith("; nothing was sent. [KMCP-ARGUMENTS]") for line in below)


def test_of_a_very_long_error_of_a_tool_the_beginning_is_shown(cli, table):
    script = modern(tools__call=rpc(text("no  " * 100_000, isError=True, resultType="complete")))
    with ScriptedServer(script) as server:
        done = cli("batch", server.url, "echo", table("x\na\nb\n"))
    (row,) = [line for line in done.out.splitlines() if line.lstrip().startswith("2 ")]
    assert row.rstrip().endswith("no…")
    (below,) = [line for line in done.out.splitlines() if line.startswith("rows 1, 2: ")]
    assert len(below) < 101_000
    assert below.endswith("characters in all)")


def test_cells_keep_what_the_schema_wants(cli, server, table):
    done = cli("batch", server.url, "show", table('code,tags,strict,other\n007,"[""x""]",true,z\n'), "--json")
    assert done.json[0]["arguments"] == {"code": "007", "tags": ["x"], "strict": True}
    assert "other" in done.err


def test_arguments_from_a_json_column(cli, server, tmp_path):
    pq.write_table(pa.table({"j": ['{"a": 1, "b": 1}', '{"a": "x"}'], "k": [1, 2]}), tmp_path / "p.parquet")
    done = cli("batch", server.url, "add", "p.parquet", "--arguments-column", "j", "--out", "r.parquet")
    assert done.code == 1
    found = pq.read_table(tmp_path / "r.parquet")
    assert found["Status"].to_pylist() == ["ok", "invalid arguments"]
    assert found["k"].to_pylist() == [1, 2]


def test_results_as_json_lines_are_a_table_of_parameters_again(cli, server, table, tmp_path):
    assert cli("batch", server.url, "show", table("code\n007\n008\n"), "--out", "one.jsonl").code == 0
    first = json_lines(tmp_path / "one.jsonl")
    assert [row["Status"] for row in first] == ["ok"] * len(first)
    assert cli("batch", server.url, "show", "one.jsonl", "--out", "two.jsonl").code == 0
    assert [row["Result"] for row in json_lines(tmp_path / "two.jsonl")] == [row["Result"] for row in first]


def test_types_of_parquet_that_json_and_csv_do_not_have(cli, server, tmp_path):
    """Prices are decimals there; bytes beside them are no reason to lose the results."""
    prices = pa.array([Decimal("2.00"), Decimal("3.00")], pa.decimal128(9, 2))
    columns = {"code": prices, "strict": [True, None], "raw": [b"\x00\xff", b"text"], "l": [[1], None]}
    pq.write_table(pa.table(columns), tmp_path / "p.parquet")
    done = cli("batch", server.url, "show", "p.parquet", "--out", "r.csv", "--all-columns")
    assert done.code == 0, done.err
    found = csv_rows(tmp_path / "r.csv")
    assert [json.loads(row["Structured result"])["code"] for row in found] == ["2.00", "3.00"]
    assert [(row["raw"], row["l"]) for row in found] == [("\0\\xff", "[1]"), ("text", "")]
    pq.write_table(pa.table({"a": prices, "b": [1.0, 2.0]}), tmp_path / "p.parquet")
    assert [record["result"] for record in cli("batch", server.url, "add", "p.parquet", "--json").json] == [
        "3",
        "5",
    ]


def test_stops_at_the_first_failure_if_asked(cli, server, table, tmp_path):
    done = cli(
        "batch",
        server.url,
        "fail",
        table("why\na\nb\n"),
        "--on-error",
        "fail",
        "--concurrency",
        "1",
        "--out",
        "r.csv",
    )
    assert done.code == 1
    assert "row 1: " in done.err
    assert "It went wrong: a" in done.err
    assert "1 of 2 calls not made" in done.err
    assert [row["Status"] for row in csv_rows(tmp_path / "r.csv")] == ["tool error", "canceled"]


def test_ctrl_c_keeps_finished_rows_and_resume_skips_them(cli, server, table, tmp_path, until):
    table("seconds,label\n0,r1\n0,r2\n60,r3\n0,r4\n")
    options = ("p.csv", "--concurrency", "1", "--audit", "run.jsonl")
    process = cli.start("batch", server.url, "slow", *options, "--out", "r.csv")
    until(lambda: "started r3" in server.said(), "the third call began")
    process.send_signal(signal.SIGINT)
    done = cli.finish(process)
    assert done.code == 3
    assert [row["Status"] for row in csv_rows(tmp_path / "r.csv")] == ["ok", "ok", "canceled", "canceled"]
    assert "--resume" in done.err

    table("seconds,label\n0,r1\n0,r2\n0.1,r3\n0,r4\n")
    before = len(server.said())
    done = cli(
        "batch", server.url, "slow", "p.csv", "--resume", "run.jsonl", "--concurrency", "1", "--out", "r2.csv"
    )
    assert done.code == 0
    assert "got no result: slow (row 3); if they are made again" in " ".join(done.err.split())
    assert [row["Status"] for row in csv_rows(tmp_path / "r2.csv")] == ["ok"] * 4
    assert [line for line in server.said()[before:] if line.startswith("started")] == [
        "started r3",
        "started r4",
    ]


def test_audit_is_a_line_per_call(cli, server, table, tmp_path):
    cli("batch", server.url, "echo", table("text\na\nb\n"), "--audit", "a.jsonl")
    lines = json_lines(tmp_path / "a.jsonl")
    kinds = [line["kind"] for line in lines if line["kind"] != "sent"]
    assert kinds == ["start", "call", "call", "end"]


def test_a_table_without_rows_makes_no_call(cli, server, table):
    done = cli("batch", server.url, "echo", table("text\n"), "--json")
    assert (done.code, done.json) == (0, [])


def test_a_table_that_is_not_there_is_named(cli, server):
    done = cli("batch", server.url, "echo", "nowhere.csv")
    assert done.code in (1, 2)
    assert "nowhere.csv" in done.err


def test_unknown_arguments_column_names_the_columns(cli, server, table):
    done = cli("batch", server.url, "echo", table("text,b\na,b\n"), "--arguments-column", "txet")
    assert done.code == 2
    assert "text, b" in done.err


def test_an_altered_journal_is_not_resumed(cli, server, table, tmp_path):
    done = cli("batch", server.url, "echo", table("text\na\nb\n"), "--audit", "a.jsonl", "--out", "r.csv")
    assert done.code == 0
    whole = (tmp_path / "a.jsonl").read_text("utf-8")
    (tmp_path / "a.jsonl").write_text(whole.replace('"result":"a"', '"result":"c"'), "utf-8")
    before = server.said()
    done = cli("batch", server.url, "echo", "p.csv", "--resume", "a.jsonl", "--out", "r2.csv")
    assert done.code == 1
    assert "Nothing is taken from the journal a.jsonl" in done.err
    assert "Restore the file; or leave out --resume" in done.err
    assert server.said() == before
    assert not (tmp_path / "r2.csv").exists()


def test_a_journal_of_other_calls_gives_none(cli, server, table):
    assert cli("batch", server.url, "echo", table("text\na\n"), "--audit", "a.jsonl").code == 0
    done = cli("batch", server.url, "show", table("code\na\n"), "--resume", "a.jsonl")
    assert done.code == 0
    assert "0 of 1 call taken from a.jsonl" in done.err


def test_rows_without_columns_are_calls_without_arguments(cli, server, table, tmp_path):
    done = cli("batch", server.url, "picture", table("{}\n{}\n", "p.jsonl"), "--out", "r.csv")
    assert done.code == 0, done.err
    assert [row["Status"] for row in csv_rows(tmp_path / "r.csv")] == ["ok", "ok"]


def test_calls_in_flight_are_in_the_journal_whatever_ends_the_run(cli, server, table, tmp_path):
    """A server may have done what it was asked, although there is no room for results."""
    rows = "".join(f"{10 * (number > 512)},flying-{number}\n" for number in range(520))
    (tmp_path / "full.csv").symlink_to("/dev/full")
    words = ("--concurrency", "8", "--audit", "run.jsonl", "--out", "full.csv")
    done = cli("batch", server.url, "slow", table(f"seconds,label\n{rows}"), *words)
    assert done.code == 1
    started = {line.removeprefix("started ") for line in server.said() if line.startswith("started flying-")}
    lines = json_lines(tmp_path / "run.jsonl")
    kept = {json.loads(line["arguments"])["label"] for line in lines if line["kind"] == "call"}
    assert started <= kept
    assert lines[-1]["kind"] == "end"


def test_columns_that_only_a_pattern_knows_are_sent_with_its_types(cli, table):
    schema = {"type": "object", "patternProperties": {"^n_": {"type": "integer"}}}
    with ScriptedServer(modern(tools__list=rpc({"tools": [tool(inputSchema=schema)]}))) as scripted:
        done = cli("batch", scripted.url, "echo", table("n_one,other\n1,x\n"), "--json")
        assert done.code == 0, done.err
        assert "not sent: other" in done.err
        done = cli("call", scripted.url, "echo", "n_two=2")
        assert (done.code, done.err) == (0, "")
        assert [request.params["arguments"] for request in scripted.named("tools/call")] == [
            {"n_one": 1},
            {"n_two": 2},
        ]


def test_a_row_with_a_date_beyond_pythons_is_a_row(cli, server, tmp_path):
    """The same dates in lists, and times of a zone that this machine does not know, lose no results."""
    dates = pa.array([10**15, 0], pa.timestamp("s"))
    odd = {
        "text": dates,
        "id": pa.array([b"0" * 16] * 2, pa.uuid()),
        "inner": pa.array([[10**15], [0]], pa.list_(pa.timestamp("s"))),
        "zone": pa.array([0, 1], pa.timestamp("s", "Mars/Olympus")),
    }
    pq.write_table(pa.table(odd), tmp_path / "p.parquet", store_schema=True)
    done = cli("batch", server.url, "echo", "p.parquet", "--out", "r.csv")
    assert done.code == 1, done.err
    rows = csv_rows(tmp_path / "r.csv")
    assert [row["Status"] for row in rows] == ["invalid arguments", "ok"]
    assert "Convert the column to text or numbers" in rows[0]["Error"]
    assert [row["inner"] for row in rows] == ["<value out of range>", '["1970-01-01T00:00:00"]']
    assert rows[1]["zone"] == "1970-01-01 00:00:01.000Z"


def test_constants_are_arguments_of_every_call_and_columns_win(cli, server, tmp_path):
    table = tmp_path / "numbers.csv"
    table.write_text("a,b\n1,2\n3,\n")
    done = cli("batch", server.url, "add", table, "b=40", "--json")
    assert [record["result"] for record in done.json] == ["3", "43"]
    done = cli("batch", server.url, "add", table, "b:=40", "b=41")
    assert (done.code, "given 2 times" in done.err) == (2, True)


@pytest.mark.parametrize("ending", [".csv", ".json"])
def test_a_column_may_be_called_differently(cli, server, tmp_path, ending):
    table = tmp_path / f"numbers{ending}"
    table.write_text("first,b\n1,2\n" if ending == ".csv" else '[{"first": 1, "b": 2}]')
    assert cli("batch", server.url, "add", table, "--column", "a=first", "--json").json[0]["result"] == "3"
    missing = cli("batch", server.url, "add", table, "--column", "a=frist")
    assert (missing.code, "first, b" in missing.err) == (2, True)
    taken = cli("batch", server.url, "add", table, "--column", "b=first")
    assert (taken.code, "'b' already" in taken.err) == (2, True)


def test_numbers_with_a_decimal_comma_are_read_on_request_and_hinted_at(cli, server, tmp_path):
    table = tmp_path / "zahlen.csv"
    numbers = ("1.234,0", "1 234,0", "1\u00a0234,0", "1\u202f234,0", "1'234,0", "1234,0", "+1234,0")
    for number in numbers:
        table.write_text(f"a;b;text\n{number};-2;1,5\n", encoding="utf-8")
        hinted = cli("batch", server.url, "add", table)
        assert (hinted.code, "in row 1. Add --decimal-comma" in hinted.err) == (2, True), number
        done = cli("batch", server.url, "add", table, "--decimal-comma", "--json")
        assert done.json[0]["arguments"] == {"a": 1234, "b": -2}, number
    echoed = cli("batch", server.url, "echo", table, "--decimal-comma", "--json")
    assert echoed.json[0]["arguments"] == {"text": "1,5"}


def test_results_without_records_are_said_to_be_that(cli, table):
    words = rpc({"content": [{"type": "text", "text": "no rows here"}]})
    listed = rpc({"tools": [tool("say", inputSchema={"type": "object"})]})
    with ScriptedServer(modern(tools__list=listed, tools__call=words)) as server:
        done = cli("batch", server.url, "say", table("q\na\n"), "--records", "r.jsonl")
    assert done.code == 0, done.err
    assert "No result has records, so r.jsonl has no rows" in done.err


def test_records_of_the_results_are_a_table(cli, table, tmp_path):
    rows = rpc({"content": [{"type": "text", "text": '[{"id": 1, "on": "2026-01-31"}, {"id": 2.5}]'}]})
    listed = rpc({"tools": [tool("rows", inputSchema={"type": "object"})]})
    with ScriptedServer(modern(tools__list=listed, tools__call=rows)) as server:
        done = cli(
            "batch", server.url, "rows", table("q\na\nb\n"), "--records", "r.parquet", "--out", "o.csv"
        )
    assert done.code == 0, done.err
    found = pq.read_table(tmp_path / "r.parquet")
    assert found["Input row"].to_pylist() == ["1", "1", "2", "2"]
    assert found["id"].to_pylist() == [1.0, 2.5] * 2
    assert str(found.schema.field("on").type) == "date32[day]"
    assert "Wrote the records to r.parquet" in done.err
    assert cli("batch", "http://h/mcp", "rows", table("q\na\n"), "--records", "r.txt").code == 2


def a_tool(properties, answer="ok", *, required=()):
    """A server with one tool, and what it gives for any call."""
    schema = {"type": "object", "properties": properties, "required": list(required)}
    words = answer if isinstance(answer, dict) else {"content": [{"type": "text", "text": answer}]}
    listed = rpc({"tools": [tool("pay", inputSchema=schema)]})
    return ScriptedServer(modern(tools__list=listed, tools__call=rpc(words)))


def rows_in(file):
    return list(read_parameters(file, ()).rows())


def sent_to(server):
    calls = [request.params.get("arguments", {}) for request in server.named("tools/call")]
    return sorted(calls, key=json.dumps)


PAYMENT = {"to": {"type": "string"}, "amount": {"type": "number"}}


def test_what_is_going_to_be_sent_is_said_before_the_first_call(cli, table):
    rows = "Payments;May\n\nTo;amount;remark\na;1.5;x\n;;\nb;2;\nc;3;\nd;4;\n"
    with a_tool(PAYMENT) as server:
        done = cli("batch", server.url, "pay", table(rows), "--dry-run")
        assert (done.code, sent_to(server)) == (0, [])
    assert done.err.splitlines() == [
        "p.csv: separated by semicolons, UTF-8, names in line 3, 4 of 5 rows",
        '  to <- To: "a", "b", "c"',
        "  amount: 1.5, 2, 3",
        "not sent: remark",
        "left out, as they have no value: row 2",
    ]


def test_secrets_in_a_table_are_not_said(cli, table):
    with a_tool({"password": {"type": "string"}}) as server:
        done = cli("batch", server.url, "pay", table("password\nhunter2\n"), "--dry-run")
    assert "  password: " in done.err
    assert "hunter2" not in done.err


def test_a_limit_makes_the_calls_of_the_first_rows_and_resume_the_others(cli, table):
    words = (table("to,amount\na,1\n,\nb,2\nc,3\n"), "--audit", "a.jsonl")
    with a_tool(PAYMENT) as server:
        assert cli("batch", server.url, "pay", *words, "--limit", "2").code == 0
        assert [call["to"] for call in sent_to(server)] == ["a", "b"]
        done = cli("batch", server.url, "pay", words[0], "--resume", "a.jsonl", "--out", "r.jsonl")
        assert done.code == 0, done.err
        assert [call["to"] for call in sent_to(server)] == ["a", "b", "c"]


def test_the_failed_rows_of_a_result_can_be_called_again(cli, server, table, tmp_path):
    done = cli("batch", server.url, "echo", table("text,times\na,1\nb,many\n"), "--out", "r.csv")
    assert f"call them again: knime-mcp batch {server.url} echo r.csv --out r-2.csv --only-failed" in done.err
    text = (tmp_path / "r.csv").read_text("utf-8")
    (tmp_path / "r.csv").write_text(text.replace("many", "2"), "utf-8")
    done = cli("batch", server.url, "echo", "r.csv", "--only-failed", "--json")
    assert [record["arguments"] for record in done.json] == [{"text": "b", "times": 2}]
    missing = cli("batch", server.url, "echo", "p.csv", "--only-failed")
    assert (missing.code, "no column 'Status'" in missing.err) == (2, True)
    table("text,Result,Status,Error\na,,done,\nb,,,\n")
    said = len(server.said())
    strange = cli("batch", server.url, "echo", "p.csv", "--only-failed", "--limit", "1")
    assert strange.code == 0, strange.err
    table("text,Result,Status,Error\nb,,,\na,,done,\n")
    strange = cli("batch", server.url, "echo", "p.csv", "--only-failed", "--limit", "1")
    assert (strange.code, "Status cannot be read in row 2: 'done'" in strange.err) == (1, True)
    assert len(server.said()) == said + 1


@pytest.mark.parametrize(
    ("ending", "options"),
    [
        *((ending, []) for ending in (".csv", ".xlsx", ".parquet", ".jsonl")),
        *((ending, ["--all-columns"]) for ending in (".csv", ".xlsx")),
    ],
)
def test_what_was_called_again_stands_in_its_place_of_the_whole_sheet(cli, table, tmp_path, ending, options):
    """As it would have come if no call had failed the first time; nothing that was right is called."""

    def paid(request):
        given = request.params["arguments"]
        if given["amount"] in failing:
            return rpc(text("broke", isError=True, resultType="complete"))(request)
        gave = {
            "id": given["amount"] * 1.5,
            "to": given["to"],
            "tags": ["x", given["to"]],
            "on": "2026-01-31",
        }
        return rpc({"content": [], "structuredContent": gave, "resultType": "complete"})(request)

    schema = {"type": "object", "properties": PAYMENT, "required": ["to", "amount"]}
    listed = rpc({"tools": [tool("pay", inputSchema=schema)]})
    # The last column looks as if a tool had given it: it is empty where calls fail.
    rows = "".join(
        f"0{number},{number},note {number},old,{'' if number in (2, 3, 7) else f'{number}.50'}\n"
        for number in range(1, 8)
    )
    table(f"to,amount,Server,Result,price\n{rows}")
    one, two, three, right = (tmp_path / f"{name}{ending}" for name in ("one", "two", "three", "right"))
    with ScriptedServer(modern(tools__list=listed, tools__call=paid)) as server:
        failing = {2, 3, 7}
        cli("batch", server.url, "pay", "p.csv", "--out", one, *options)
        failing = {7}
        done = cli("batch", server.url, "pay", one, "--only-failed", "--limit", "1", "--out", two, *options)
        assert done.code == 0, done.err
        assert "Wrote 7 rows" in done.err
        assert "5 of 7 rows have a result now" in done.err
        done = cli("batch", server.url, "pay", two, "--only-failed", "--out", three, *options)
        assert "6 of 7 rows have a result now" in done.err
        failing, made = set(), len(server.named("tools/call"))
        assert made == 7 + 1 + 2
        done = cli("batch", server.url, "pay", three, "--only-failed", "--out", two, *options)
        assert "7 of 7 rows have a result now" in done.err
        cli("batch", server.url, "pay", "p.csv", "--out", right, *options)
    times = {"Started at", "Duration (s)", "Input row"}
    found, wanted = (
        [{name: value for name, value in row.items() if name not in times} for row in rows_in(file)]
        for file in (two, right)
    )
    assert found == wanted


def test_a_table_of_which_nothing_is_sent_makes_no_call(cli, table):
    with a_tool(PAYMENT) as server:
        done = cli("batch", server.url, "pay", table("empfaenger,betrag\na,1\n"))
        assert (done.code, sent_to(server)) == (2, [])
    words = (
        "None of the columns 'empfaenger', 'betrag' is called like a parameter of the tool pay: to, amount"
    )
    assert words in done.err
    assert "--column PARAMETER=COLUMN" in done.err


def test_a_row_without_an_argument_is_no_call_without_arguments(cli, table):
    with a_tool(PAYMENT) as server:
        done = cli("batch", server.url, "pay", table("to,amount,remark\na,1,\n,,total\n"), "--json")
        assert (done.code, sent_to(server)) == (1, [{"to": "a", "amount": 1}])
    assert done.json[1]["status"] == "invalid arguments"
    assert "The row has no argument for the tool" in done.json[1]["error"]


def test_a_point_that_may_separate_thousands_is_noted_before_the_first_call(cli, table):
    with a_tool(PAYMENT) as server:
        done = cli("batch", server.url, "pay", table("to;amount\na;1.000\nb;2.5\n"), "--dry-run")
        assert "'amount' are read with a decimal point, though it may separate thousands: 1.000 in row 1" in (
            " ".join(done.err.split())
        )
        table("to;amount\na;1.000\nb;2\n")
        done = cli("batch", server.url, "pay", "p.csv", "--decimal-comma", "--dry-run")
        assert "  amount: 1000, 2" in done.err
        assert "thousands" not in done.err


@pytest.mark.parametrize(
    ("numbers", "named"),
    [
        (("1.234", "12.5"), ("12.5 in row 2", "1.234 in row 1")),
        (("12.5", "7", "3,5"), ("12.5 in row 1", "3,5 in row 3")),
        (("-.5", "1.234.567"), ("-.5 in row 1", "1.234.567 in row 2")),
        (("0.125", "1.000"), ("0.125 in row 1", "1.000 in row 2")),
    ],
)
def test_a_column_with_decimal_points_and_commas_is_refused_before_the_first_call(cli, table, numbers, named):
    """One of both would be read as another number: 1.234 as 1234, beside 12.5."""
    rows = "".join(f"a;{number}\n" for number in numbers)
    with a_tool(PAYMENT) as server:
        done = cli("batch", server.url, "pay", table(f"to;amount\n{rows}"), "--decimal-comma")
        assert (done.code, sent_to(server)) == (2, [])
    said = " ".join(done.err.split())
    assert f"has numbers with a decimal point, such as {named[0]}, and others with a comma" in said
    assert f"such as {named[1]}. Write all of them in one way." in said


def test_results_are_the_input_then_what_the_tool_gave_then_how_it_ended(cli, table, tmp_path):
    gave = {"content": [], "structuredContent": {"Status": "new", "amount": 5.5, "id": 7, "on": "2026-01-31"}}
    with a_tool(PAYMENT, gave) as server:
        done = cli(
            "batch", server.url, "pay", table("to,amount,Result\na,1,x\nb,no,y\n"), "--out", "r.parquet"
        )
    assert done.code == 1
    found = pq.read_table(tmp_path / "r.parquet")
    assert found.column_names == [
        *("to", "amount", "Result (input)"),
        *("Status (result)", "amount (result)", "id", "on"),
        *("Result", "Status", "Error"),
    ]
    assert found["id"].to_pylist() == [7, None]
    assert str(found.schema.field("on").type) == "date32[day]"
    assert found["Status"].to_pylist() == ["ok", "invalid arguments"]


def test_several_records_of_a_call_are_no_columns_and_it_is_said(cli, table, tmp_path):
    with a_tool(PAYMENT, '[{"id": 1}, {"id": 2}]') as server:
        done = cli("batch", server.url, "pay", table("to\na\n"), "--out", "r.csv")
    assert list(csv_rows(tmp_path / "r.csv")[0]) == ["to", "Result", "Status", "Error"]
    assert "1 call gave several records; --records FILE writes them as rows" in done.err


def test_what_failed_is_called_again_with_what_was_sent(cli, server, tmp_path):
    """Ids of a sheet are text and numbers: the second time they are what they were the first time."""
    rows = [("label", "Zeit"), ("00123", 0), (4711, 0), ("ja", "x")]
    book = openpyxl.Workbook()
    for row in rows:
        book.active.append(row)
    book.save(tmp_path / "p.xlsx")
    first = cli("batch", server.url, "slow", "p.xlsx", "--column", "seconds=Zeit", "--out", "r.xlsx")
    again = next(line for line in first.err.splitlines() if "--only-failed" in line).partition("again: ")[2]
    sheet = openpyxl.load_workbook(tmp_path / "r.xlsx").active
    assert [cell.value for cell in sheet["A"][1:]] == ["00123", "4711", "ja"]
    second = cli(*shlex.split(again)[1:], "--dry-run")
    assert second.code == 0, second.err
    assert 'label: "ja"' in second.err


@pytest.mark.parametrize("words", ["words,more", "more,words"])
@pytest.mark.parametrize("answer", ["text", "schema", "unknown"])
def test_a_result_comes_into_no_column_of_the_input(cli, table, tmp_path, words, answer):
    output = {"type": "object", "required": ["words"]} if answer == "schema" else None
    listed = rpc({"tools": [tool("pay", inputSchema={"properties": PAYMENT}, outputSchema=output)]})

    def paid(request):
        given = request.params["arguments"]
        if given["to"] == "bad":
            return rpc(text("broke", isError=True, resultType="complete"))(request)
        gave = {"to": given["to"], "words": 121}
        shown = json.dumps(gave) if answer == "text" else "Done."
        return rpc(text(shown, structuredContent=gave, resultType="complete"))(request)

    with ScriptedServer(modern(tools__list=listed, tools__call=paid)) as server:
        cli("batch", server.url, "pay", table(f"to,{words}\ngood,719,1\nbad,,\n"), "--out", "w1.csv")
        first = (tmp_path / "w1.csv").read_text("utf-8")
        table(first.replace("bad", "mended"), "w1.csv")
        done = cli("batch", server.url, "pay", "w1.csv", "--only-failed", "--out", "w2.csv")
        assert done.code == 0, done.err
    before, after = csv_rows(tmp_path / "w1.csv"), csv_rows(tmp_path / "w2.csv")
    assert (after[1]["words"], after[1]["more"]) == ("", "")
    assert before[0].items() <= after[0].items()
    assert list(after[0]) == list(before[0])
    assert (after[1]["to (result)"], after[1]["words (result)"]) == ("mended", "121")


def test_what_the_tool_gives_for_the_first_time_is_in_no_column_of_the_input(cli, server, table, tmp_path):
    cli("batch", server.url, "add", table("a,b,result\n1,x,\n2,y,\n"), "--out", "w1.csv")
    table((tmp_path / "w1.csv").read_text("utf-8").replace("x", "3"), "w1.csv")
    cli("batch", server.url, "add", "w1.csv", "--only-failed", "--out", "w2.csv")
    assert [row["result"] for row in csv_rows(tmp_path / "w2.csv")] == ["", ""]


def test_how_to_call_failed_rows_again_is_said_where_it_works(cli, server, table, tmp_path):
    typed = ("batch", server.url, "add", table("a,b\n1,x\n"))
    assert "--only-failed" not in cli(*typed, "--out", "r.json").err
    assert "add r.csv --out r-2.csv --only-failed\n" in cli(*typed, "--out=r.csv", "--records", "l.csv").err
    done = cli("batch", server.url, "add", "r.csv", "--out", "r-2.csv", "--only-failed")
    assert "add r-2.csv --out r-3.csv --only-failed\n" in done.err


@pytest.mark.parametrize("options", [[], ["--all-columns"]])
def test_a_sheet_is_written_anew_with_the_columns_that_it_has(cli, server, table, options):
    cli("batch", server.url, "add", table("a,b\n1,x\n1,2\n"), "--out", "r.csv", *options)
    other = [] if options else ["--all-columns"]
    said = len(server.said())
    done = cli("batch", server.url, "add", "r.csv", "--only-failed", "--out", "s.csv", *other)
    assert (done.code, "Add --all-columns" in done.err) == (2, bool(options))
    assert len(server.said()) == said
