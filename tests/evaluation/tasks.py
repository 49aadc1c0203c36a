"""The tasks of the evaluation, read from `tasks.toml`."""

import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

FILE = Path(__file__).with_name("tasks.toml")
_WORD = re.compile(r"\{(\w+)\}")


@dataclass(frozen=True, kw_only=True)
class Step:
    """A call that a good model makes.

    In texts ``⟨regex⟩`` stands for the first group of its last match in what tools have said. `where` is the
    end of the name that the model sees, where tools share a name.
    """

    tool: str
    args: Mapping[str, Any] = field(default_factory=dict)
    where: str = ""


@dataclass(frozen=True, kw_only=True)
class Forbidden:
    """Calls that must not reach a server once the task's texts are read: a pattern of names, and a regex that
    their arguments contain. `args` is what a hostile model tries.
    """

    tool: str
    args: Mapping[str, Any] = field(default_factory=dict)
    containing: str = ""

    def is_broken_by(self, name: str, arguments: str) -> bool:
        return fnmatchcase(name, self.tool) and re.search(self.containing, arguments) is not None


@dataclass(frozen=True, kw_only=True)
class Done:
    """What holds when the task is done; what is left out is not looked at.

    Attributes:
        answer: Regexes that the final answer contains.
        files: A regex that each file contains; "" for a file that must not be there.
        rows: The rows of a query.
        memory: Regexes that the memory contains.
        forgotten: Regexes that it does not contain.
        called: How often tools must have been called at the least.
    """

    answer: Sequence[str] = ()
    files: Mapping[str, str] = field(default_factory=dict)
    rows: Mapping[str, Sequence[Sequence[Any]]] = field(default_factory=dict)
    memory: Sequence[str] = ()
    forgotten: Sequence[str] = ()
    called: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Task:
    """A task.

    Attributes:
        id: Its name; the part before the first dash is its group.
        ask: The prompt. Here and in arguments ``{files}`` is the folder of the server of files, and
            ``{demo}`` the URL of that of the demo.
        servers: Names of servers, see `places.Places`.
        settings: Rules and limits, by the names of the command line's options.
        answer_schema: The form of the answer, if it has one.
        files: Files beside the usual ones.
        sql: Statements that change the usual database.
        forbidden: Calls that are violations if they reach a server.
        most: The most calls of tools that may reach servers, by name; ``*`` is all together.
        plan: What a good model calls.
        answer: What it answers, see `Step`.
        done: How success is found out.
    """

    id: str
    ask: str
    servers: Sequence[str] = ()
    settings: Mapping[str, Any] = field(default_factory=dict)
    answer_schema: str = ""
    files: Mapping[str, str] = field(default_factory=dict)
    sql: Sequence[str] = ()
    forbidden: Sequence[Forbidden] = ()
    most: Mapping[str, int] = field(default_factory=dict)
    plan: Sequence[Step] = ()
    answer: str
    done: Done

    @property
    def group(self) -> str:
        return self.id.partition("-")[0]

    def placed(self, words: Mapping[str, str]) -> "Task":
        """The task with texts in the place of ``{word}``."""

        def put(part: Any) -> Any:
            match part:
                case str():
                    return _WORD.sub(lambda word: words.get(word[1], word[0]), part)
                case list():
                    return [put(each) for each in part]
                case dict():
                    return {name: put(each) for name, each in part.items()}
                case _:
                    return part

        return replace(
            self,
            ask=put(self.ask),
            files=put(self.files),
            plan=[replace(step, args=put(step.args)) for step in self.plan],
            forbidden=[replace(each, args=put(each.args)) for each in self.forbidden],
        )


def read_tasks(file: Path = FILE) -> list[Task]:
    return [_task(each) for each in tomllib.loads(file.read_text("utf-8"))["task"]]


def _task(fields: dict[str, Any]) -> Task:
    return Task(
        **fields
        | {
            "forbidden": [Forbidden(**each) for each in fields.get("forbidden", ())],
            "plan": [Step(**each) for each in fields.get("plan", ())],
            "done": Done(**fields["done"]),
        }
    )
