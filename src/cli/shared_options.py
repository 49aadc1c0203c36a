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

SaveDirOption: TypeAlias = Annotated[
    Path | None,
    typer.Option(metavar="FOLDER", help="Save pictures, sounds and other files of results there."),
]
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


def options_under(panel: str, **same: Any) -> Callable[..., Any]:
    """Makes what declares options that stand together in the help: ``text, *names``, and what typer takes."""

    def option(text: str, *names: str, **more: Any) -> Any:
        if "min" in more:
            more["callback"] = a_number
        return typer.Option(*names, help=text, rich_help_panel=panel, **same, **more)

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

    The fields of `group`, a dataclass, are annotated for typer; `name` is the command's argument for it.
    Options that the command refuses are `hidden` in its help; with `seldom` only ``--help-all`` shows them.
    """
    # With extras, as the options are in the metadata of the types.
    hints = typing.get_type_hints(group, include_extras=True)
    added = [
        inspect.Parameter(
            field.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=inspect.Parameter.empty if field.default is dataclasses.MISSING else field.default,
            annotation=_hidden(hints[field.name])
            if field.name in hidden
            else _seldom(hints[field.name])
            if seldom and field.name != "help_all"
            else hints[field.name],
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
    option = copy.copy(annotated.__metadata__[0])
    option.hidden, option.rich_help_panel = True, SELDOM
    return Annotated[annotated.__origin__, option]


def _hidden(annotated: Any) -> Any:
    option = copy.copy(annotated.__metadata__[0])
    option.hidden, option.rich_help_panel = True, None  # not even --help-all shows it
    return Annotated[annotated.__origin__, option]
