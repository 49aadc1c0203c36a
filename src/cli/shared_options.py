"""Options and arguments that several commands have, beside those that say how to reach servers."""

from pathlib import Path
from typing import Annotated, TypeAlias

import typer

from .serving import LogLevel

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
