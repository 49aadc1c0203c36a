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

from knime_mcp.cli.commands import build_app

ROOT = Path(__file__).parents[2]
DOCUMENTS = [
    ROOT / "README.md",
    ROOT / "examples" / "README.md",
    *(path for path in sorted((ROOT / "docs").glob("*.md")) if path.name != "requirements.md"),
]
FENCED = re.compile(r"^```\w*\n(.*?)^```", re.MULTILINE | re.DOTALL)
IN_A_FOLDER = re.compile(r"^\S+/bin/(?=knime-mcp )")
INDENTED = re.compile(r"^ {4}(knime-mcp .*)$", re.MULTILINE)
INLINE = re.compile(r"`(knime-mcp [^`…]*)`")
EXAMPLE = re.compile(r"Example: (knime-mcp .*?)$", re.MULTILINE)


@cache
def root():
    return get_command(build_app())


def commands_in(text: str) -> Iterator[str]:
    """The command lines of a Markdown text."""
    for block in FENCED.findall(text):
        for line in block.splitlines():
            command = IN_A_FOLDER.sub("", line.removeprefix("$ "))
            if command.startswith("knime-mcp "):
                yield command
    yield from INDENTED.findall(text)
    yield from INLINE.findall(FENCED.sub("", text).replace("\n", " "))


def documented() -> Iterator[tuple[str, list[str]]]:
    """Where a command is written, and its words."""
    for path in DOCUMENTS:
        for command in commands_in(path.read_text(encoding="utf-8")):
            yield f"{path.relative_to(ROOT)}: {command}", shlex.split(command, comments=True)[1:]


def all_commands(command, path=()):
    yield path, command
    for name, inner in getattr(command, "commands", {}).items():
        yield from all_commands(inner, (*path, name))


def read(words: list[str]) -> tuple[str, ...]:
    """Reads the words after ``knime-mcp`` and gives the path of the command.

    Raises:
        Exception: What the command line raises for words that it does not know.
    """
    command, path = root(), []
    while hasattr(command, "commands") and words:
        name, *words = words
        known = {"COMMAND", *chain(*(option.opts for option in command.params)), "--help"}
        assert name in command.commands or name in known, f"there is no command {name}"
        if name not in command.commands:
            return tuple(path)
        path.append(name)
        command = command.commands[name]
    context = command.make_context("knime-mcp", [], resilient_parsing=True)
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
    leaves = {path for path, command in all_commands(root()) if not hasattr(command, "commands")}
    assert leaves - found == {("nodes", "keys", "list"), ("nodes", "keys", "revoke")}


def test_examples_of_help_texts_are_of_their_command():
    wrong = [
        example
        for path, command in all_commands(root())
        for example in EXAMPLE.findall(command.help or "")
        if read(shlex.split(example)[1:]) != path
    ]
    assert wrong == []


@pytest.mark.parametrize("command", ["knime-mcp lst", "knime-mcp list --jsn", "knime-mcp graph chek x"])
def test_what_does_not_exist_is_noticed(command):
    with pytest.raises(Exception, match=r"lst|jsn|chek"):
        read(shlex.split(command)[1:])
