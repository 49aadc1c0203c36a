"""What the documents and the help texts tell people to type, and the command line understands.

Only the words are read, by the command line's own parsers: commands, options and numbers of arguments exist.
What the commands do is tested where they are.
"""

import re
import shlex
from collections.abc import Iterator
from functools import cache
from itertools import chain
from pathlib import Path

import pytest
from typer.main import get_command
from typer.testing import CliRunner

from knime_mcp.cli import commands
from knime_mcp_graph.commands import program as graphs
from knime_node_knowledge.commands import program as nodes

ROOT = Path(__file__).parents[2]
DOCUMENTS = [
    ROOT / "README.md",
    ROOT / "examples" / "README.md",
    *sorted(ROOT.glob("packages/*/README.md")),
    *sorted(ROOT.glob("packages/*/docs/*.md")),
    *(path for path in sorted((ROOT / "docs").glob("*.md")) if path.name != "requirements.md"),
]
FENCED = re.compile(r"^```\w*\n(.*?)^```", re.MULTILINE | re.DOTALL)
PROGRAMS = {"knime-mcp": commands.build_app, "mcpgraph": graphs.build_app, "knime-nodes": nodes.build_app}
PROGRAM = f"(?:{'|'.join(PROGRAMS)}) "
IN_A_FOLDER = re.compile(rf"^\S+/bin/(?={PROGRAM})")
INDENTED = re.compile(rf"^ {{4}}({PROGRAM}.*)$", re.MULTILINE)
INLINE = re.compile(rf"`({PROGRAM}[^`…]*)`")
EXAMPLE = re.compile(rf"Example: ({PROGRAM}.*?)$", re.MULTILINE)


@cache
def root(program):
    return get_command(PROGRAMS[program]())


def commands_in(text: str) -> Iterator[str]:
    """The command lines of a Markdown text."""
    for block in FENCED.findall(text):
        for line in block.splitlines():
            command = IN_A_FOLDER.sub("", line.removeprefix("$ "))
            if re.match(PROGRAM, command):
                yield command
    yield from INDENTED.findall(text)
    yield from INLINE.findall(FENCED.sub("", text).replace("\n", " "))


def documented() -> Iterator[tuple[str, list[str]]]:
    """Where a command is written, and its words."""
    for path in DOCUMENTS:
        for command in commands_in(path.read_text(encoding="utf-8")):
            yield f"{path.relative_to(ROOT)}: {command}", shlex.split(command, comments=True)


def all_commands(command, path=()):
    yield path, command
    for name, inner in getattr(command, "commands", {}).items():
        yield from all_commands(inner, (*path, name))


def every_command():
    return (found for program in PROGRAMS for found in all_commands(root(program), (program,)))


def test_the_help_of_every_command_fits_a_screen():
    """Of 40 lines and 100 columns; what does not fit is seldom needed, and shown by ``--help-all``."""
    program = "knime-mcp"
    screen = {"COLUMNS": "100"}
    runner, app = CliRunner(), PROGRAMS[program]()
    heights = {
        " ".join(path): len(runner.invoke(app, [*path[1:], "--help"], env=screen).output.strip().splitlines())
        for path, _ in all_commands(root(program), (program,))
    }
    assert {name: lines for name, lines in heights.items() if lines > 40} == {}


def read(words: list[str]) -> tuple[str, ...]:
    """Reads the words of a command line and gives the path of the command.

    Raises:
        Exception: What the command line raises for words that it does not know.
    """
    program, *words = words
    if program == "mcpgraph" and words[0].startswith("-"):  # without a command it serves
        graphs.parser().parse_args(words)
        return (program,)
    command, path = root(program), [program]
    while hasattr(command, "commands") and words:
        name, *words = words
        known = {"COMMAND", *chain(*(option.opts for option in command.params)), "--help"}
        assert name in command.commands or name in known, f"there is no command {name}"
        if name not in command.commands:
            return tuple(path)
        path.append(name)
        command = command.commands[name]
    context = command.make_context(program, [], resilient_parsing=True)
    context.resilient_parsing = False
    command.make_parser(context).parse_args(args=list(words))
    return tuple(path)


def test_documented_commands_exist():
    found, wrong = set(), []
    for place, words in documented():
        try:
            found.add(read(words))
        except Exception as error:
            wrong.append(f"{place}: {error}")
    assert wrong == []
    leaves = {path for path, command in every_command() if not hasattr(command, "commands")}
    assert leaves - found == {("knime-nodes", "keys", "list"), ("knime-nodes", "keys", "revoke")}


def test_examples_of_help_texts_are_of_their_command():
    wrong = [
        example
        for path, command in every_command()
        for example in EXAMPLE.findall(command.help or "")
        if read(shlex.split(example)) != path
    ]
    assert wrong == []


@pytest.mark.parametrize("command", ["knime-mcp lst", "knime-mcp list --jsn", "mcpgraph chek x"])
def test_what_does_not_exist_is_noticed(command):
    with pytest.raises(Exception, match=r"lst|jsn|chek"):
        read(shlex.split(command))
