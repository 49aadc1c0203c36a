"""Many prompts at a time while endpoint, servers and model make errors."""

import random
import threading

import pyarrow as pa
import pytest

from knime_mcp.audit.verify import verify_file
from tests.support import peers
from tests.support.chat_server import ChatServer, Turn, call, calls, fails, rate_limited, says

PROMPTS = 40
TROUBLE = [
    rate_limited(0.05),
    fails(500, "boom", headers=(("Retry-After", "0"),)),
    Turn(drop=True),
    Turn(body=b'{"choices": [', missing=5),
    Turn(body=b'{"error": {"code": 429, "message": "slow down"}}'),
    says(None),
]
WANTED = [
    (call("add", {"a": 1}), call("add", {"a": "x"}), call("nope"), call("add", '{"a":')),
    (call("add", {"a": 1}, id="same"), call("called", id="same"), call("ADD", {"a": 2}, id="")),
    (call("add", {"a": 2}, id="same"), call("fail", {"why": "y"}), call("wait", {"seconds": 0.01})),
    (call("add", '{"b": 1}'), call("add", ""), call("functions.add", {"a": 3})),
]


def model():
    """Asks for tools in three turns and then answers; every second turn fails at first."""
    chance, lock, failed = random.Random(7), threading.Lock(), set()

    def turn(request):
        asked = sum("tool_calls" in message for message in request.messages)
        question = next(m["content"] for m in request.messages if m["role"] == "user")
        with lock:
            fails_now = (question, asked) not in failed and chance.random() < 0.5
            failed.add((question, asked))
            if fails_now:
                return chance.choice(TROUBLE)
            return says(f"answer to {question}") if asked == 3 else calls(*chance.choice(WANTED))

    return turn


@pytest.mark.long
def test_every_prompt_has_its_answer_and_every_call_its_row(ask, host, tools_of, rows_of, tmp_path):
    with (
        peers.running(peers.counting("lasting")) as lasting,
        peers.running(peers.counting("dying")) as dying,
        ChatServer([model()], repeat=True) as server,
    ):
        first = tools_of(lasting.url("/one"), include="add, called, fail")
        second = tools_of(dying.url("/one"), include="wait")
        cells = [table["Tool"].get().to_pyarrow().column(1).combine_chunks() for table in (first, second)]
        both = host.table(pa.table({"Tool": pa.concat_arrays(cells)}))
        killer = threading.Timer(1.0, dying.kill)
        killer.start()
        result = ask(
            server,
            both,
            data=[{"text": [f"question {number}" for number in range(PROMPTS)]}],
            prompt_column="text",
            prompt_concurrency=PROMPTS,
        )
        killer.join()
        answers = rows_of(result, 2)
        assert [row["text"] for row in answers] == [f"question {number}" for number in range(PROMPTS)]
        for number, row in enumerate(answers):
            assert row["Answer"] == f"answer to question {number}", row["Error"]
        assert server.complaints == []
        recorded = rows_of(result, 1)
        said = [row["Conversation"] for row in rows_of(result) if row["Conversation"] is not None]
        assert len(recorded) == sum(len(message.tool_calls or ()) for message in said)
        assert {"ok", "tool error", "invalid arguments", "not found"} <= {row["Status"] for row in recorded}
        (journal,) = (tmp_path / "workflow" / "data" / "mcp-audit").glob("*.jsonl")
        assert verify_file(journal).findings == ()

        replays = [
            host.run(
                "tool_call_replayer",
                [result.outputs[1].as_input(), None],
                {},
                workflow_dir=tmp_path / f"replay {number}",
            )
            for number in range(2)
        ]
        verdicts = [[(row["Call"], row["Verdict"]) for row in rows_of(replay)] for replay in replays]
        assert verdicts[0] == verdicts[1]
        status = {row["Call"]: row["Status"] for row in recorded}
        found = {(status[number], verdict) for number, verdict in verdicts[0]}
        assert ("ok", "same") in found
        assert ("invalid arguments", "same") in found
        assert "different" not in {verdict for _, verdict in found}, found
