"""Options and arguments that several commands have, beside those that say how to reach servers."""

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Final, TypeAlias

import typer

from .exits import UsageError
from .serving import LogLevel

_NAMED: Final = r"([^=]*[^=\s][^=]*)=(.*)"

SaveDirOption: TypeAlias = Annotated[
    Path | None,
    typer.Option(metavar="FOLDER", help="Save pictures, sounds and other files of results there."),
]
RecordsArgument: TypeAlias = Annotated[
    Path,
    typer.Argument(
        metavar="FILE", help="A journal (.jsonl), or a table Tool calls as .parquet, .csv or .tsv file."
    ),
]
"""A file of records that a command reads."""

HttpOption: TypeAlias = Annotated[
    int | None,
    typer.Option(
        metavar="PORT",
        min=0,
        max=65535,
        help="Serve over HTTP on this port (0: any) instead of stdin and stdout.",
    ),
]
HostOption: TypeAlias = Annotated[str, typer.Option(help="Address to listen on with --http.")]
LogLevelOption: TypeAlias = Annotated[
    LogLevel, typer.Option(case_sensitive=False, help="How much to log; to standard error.")
]


def pairs(
    words: Iterable[str] | None,
    option: str,
    *,
    form: str = _NAMED,
    wrong: str = "says no value. Write it as NAME=VALUE.",
) -> dict[str, str]:
    """Reads an option that says NAME=VALUE or OLD=NEW, and may be repeated.

    Args:
        words: What it says, each time.
        option: Its name.
        form: What it has to look like; name and value are its groups.
        wrong: What is said of a word that looks otherwise.

    Returns:
        Value by name.

    Raises:
        UsageError: A word of another form, or two values for one name.
    """
    found: dict[str, str] = {}
    for word in words or ():
        match = re.fullmatch(form, word, re.DOTALL)
        if match is None:
            raise UsageError(f"{option} {word} {wrong}")
        name, value = match[1].strip(), match[2]
        if found.setdefault(name, value) != value:
            raise UsageError(f"{option} names '{name}' twice.")
    return found
