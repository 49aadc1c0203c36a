"""An agent that is killed at any moment, and gone on with: no effect twice, and nothing asked again."""

import json
import os
import random
import select
import signal
import time
from collections import Counter

import pytest

from tests.cli.test_killed_batch import calls_of, pays
from tests.support import waiting
from tests.support.chat_server import ChatServer, call, calls, says

TURNS = 6


def thinks(request):
    """A model that pays in each turn, twice, and remembers nothing but what it is sent."""
    done = sum(message["role"] == "assistant" for message in request.messages)
    if done < TURNS:
        return calls(call("pay", {"n": 2 * done}), call("pay", {"n": 2 * done + 1}))
    return says("All is paid.")


def command(server, model, *options):
    return ("agent", *options, "--server", server.url, "--model-url", model.url, "--model", "test-model")


def killed(process):
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
    process.communicate(timeout=60)


def told(model):
    """What the model was told of each call, in the last request."""
    messages = model.requests[-1].messages
    asked = {
        made["id"]: json.loads(made["function"]["arguments"])["n"]
        for message in messages
        if message["role"] == "assistant"
        for made in message.get("tool_calls") or ()
    }
    return {
        asked[message["tool_call_id"]]: message["content"]
        for message in messages
        if message["role"] == "tool"
    }


@pytest.mark.parametrize("moment", [1, 4, 7, 12])
def test_a_killed_agent_goes_on_where_it_was(cli, tmp_path, moment):
    with pays(seconds=0.05) as server, ChatServer([thinks], repeat=True) as model:
        process = cli.start(*command(server, model, "Pay all", "--audit", "r.jsonl"))
        waiting.until(lambda: len(server.named("tools/call")) >= moment, f"{moment} calls arrive")
        time.sleep(random.Random(moment).uniform(0, 0.06))
        killed(process)
        turns = len(model.requests)
        paid = Counter({n: len(keys) for n, keys in calls_of(server).items()})

        done = cli(*command(server, model, "--resume", "r.jsonl", "--json"))  # the question is on file
        assert done.code == 0, done.err
        assert done.json["answer"] == "All is paid."
        assert len(model.requests) <= TURNS + 2  # one request may have been lost with its answer
        assert len(model.requests) > turns or moment == 2 * TURNS
        said = told(model)
        unknown = {n for n, text in said.items() if "may have been carried out" in text}
        assert set(said) == set(range(2 * TURNS))
        assert all("check before you repeat" in said[n] for n in unknown)
        assert all(said[n].endswith(f"paid {n}") for n in said.keys() - unknown)
        now = Counter({n: len(keys) for n, keys in calls_of(server).items()})
        assert max(now.values()) == 1, "nothing is paid twice"
        assert set(range(2 * TURNS)) - set(now) <= unknown
        assert all(paid[n] <= now[n] for n in now)
        assert len(done.json["calls"]) == 2 * TURNS
        assert not list(tmp_path.glob("*.conversations"))
        assert "changed" not in cli("audit", "verify", "r.jsonl").out


def test_an_agent_that_is_killed_again_and_again(cli, tmp_path):
    """The second run is killed before it comes to what the first one left open."""
    with pays(seconds=0.1) as server, ChatServer([thinks], repeat=True) as model:
        process = cli.start(*command(server, model, "Pay all", "--audit", "r.jsonl"))
        waiting.until(lambda: len(server.named("tools/call")) >= 3, "calls arrive")
        killed(process)
        for number in (5, 8, 11):
            process = cli.start(*command(server, model, "--resume", "r.jsonl"))
            waiting.until(
                lambda: len(server.named("tools/call")) >= number or process.poll() is not None  # noqa: B023
            )
            killed(process)
        done = cli(*command(server, model, "--resume", "r.jsonl", "--json"))
        if "is complete" in done.err:  # it had ended before it was killed
            return
        assert done.code == 0, done.err
        assert max(len(keys) for keys in calls_of(server).values()) == 1
        said = told(model)
        unknown = {n for n, text in said.items() if "may have been carried out" in text}
        assert set(range(2 * TURNS)) - set(calls_of(server)) <= unknown


def test_what_times_out_may_have_been_carried_out(cli, tmp_path):
    """The model is not told to try again."""
    turns = [calls(call("pay", {"n": 1})), says("Somebody has to look.")]
    with pays(seconds=3.0) as server, ChatServer(turns) as model:
        done = cli(*command(server, model, "Pay", "--total-timeout", "1", "--json"))
        assert done.code == 0, done.err
        results = [m["content"] for m in model.requests[-1].messages if m["role"] == "tool"]
    assert results
    assert all("may have been carried out; check before you repeat" in text for text in results)
    assert not any("ry again" in text for text in results)


def test_a_complete_run_is_not_made_again(cli):
    turns = [calls(call("pay", {"n": 1})), says("Paid.")]
    with pays() as server, ChatServer(turns) as model:
        assert cli(*command(server, model, "Pay", "--audit", "r.jsonl")).code == 0
        again = cli(*command(server, model, "Pay", "--resume", "r.jsonl"))
        assert again.code == 1
        assert "r.jsonl is complete: there is nothing to go on with" in again.err
        assert len(server.named("tools/call")) == 1


def test_a_run_that_was_killed_before_it_told_its_answer_can_be_resumed(cli):
    """It is complete only once the answer was taken: here it is longer than what a pipe holds."""
    answer = "Paid. " * 20_000
    with pays() as server, ChatServer([calls(call("pay", {"n": 1})), says(answer)]) as model:
        process = cli.start(*command(server, model, "Pay", "--audit", "r.jsonl"))
        readable, _, _ = select.select([process.stdout], [], [], 60)
        assert readable, "the answer begins"
        killed(process)
        again = cli(*command(server, model, "--resume", "r.jsonl"))
        assert again.code == 0, again.err
        assert again.out.strip() == answer.strip()
        assert (len(server.named("tools/call")), len(model.requests)) == (1, 2), "nothing was asked again"
        assert "is complete" in cli(*command(server, model, "--resume", "r.jsonl")).err


def test_what_is_resumed_has_the_form_that_was_asked_for(cli):
    """An answer in another form would be that of another question: it is not told as if it fitted."""
    answer = '{"paid": "' + "1" * 200_000 + '"}'
    form = ("--answer-schema", "paid: text")
    with pays() as server, ChatServer([calls(call("pay", {"n": 1})), says(answer)]) as model:
        process = cli.start(*command(server, model, "Pay", "--audit", "r.jsonl", *form))
        readable, _, _ = select.select([process.stdout], [], [], 60)
        assert readable, "the answer begins"
        killed(process)
        for other in ((), ("--answer-schema", "amount: integer")):
            refused = cli(*command(server, model, "--resume", "r.jsonl", *other))
            assert refused.code == 1, refused.out[:200]
            assert "--answer-schema" in refused.err
        again = cli(*command(server, model, "--resume", "r.jsonl", "--answer-schema", " paid : text "))
        assert again.code == 0, again.err
        assert len(json.loads(again.out)["paid"]) == 200_000
        assert (len(server.named("tools/call")), len(model.requests)) == (1, 2), "nothing was asked again"
