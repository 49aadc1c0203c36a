"""Groups of options as a dataclass, which a command takes as one argument."""

import copy
import dataclasses
import functools
import inspect
import typing
from collections.abc import Callable, Collection
from typing import Annotated, Any, TypeVar

R = TypeVar("R")


def takes(
    group: type[Any], name: str, *, hidden: Collection[str] = ()
) -> Callable[[Callable[..., R]], Callable[..., R]]:
    """Adds all options of a group to a command, after its own options.

    Args:
        group: A dataclass whose fields are annotated for typer.
        name: The command's keyword argument for the group.
        hidden: Fields whose options the command refuses, so that its help does not show them.

    Returns:
        A decorator for the command, which puts the options into its signature, where typer looks for them.
    """
    hints = typing.get_type_hints(group, include_extras=True)
    added = [
        inspect.Parameter(
            field.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=inspect.Parameter.empty if field.default is dataclasses.MISSING else field.default,
            annotation=_hidden(hints[field.name]) if field.name in hidden else hints[field.name],
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


def _hidden(annotated: Any) -> Any:
    option = copy.copy(annotated.__metadata__[0])
    option.hidden = True
    return Annotated[annotated.__origin__, option]
