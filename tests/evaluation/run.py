"""Runs the evaluation: tasks over real servers, with scripted models or with yours; see README.md.

Each run is that of ``knime-mcp agent``, in this process: its settings, its loop, its journal. The scripted
models are asked through an endpoint on loopback in OpenAI's form.
"""

import argparse
import io
import os
import re
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, redirect_stderr
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

import httpx

from knime_mcp.cli.agent import AgentSettings
from knime_mcp.cli.agent_run import AgentRun
from knime_mcp.cli.connection_options import ConnectionOptions
from tests.evaluation import models
from tests.evaluation.places import Places
from tests.evaluation.tasks import Task, read_tasks
from tests.support.chat_server import ChatServer

README = Path(__file__).with_name("README.md")
KEY = "API_KEY"
KINDS = ("good", "weak", "hostile")
_TABLES = re.compile(r"(?<=<!-- results -->\n).*(?=<!-- end of results -->)", re.DOTALL)


@dataclass(frozen=True, kw_only=True)
class Endpoint:
    """Where a model is, and the environment variable with its key."""

    url: str
    model: str
    key: str | None = None


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What became of a task with a model.

    `missing` says what was not done, `violations` which calls must not have reached a server, `reached` how
    many did.
    """

    task: str
    group: str
    kind: str
    missing: tuple[str, ...]
    violations: tuple[str, ...]
    asked: int
    reached: int
    read: int
    wrote: int

    @property
    def is_done(self) -> bool:
        return not self.missing


def run_task(task: Task, places: Places, endpoint: Endpoint, kind: str) -> Outcome:
    """Lets a model do a task that has begun, and looks at what became of it."""
    settings = AgentSettings(
        model_url=endpoint.url,
        model=endpoint.model,
        api_key_env=endpoint.key,
        **task.settings,
    )
    connection = ConnectionOptions()
    routes = connection.routes(places.urls(task)) if task.servers else []
    run = AgentRun(settings, connection, lambda: False, answer_schema=task.answer_schema)
    with (
        redirect_stderr(io.StringIO()),  # no terminal either, so nobody is asked
        run.asked(task.ask, routes=routes),
    ):
        told = run.as_json()
    reached = places.calls()
    return Outcome(
        task=task.id,
        group=task.group,
        kind=kind,
        missing=tuple(missing(task, places, told["answer"] or "", reached)),
        violations=tuple(violations(task, reached)),
        asked=len(told["calls"]),
        reached=len(reached),
        read=told["input_tokens"] or 0,
        wrote=told["output_tokens"] or 0,
    )


def missing(task: Task, places: Places, answer: str, reached: Sequence[tuple[str, str]]) -> Iterator[str]:
    done = task.done
    for pattern in done.answer:
        if re.search(pattern, answer, re.IGNORECASE) is None:
            yield f"the answer has no {pattern!r}: {answer[:200]!r}"
    for name, pattern in done.files.items():
        file = places.files / name
        if file.exists() != bool(pattern):
            yield f"{name} {'is there' if not pattern else 'is missing'}"
        elif pattern and re.search(pattern, file.read_text("utf-8") if file.is_file() else "") is None:
            yield f"{name} has no {pattern!r}"
    for query, rows in done.rows.items():
        if (found := places.rows(query)) != [list(row) for row in rows]:
            yield f"{query}: {found}"
    memory = places.memory.read_text("utf-8")
    yield from (f"the memory has no {p!r}" for p in done.memory if re.search(p, memory) is None)
    yield from (f"the memory has {p!r}" for p in done.forgotten if re.search(p, memory))
    names = [name for name, _ in reached]
    yield from (f"{name} was not called" for name, least in done.called.items() if names.count(name) < least)


def violations(task: Task, reached: Sequence[tuple[str, str]]) -> Iterator[str]:
    for name, arguments in reached:
        if any(rule.is_broken_by(name, arguments) for rule in task.forbidden):
            yield f"{name} {arguments[:200]}"
    for pattern, most in task.most.items():
        made = sum(fnmatchcase(name, pattern) for name, _ in reached)
        yield from (f"{made} calls of {pattern}, of {most}" for _ in range(made - most))


@contextmanager
def scripted(kind: str, task: Task, number: int, places: Places) -> Iterator[Endpoint]:
    """The endpoint of a scripted model for a task; `number` chooses the weak model's fault."""
    makes: dict[str, Callable[[], models.Model]] = {
        "good": lambda: models.good(task),
        "weak": lambda: models.weak(task, number),
        "hostile": lambda: models.hostile(task, next(iter(places.urls(task)))),
    }
    with ChatServer([lambda request: makes[kind]()(request)], repeat=True) as server:
        yield Endpoint(url=server.url, model="test-model")


def run_scripted(tasks: Sequence[Task], places: Places, kinds: Iterable[str] = KINDS) -> Iterator[Outcome]:
    for number, task in enumerate(tasks):
        for kind in kinds:
            begun = places.begin(task)
            with scripted(kind, begun, number, places) as endpoint:
                yield run_task(begun, places, endpoint, kind)


def tables(outcomes: Sequence[Outcome]) -> str:
    """The results as Markdown: by kind of model and group of tasks, and each task."""
    kinds = list(dict.fromkeys(outcome.kind for outcome in outcomes))
    groups = list(dict.fromkeys(outcome.group for outcome in outcomes))
    lines = [
        "| model | tasks | done | calls asked for | reached a server | tokens read | written | violations |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for kind in kinds:
        for group in ("all", *groups):
            of = [o for o in outcomes if o.kind == kind and group in ("all", o.group)]
            sums = [sum(getattr(o, name) for o in of) for name in ("asked", "reached", "read", "wrote")]
            figures = [f"{sum(o.is_done for o in of)} of {len(of)}", *(f"{s:,}" for s in sums)]
            name = f"**{kind}**" if group == "all" else kind
            cells = [name, group, *figures, str(sum(len(o.violations) for o in of))]
            lines.append(f"| {' | '.join(cells)} |")
    lines += ["", f"| task | {' | '.join(kinds)} |", f"|---|{'---|' * len(kinds)}"]
    by_task: dict[str, dict[str, Outcome]] = {}
    for outcome in outcomes:
        by_task.setdefault(outcome.task, {})[outcome.kind] = outcome
    for task, of_kinds in by_task.items():
        lines.append(f"| {task} | {' | '.join(_cell(of_kinds[kind]) for kind in kinds)} |")
    return "\n".join(lines) + "\n"


def _cell(outcome: Outcome) -> str:
    said = f"{'done' if outcome.is_done else 'not done'}, {outcome.reached} of {outcome.asked} calls"
    return f"{said}, **{len(outcome.violations)} violations**" if outcome.violations else said


def _first_model(url: str, key: str | None) -> str:
    headers = {"Authorization": f"Bearer {os.environ[key]}"} if key else {}
    listed = httpx.get(f"{url.rstrip('/')}/models", headers=headers, timeout=60).raise_for_status().json()
    return listed["data"][0]["id"]


def _outcomes(options: argparse.Namespace, tasks: Sequence[Task], places: Places) -> Iterator[Outcome]:
    if options.url is None:
        yield from run_scripted(tasks, places)
        return
    key = KEY if os.environ.get(KEY) else None
    model = options.model or _first_model(options.url, key)
    endpoint = Endpoint(url=options.url, model=model, key=key)
    yield from (run_task(places.begin(task), places, endpoint, model) for task in tasks)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--url", help="base URL of an endpoint in OpenAI's form; else the scripted models")
    parser.add_argument("--model", help="its model; else the first that it lists")
    parser.add_argument("--only", default="*", help="only tasks with such names")
    parser.add_argument("--save", action="store_true", help="write the results into README.md")
    options = parser.parse_args(arguments)
    tasks = [task for task in read_tasks() if fnmatchcase(task.id, options.only)]
    outcomes: list[Outcome] = []
    with tempfile.TemporaryDirectory() as folder, Places(Path(folder).resolve() / "places") as places:
        for outcome in _outcomes(options, tasks, places):
            outcomes.append(outcome)
            print(f"{outcome.kind:8} {outcome.task:28} {_cell(outcome)}", flush=True)
            for problem in (*outcome.missing, *outcome.violations[:5]):
                print(f"{'':10}{problem}", flush=True)
    print(f"\n{tables(outcomes)}")
    if options.save:
        README.write_text(_TABLES.sub(lambda _: tables(outcomes), README.read_text("utf-8")), "utf-8")
    return int(any(outcome.violations for outcome in outcomes) or _unable(outcomes))


def _unable(outcomes: Sequence[Outcome]) -> bool:
    """Whether a task was not done by the scripted model that knows how."""
    return any(outcome.kind == "good" and not outcome.is_done for outcome in outcomes)


if __name__ == "__main__":
    sys.exit(main())
