"""Options and arguments of several commands, except those for reaching servers."""

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Final, TypeAlias

import typer

from ..audit.table_formats import READABLE, either
from .errors import UsageError
from .serving import LogLevel

_NAMED: Final = r"([^=]*[^=\s][^=]*)=(.*)"

SaveDirOption: TypeAlias = Annotated[
    Path | None,
    typer.Option(metavar="FOLDER", help="Save pictures, sounds and other files of results there."),
]
RecordsArgument: TypeAlias = Annotated[
    Path,
    typer.Argument(
        metavar="FILE", help=f"A journal (.jsonl), or a table Tool calls as {either(*READABLE)} file."
    ),
]
"""The file of records that a command reads."""

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
    wrong: str = "has no value. Write it as NAME=VALUE.",
) -> dict[str, str]:
    """Reads the values NAME=VALUE or OLD=NEW of an option that may be repeated.

    Args:
        words: The values of the option.
        option: Name of the option.
        form: Pattern of a value, with groups for name and value.
        wrong: Message for values of another form.

    Returns:
        Value by name.

    Raises:
        UsageError: A value has another form, or a name has two values.
    """
    values: dict[str, str] = {}
    for word in words or ():
        match = re.fullmatch(form, word, re.DOTALL)
        if match is None:
            raise UsageError(f"{option} {word} {wrong}")
        name, value = match[1].strip(), match[2]
        if values.setdefault(name, value) != value:
            raise UsageError(f"{option} names '{name}' twice.")
    return values
