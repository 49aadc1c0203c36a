"""What is the same whoever makes the calls: order, one chain, no call left out, the replay."""

from knime_mcp.audit.verify import verify_file
from knime_mcp.runs.replay_decision import ReplayOptions
from knime_mcp.runs.replaying import Replayer, read_recording
from tests.support.noting import run


def test_rows_come_in_order_into_one_chain(server, workers, tmp_path):
    calls = [server.call(row=f"R{n}", text=f"t{n}", seconds=0.1 * (n % 3)) for n in range(12)]
    with workers.open_journal(tmp_path / "run.jsonl", about=""):
        found = [outcome.record for outcome in run(calls, workers, concurrency=4)]
    assert [record.input_row for record in found] == [f"R{n}" for n in range(12)]
    assert [record.result for record in found] == [f"noted t{n}" for n in range(12)]
    assert sorted(record.call for record in found) == list(range(1, 13))
    assert verify_file(tmp_path / "run.jsonl").consistent


def test_equal_rows_are_two_calls(server, workers):
    call = server.call(text="twice")
    assert [outcome.record.status for outcome in run([call, call], workers)] == ["ok"] * 2
    assert server.said("done twice") == 2


def test_a_replay_goes_to_the_workers(server, workers, tmp_path):
    file = tmp_path / "run.jsonl"
    with workers.open_journal(file, about=""):
        run([server.call("look", text=f"t{n}") for n in range(6)], workers)
    workers.records.journal = None
    replayer = Replayer(workers, ReplayOptions(concurrency=4))
    done = list(replayer.replay(read_recording(file).calls))
    assert [call.verdict.value for call in done] == ["same"] * 6
    assert server.said("done t3") == 2
