"""What the agent's loop costs per tool call and per turn, beside the same thing done by hand, in one run.

A scripted endpoint on loopback, in a process of its own, plays the model. "Per tool call" is what a call adds
to a turn: the difference between turns with many calls and with one, divided by the calls.
"""

import json
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
from langchain_core.messages import HumanMessage
from langchain_core.tools import StructuredTool
from processes import child, line_from
from timing import Row, Table

from knime_mcp.agents.agent_loop import AgentOptions, run_agent
from knime_mcp.agents.model.chat_model import ChatModelSettings, create_model, model_route
from knime_mcp.agents.toolbox.replies import ToolReply, ToolRequest


def search(query: str) -> str:
    """Finds nothing, fast."""
    return f"nothing about {query}"


TOOL = StructuredTool.from_function(search)
DEFINITION = {
    "type": "function",
    "function": {
        "name": "search",
        "description": "Finds.",
        "parameters": {"type": "object", "properties": {"query": {"type": "string"}}},
    },
}


class Direct:
    """A toolbox whose calls cost next to nothing."""

    def definitions(self) -> list[dict[str, object]]:
        """One function."""
        return [DEFINITION]

    def shown_name(self, name: str) -> str:
        """The same."""
        return name

    def run(self, request: ToolRequest, *, is_canceled: Callable[[], bool]) -> ToolReply:  # noqa: ARG002
        """Calls the function."""
        return ToolReply(request=request, content=search(**(request.arguments or {})))


class Structured(Direct):
    """The same through LangChain's StructuredTool."""

    def run(self, request: ToolRequest, *, is_canceled: Callable[[], bool]) -> ToolReply:  # noqa: ARG002
        """Invokes the tool."""
        return ToolReply(request=request, content=TOOL.invoke(dict(request.arguments or {})))


@contextmanager
def endpoint(calls: int, turns: int) -> Iterator[str]:
    """The URL of a model that asks `turns` times for `calls` calls and then answers, again and again."""
    script = [{"calls": [["search", {"query": "knime"}]] * calls}] * turns + [{"says": "Nothing."}]
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "script.json")
        file.write_text(json.dumps(script), encoding="utf-8")
        with child([sys.executable, "-m", "tests.support.chat_server", str(file), "--repeat"]) as process:
            yield line_from(process)


def by_hand(url: str, turns: int) -> None:
    """The plainest loop: post, call, append."""
    messages: list[dict[str, object]] = [{"role": "user", "content": "Hi"}]
    body = {"model": "test-model", "messages": messages, "tools": [DEFINITION]}
    with httpx.Client(base_url=url) as client:
        for _ in range(turns + 1):
            answer = client.post("/chat/completions", json=body).json()["choices"][0]["message"]
            messages.append(answer)
            for call in answer.get("tool_calls", ()):
                text = search(**json.loads(call["function"]["arguments"]))
                messages.append({"role": "tool", "tool_call_id": call["id"], "content": text})


def seconds(work: Callable[[], object]) -> float:
    """How long it takes once."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def model_at(url: str) -> object:
    """The model, as the nodes make it."""
    return create_model(ChatModelSettings(route=model_route(url), model="test-model"), None)


def run(
    model: object, toolbox: Direct, messages: list[HumanMessage], options: AgentOptions | None = None
) -> None:
    """Runs the agent. A run that failed would be a wrong figure: it is raised."""
    outcome = run_agent(model, toolbox, messages, options)
    if outcome.error is not None:
        raise outcome.error


def measure(table: Table, *, smoke: bool, rounds: int) -> None:
    """Turns with one call and with many, and conversations of many turns."""
    many, turns = (5, 2) if smoke else (200, 20)
    options = AgentOptions(iteration_limit=turns)
    figures: dict[str, list[float]] = {}

    def note(name: str, value: float) -> None:
        figures.setdefault(name, []).append(1000 * value)

    with endpoint(1, 1) as one_url, endpoint(many, 1) as many_url, endpoint(1, turns) as turns_url:
        one, lots, long = model_at(one_url), model_at(many_url), model_at(turns_url)
        question = [HumanMessage("Hi")]
        for _ in range(rounds + 1):
            for toolbox, name in ((Direct(), "loop"), (Structured(), "loop, tool is a StructuredTool")):
                single = seconds(lambda box=toolbox: run(one, box, question))
                several = seconds(lambda box=toolbox: run(lots, box, question))
                note(f"per tool call: {name}", (several - single) / (many - 1))
            hand_one, hand_many = seconds(lambda: by_hand(one_url, 1)), seconds(lambda: by_hand(many_url, 1))
            note("per tool call: by hand, function called directly", (hand_many - hand_one) / (many - 1))
            invoked = seconds(lambda: [TOOL.invoke({"query": "knime"}) for _ in range(many)])
            note("per tool call: StructuredTool.invoke alone", invoked / many)
            ours = seconds(lambda: run(long, Direct(), question, options))
            note("per turn (model + one call): loop", ours / (turns + 1))
            note(
                "per turn (model + one call): by hand",
                seconds(lambda: by_hand(turns_url, turns)) / (turns + 1),
            )
    for name, values in figures.items():
        table.add(Row("agent", name, "ms", tuple(values[1:])))  # the first round warms up
