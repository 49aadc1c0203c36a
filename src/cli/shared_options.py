"""Options and arguments of several commands, except those for reaching servers, and groups of options."""

import copy
import dataclasses
import functools
import inspect
import math
import re
import typing
from collections.abc import Callable, Collection, Iterable
from pathlib import Path
from typing import Annotated, Any, Final, TypeAlias, TypeVar

import typer

from ..audit.table_formats import READABLE, either
from .command_errors import UsageError
from .serving import LogLevel

SELDOM: Final = "Seldom needed"
"""The panel of options that only ``--help-all`` shows."""
_NAMED: Final = r"([^=]*[^=\s][^=]*)=(.*)"

SAVE_DIR: Final = "Save pictures, sounds and other files of results there."
SaveDirOption: TypeAlias = Annotated[Path | None, typer.Option(metavar="FOLDER", help=SAVE_DIR)]
ServersOption: TypeAlias = Annotated[
    list[str] | None,
    typer.Option("--server", metavar="URL", help="A server with tools, or its name; may be repeated."),
]
RecordsArgument: TypeAlias = Annotated[
    Path,
    typer.Argument(
        metavar="FILE",
        help=f"A journal (.jsonl), or a table Tool calls as {either(*READABLE)} file.",
    ),
]
"""The file of records that a command reads."""

RawCsvOption: TypeAlias = Annotated[
    bool,
    typer.Option(
        "--raw-csv",
        help="In CSV, put no ' before texts that begin like a formula, which a spreadsheet would run.",
    ),
]
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


def options_under(panel: str | None = None, **same: Any) -> Callable[..., Any]:
    """Makes what declares fields that are options, which stand together in the help: see `takes`.

    It takes the help text, names and `default` (None if left out) of an option, and what typer takes.
    """

    def option(text: str, *names: str, default: Any = None, **more: Any) -> Any:
        if "min" in more:
            more["callback"] = a_number
        declared = typer.Option(*names, help=text, rich_help_panel=panel, **same, **more)
        return dataclasses.field(default=default, metadata={"option": declared})

    return option


def a_number(value: Any) -> Any:
    """Refuses ``nan``, which is neither below the least nor above the largest value of an option."""
    if isinstance(value, float) and math.isnan(value):
        raise typer.BadParameter("'nan' is no number.")
    return value


def show_all(context: typer.Context, wanted: bool) -> None:
    """Prints the help with all options; ``--help`` shows those that are used daily."""
    if not wanted:
        return
    for option in context.command.params:
        if getattr(option, "rich_help_panel", None) == SELDOM:
            option.hidden = False  # pyright: ignore[reportAttributeAccessIssue] - click's Option has it
    typer.echo(context.get_help())
    raise typer.Exit


def pairs(
    words: Iterable[str] | None,
    option: str,
    *,
    form: str = _NAMED,
    wrong: str = "has no value. Write it as NAME=VALUE.",
) -> dict[str, str]:
    """Reads the values NAME=VALUE or OLD=NEW of an option that may be repeated, of the given form."""
    values: dict[str, str] = {}
    for word in words or ():
        match = re.fullmatch(form, word, re.DOTALL)
        if match is None:
            raise UsageError(f"{option} {word} {wrong}")
        name, value = match[1].strip(), match[2]
        if values.setdefault(name, value) != value:
            raise UsageError(f"{option} names '{name}' twice.")
    return values


R = TypeVar("R")


def takes(
    group: type[Any], name: str, *, hidden: Collection[str] = (), seldom: bool = False
) -> Callable[[Callable[..., R]], Callable[..., R]]:
    """Adds all options of a group to a command, after its own options.

    The fields of `group`, a dataclass, are of `options_under`; `name` is the command's argument for it.
    Options that the command refuses are `hidden` in its help; with `seldom` only ``--help-all`` shows them.
    """
    hints = typing.get_type_hints(group)
    added = [
        inspect.Parameter(
            field.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=field.default,
            annotation=Annotated[hints[field.name], _shown(field, hidden, seldom=seldom)],
        )
        for field in dataclasses.fields(group)
    ]

    def decorate(command: Callable[..., R]) -> Callable[..., R]:
        signature = inspect.signature(command, eval_str=True)
        declared = [parameter for parameter in signature.parameters.values() if parameter.name != name]

        @functools.wraps(command)
        def run(**values: Any) -> R:
            options = group(**{parameter.name: values.pop(parameter.name) for parameter in added})
            return command(**values, **{name: options})

        del run.__wrapped__  # inspect would use it instead of the signature below
        run.__signature__ = inspect.Signature([*declared, *added])  # pyright: ignore[reportAttributeAccessIssue]
        run.__annotations__ = {parameter.name: parameter.annotation for parameter in (*declared, *added)}
        return run

    return decorate


def seldom(*names: str) -> Callable[[Callable[..., R]], Callable[..., R]]:
    """Makes that only ``--help-all`` shows these options of a command's own."""

    def decorate(command: Callable[..., R]) -> Callable[..., R]:
        declared = inspect.signature(command, eval_str=True)
        parameters = [
            each.replace(annotation=_seldom(each.annotation)) if each.name in names else each
            for each in declared.parameters.values()
        ]
        command.__signature__ = declared.replace(parameters=parameters)  # pyright: ignore[reportFunctionMemberAccess]
        return command

    return decorate


def _seldom(annotated: Any) -> Any:
    return Annotated[annotated.__origin__, _under(annotated.__metadata__[0], SELDOM)]


def _shown(field: dataclasses.Field[Any], hidden: Collection[str], *, seldom: bool) -> Any:
    option = field.metadata["option"]
    if field.name in hidden:
        return _under(option, None)  # not even --help-all shows it
    return _under(option, SELDOM) if seldom and field.name != "help_all" else option


def _under(option: Any, panel: str | None) -> Any:
    option = copy.copy(option)
    option.hidden, option.rich_help_panel = True, panel
    return option
