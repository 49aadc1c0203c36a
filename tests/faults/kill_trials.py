"""What is killed, when, and how it is gone on with: a trial of each kind, and what is wrong with one.

Each row of a trial does something, so the tool may not be called twice; the server counts.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from examples.knime_nodes import Column, table_creator
from knime_mcp.audit.journal_lines import JournalError
from knime_mcp.audit.journal_reading import read_journal
from knime_mcp.audit.verdicts import Verdict
from knime_mcp.audit.verify import verify_file
from knime_mcp.knwf import Connection, Workflow, write_workflow
from tests.faults.dask_cluster import TIED, Cluster
from tests.support.chat_server import ChatServer, call, calls, says
from tests.support.host import get_host
from tests.support.new_node import new_node
from tests.support.scripted_server import ScriptedServer, rpc, text

if TYPE_CHECKING:
    import random

ROWS = 24
SECONDS = 0.03  # that a call takes
DEADLINE = 600.0  # seconds after which a run that has not ended hangs, on a busy machine, too
PROMPTS = ("Pay 0 to 6", "Pay 6 to 12", "Pay 12 to 18", "Pay 18 to 24")
OK, UNKNOWN = "ok", "outcome unknown"
BUSY = "is being written by another run"
REFUSED = (BUSY, "was written by another run meanwhile", "is complete: there is nothing to go on with")


@dataclass
class Findings:
    """What went wrong in trials, and how many rows were unknown."""

    trials: int = 0
    kills: int = 0
    lost: int = 0
    twice: int = 0
    unnamed: int = 0  # unknown, and the message does not say so
    hung: int = 0
    wrong: int = 0  # runs that ended otherwise than they should
    unknown: int = 0
    seconds: float = 0.0
    details: list[str] = field(default_factory=list)

    @property
    def is_good(self) -> bool:
        return not (self.lost or self.twice or self.unnamed or self.hung or self.wrong)

    def add(self, other: Findings) -> None:
        for name in (
            "trials",
            "kills",
            "lost",
            "twice",
            "unnamed",
            "hung",
            "wrong",
            "unknown",
            "seconds",
        ):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.details += other.details

    def judge(self, statuses: dict[int, str], keys: dict[int, list[str]], said: str) -> set[int]:
        """After a resumption that nobody asked to repeat anything; gives the unknown rows."""
        unknown = {row for row, status in statuses.items() if status == UNKNOWN}
        lost = {row for row in range(ROWS) if statuses.get(row) not in {OK, UNKNOWN}}
        lost |= {row for row, status in statuses.items() if status == OK and not keys.get(row)}
        twice = {row for row, arrived in keys.items() if len(arrived) > 1}
        self.unknown += len(unknown)
        self.unnamed += len(unknown) if "may have been carried out" not in said else 0
        self.count(lost, twice, f"{statuses}, {said[-600:]}")
        return unknown

    def judge_asked(
        self, statuses: dict[int, str], before: dict[int, int], keys: dict[int, list[str]], unknown: set[int]
    ) -> None:
        """After a resumption that was to repeat what is unknown, which has the key of the first time."""
        lost = {row for row in range(ROWS) if statuses.get(row) != OK}
        twice = {row for row, found in keys.items() if len(found) > before.get(row, 0) + (row in unknown)}
        twice |= {row for row, found in keys.items() if len(set(found)) > 1}
        self.count(lost, twice, f"asked for {unknown}: {statuses}")

    def count(self, lost: set[int], twice: set[int], why: str) -> None:
        self.lost += len(lost)
        self.twice += len(twice)
        if lost or twice:
            self.details.append(f"lost {sorted(lost)}, twice {sorted(twice)}: {why}")


class RunHangsError(Exception):
    """A run did not end."""


@dataclass
class Trial:
    """A run in a folder, which is killed and resumed; `rng` decides when."""

    folder: Path
    rng: random.Random
    server: ScriptedServer
    found: Findings = field(default_factory=Findings)
    done: tuple[int, str, str] | None = None  # a run that came to its end before it was killed
    printed: str = ""  # by what was killed
    module: ClassVar[str] = "knime_mcp.cli.app"

    def arguments(self, *, resume: bool, repeat: bool) -> list[object]:
        """The command line of the run, or of its resumption."""
        raise NotImplementedError

    def statuses(self, out: str) -> dict[int, str]:
        """The outcomes of a run that ended, by row."""
        raise NotImplementedError

    def prepare(self) -> None:
        """Writes what the run reads."""

    def said(self, err: str) -> str:
        """What was said of calls with unknown outcome."""
        return err

    def keys(self) -> dict[int, list[str]]:
        """The idempotency keys that arrived, by row."""
        keys = defaultdict(list)
        for request in self.server.named("tools/call"):
            keys[request.params["arguments"]["n"]].append(
                request.params["_meta"]["knime-mcp/idempotency-key"]
            )
        return keys

    def start(self, *, resume: bool = False, repeat: bool = False) -> subprocess.Popen[str]:
        known = {
            "KNIME_MCP_SERVERS": str(self.folder / "servers.json"),
            "PYTHONPATH": os.pathsep.join([str(Path.cwd() / "src"), str(Path.cwd())]),
        }
        keyring = {"PYTHON_KEYRING_BACKEND": "keyring.backends.null.Keyring"}
        command = [sys.executable, "-m", self.module]
        return subprocess.Popen(
            [*TIED, *command, *map(str, self.arguments(resume=resume, repeat=repeat))],
            cwd=self.folder,
            env={**os.environ, **known, **keyring},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def end(self, process: subprocess.Popen[str]) -> tuple[int, str, str]:
        try:
            out, err = process.communicate(timeout=DEADLINE)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            _, err = process.communicate()
            raise RunHangsError(err[-600:]) from None
        return process.returncode, out, err

    def kill(self, process: subprocess.Popen[str]) -> None:
        """Kills a run when a random number of calls have arrived, and a moment later."""
        arrived, deadline = len(self.server.named("tools/call")), time.monotonic() + DEADLINE
        number = self.rng.randint(arrived, ROWS)
        while len(self.server.named("tools/call")) < number and process.poll() is None:
            if time.monotonic() > deadline:
                raise RunHangsError("no calls arrive")
            time.sleep(0.002)
        time.sleep(self.rng.uniform(0.0, 3 * SECONDS if number > arrived else 2.0))
        if process.poll() is not None:
            self.done = self.end(process)
            return
        self.found.kills += 1
        self.strike(process)
        self.settle()

    def strike(self, process: subprocess.Popen[str]) -> None:
        os.killpg(process.pid, signal.SIGKILL)
        out, _ = process.communicate(timeout=60)
        self.printed = out or self.printed

    def settle(self) -> None:
        """Waits until nothing arrives any more: what was on its way."""
        while self.server.requests and time.monotonic() - self.server.requests[-1].at < 0.5:
            time.sleep(0.02)

    def go_on(self, *, repeat: bool = False) -> tuple[int, str, str]:
        """A resumption that ends; in one of four trials another one is started at the same time."""
        if repeat or self.rng.random() > 0.25 or not (self.folder / "r.jsonl").exists():
            return self.end(self.start(resume=True, repeat=repeat))
        ended = [self.end(process) for process in [self.start(resume=True), self.start(resume=True)]]
        others = [done for done in ended if not any(text in done[2] for text in REFUSED)]
        return others[-1] if others else ended[-1]

    def begin(self) -> None:
        """The run that is killed, and perhaps its resumptions."""
        self.kill(self.start())
        while self.done is None and self.rng.random() < 0.3:
            self.kill(self.start(resume=True))

    def run(self) -> Findings:
        began = time.monotonic()
        self.found.trials = 1
        self.prepare()
        try:
            self.try_out()
            self.check_journals()
        except RunHangsError as error:
            self.found.hung += 1
            self.found.details.append(f"hung: {error}")
        self.found.seconds = time.monotonic() - began
        return self.found

    def try_out(self) -> None:
        """Kills, goes on, and judges what came of it."""
        code, out, err = 0, "", ""
        try:
            self.begin()
            code, out, err = self.done or self.go_on()
            self.settle()
            unknown = self.found.judge(self.statuses(out), self.keys(), self.said(err))
            if unknown and code != 1 and not isinstance(self, Agent):
                self.wrong(f"exit code {code} with unknown rows")
            if unknown and isinstance(self, Batch):  # an agent's model was told; the node repeats nothing
                self.ask_again(unknown)
        except (ValueError, KeyError, OSError, StopIteration) as error:  # no outcome can be read
            self.found.lost += ROWS
            self.wrong(f"{error!r}, exit code {code}: {out[-300:]}{err[:300]}...{err[-1500:]}")

    def ask_again(self, unknown: set[int]) -> None:
        before = {row: len(arrived) for row, arrived in self.keys().items()}
        code, out, err = self.go_on(repeat=True)
        self.settle()
        self.found.judge_asked(self.statuses(out), before, self.keys(), unknown)
        if code:
            self.wrong(f"exit code {code} of --repeat-unknown: {err[-300:]}")

    def wrong(self, why: str) -> None:
        self.found.wrong += 1
        self.found.details.append(why)

    def check_journals(self) -> None:
        for journal in self.folder.rglob("*.jsonl"):
            found = verify_file(journal)
            if found.verdict is Verdict.ALTERED:
                self.wrong(f"{journal.name}: {found.findings}")


@dataclass
class Batch(Trial):
    """``knime-mcp batch``."""

    executor: str = "threads"

    def prepare(self) -> None:
        (self.folder / "p.csv").write_text("n\n" + "".join(f"{n}\n" for n in range(ROWS)))

    def arguments(self, *, resume: bool, repeat: bool) -> list[object]:
        is_there = resume and (self.folder / "r.jsonl").exists()  # it may have been killed before
        journal = ["--resume" if is_there else "--audit", "r.jsonl"]
        options = ["--json", "--executor", self.executor, *(["--repeat-unknown"] if repeat else [])]
        return ["batch", self.server.url, "pay", "p.csv", *journal, *options]

    def statuses(self, out: str) -> dict[int, str]:
        return {record["arguments"]["n"]: record["status"] for record in json.loads(out)}


class KilledDaskWorkers(Batch):
    """One of the workers is killed, or all, in the middle of the run, which has to end by itself."""

    cluster: Cluster

    def begin(self) -> None:
        process = self.start()
        self.kill(process)
        if self.done is None:
            self.end(process)
        self.done = None
        self.cluster.complete()  # without workers nothing can be gone on with

    def strike(self, process: subprocess.Popen[str]) -> None:
        workers = self.cluster.worker_pids()
        for pid in workers if self.rng.random() < 0.3 else workers[:1]:
            os.kill(pid, signal.SIGKILL)


class Node(Trial):
    """A Caller in a workflow."""

    module = "tests.support.linear_run"

    def prepare(self) -> None:
        host = get_host()
        own = {"server_url": self.server.url, "tool_name": "pay", "resume": True}
        caller = new_node(host, 2, "mcp_tool_caller", own, inputs={"Parameters": 1})
        rows = table_creator(1, [Column("n", "int", tuple(range(ROWS)))])
        lines = (Connection(1, 1, 2, caller.input_port("Parameters")),)
        write_workflow(Workflow("kills", (rows, caller), lines), self.folder / "kills.knwf")

    def arguments(self, *, resume: bool, repeat: bool) -> list[object]:
        return ["kills.knwf", "out"]

    def statuses(self, out: str) -> dict[int, str]:
        file = self.folder / "out" / "2 1 Results.json"
        table = json.loads(file.read_text("utf-8"))
        file.unlink()
        return {row["n"]: row["Status"] for row in table}

    def go_on(self, *, repeat: bool = False) -> tuple[int, str, str]:
        """Each execution has a journal of its own: a second one is started while the first one runs."""
        began = self.journals()
        if repeat or not began or self.rng.random() > 0.5:
            return self.end(self.start(resume=True, repeat=repeat))
        first, deadline = self.start(resume=True), time.monotonic() + DEADLINE
        while self.journals() == began and first.poll() is None and time.monotonic() < deadline:
            time.sleep(0.002)
        first.send_signal(signal.SIGSTOP)
        try:
            if first.poll() is None and not self.has_ended():
                other = self.end(self.start(resume=True))
                if BUSY not in other[2]:
                    self.wrong(f"two at once: {other[2][-300:]}")
        finally:
            first.send_signal(signal.SIGCONT)
        return self.end(first)

    def journals(self) -> int:
        return len(list(self.folder.rglob("*.jsonl")))

    def has_ended(self) -> bool:
        """Whether the last run is complete, though its process may still run."""
        last = max(self.folder.rglob("*.jsonl"), default=None)
        try:
            return last is not None and read_journal(last).outcome == "complete"
        except JournalError:  # killed in its first line
            return False


class Agent(Trial):
    """``knime-mcp agent`` with a model that pays all, two in each turn."""

    model: ChatServer

    def arguments(self, *, resume: bool, repeat: bool) -> list[object]:
        is_there = resume and (self.folder / "r.jsonl").exists()
        where = ["--server", self.server.url, "--model-url", self.model.url, "--model", "test-model"]
        journal = ["--resume" if is_there else "--audit", "r.jsonl"]
        return ["agent", f"Pay 0 to {ROWS}", *where, *journal, "--json"]

    def statuses(self, out: str) -> dict[int, str]:
        return {made["arguments"]["n"]: made["status"] for made in json.loads(out)["calls"]}

    def said(self, err: str) -> str:
        """What the model was told."""
        last = self.model.requests[-8:]
        return " ".join(m["content"] for r in last for m in r.messages if m["role"] == "tool")

    def ask_again(self, unknown: set[int]) -> None:
        """Nothing is asked again: the run is complete, and it was for the model to decide."""

    def begin(self) -> None:
        self.kill(self.start())
        while self.done is None and self.rng.random() < 0.3 and (self.folder / "r.jsonl").exists():
            self.kill(self.start(resume=True))

    def go_on(self, *, repeat: bool = False) -> tuple[int, str, str]:
        """A run that was killed after its last line has told its answer before."""
        printed = self.printed
        code, out, err = super().go_on(repeat=repeat)
        return (0, printed, err) if REFUSED[-1] in err else (code, out, err)

    def run(self) -> Findings:
        with ChatServer([pays_all], repeat=True) as self.model:
            return super().run()


class AgentNode(Agent):
    """An MCP Agent Prompter with several prompts in a workflow."""

    module = Node.module

    def prepare(self) -> None:
        host = get_host()
        model = {"base_url": self.model.url, "model_name": "test-model"}
        own = {"prompt_column": "text", "prompt_concurrency": 4, "resume": True}
        inputs, outputs = {"Tools": 1, "Data inputs": 1}, {"Data outputs": 0}
        connector = new_node(host, 2, "openai_compatible_chat_model", model)
        provider = new_node(host, 3, "mcp_tool_provider", {"server_url": self.server.url})
        agent = new_node(host, 4, "mcp_agent_prompter", own, inputs=inputs, outputs=outputs)
        lines = (
            (2, connector.output_port("Chat model"), 4, agent.input_port("Chat model")),
            (3, provider.output_port("Tools"), 4, agent.input_port("Tools")),
            (1, 1, 4, agent.input_port("Data inputs")),
        )
        nodes = (table_creator(1, [Column("text", "string", PROMPTS)]), connector, provider, agent)
        workflow = Workflow("kills", nodes, tuple(Connection(*line) for line in lines))
        write_workflow(workflow, self.folder / "agent.knwf")

    def arguments(self, *, resume: bool, repeat: bool) -> list[object]:
        return ["agent.knwf", "out"]

    def statuses(self, out: str) -> dict[int, str]:
        table = json.loads((self.folder / "out" / "4 2 Tool calls.json").read_text("utf-8"))
        return {json.loads(row["Arguments"])["n"]: row["Status"] for row in table}

    begin = Trial.begin
    go_on = Node.go_on
    journals = Node.journals
    has_ended = Node.has_ended


def pays_all(request):
    """A model that pays in each turn, twice, and remembers nothing but what it is sent."""
    first, last = map(
        int, re.findall(r"\d+", next(m["content"] for m in request.messages if m["role"] == "user"))
    )
    n = first + 2 * sum(message["role"] == "assistant" for message in request.messages)
    return calls(call("pay", {"n": n}), call("pay", {"n": n + 1})) if n < last else says("All is paid.")


def pay(request):
    time.sleep(SECONDS)
    return rpc(text(f"paid {request.params['arguments']['n']}"))(request)
