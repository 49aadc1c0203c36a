"""Runs KNIME's Configuration nodes, and reads the values that callers give them."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, Final, cast

from ...knwf import read_configuration
from .errors import RunError
from .job import Done, Ports, Ready
from .variables import CredentialValue, FlowVariable, VariableKind, parsed

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ...knwf import Configuration, NativeNode
    from .job import Job

_KINDS: Final[Mapping[str, VariableKind]] = {
    "string": "STRING",
    "integer": "INTEGER",
    "double": "DOUBLE",
    "boolean": "BOOLEAN",
    "credentials": "CREDENTIALS",
}


class ConfigurationNode:
    """Makes one flow variable: of the value that the caller set, else of the default."""

    def ready(self, node: NativeNode) -> Ready:
        """See `NodeKind`."""
        read_configuration(node)
        return Ready(Ports(outputs=("Flow Variable Output",)))

    def run(self, job: Job) -> Done:
        """See `NodeKind`."""
        own = read_configuration(job.node)
        if own.kind == "credentials":
            variable = FlowVariable(own.variable, "CREDENTIALS", _credential(own, job))
            return Done(outputs=(None,), variables=(variable,))
        value = job.world.values.get(job.node.id, own.value)
        validate(own, value)
        kind = _KINDS[own.kind]
        if own.as_number:
            kind, value = "INTEGER", int(bool(value))
        return Done(outputs=(None,), variables=(FlowVariable(own.variable, kind, value),))


def _credential(own: Configuration, job: Job) -> CredentialValue:
    given = job.world.values.get(job.node.id)
    found = given if isinstance(given, CredentialValue) else job.world.find_credential(own.variable)
    if found is None:
        stored = (
            " (the password in the file is encrypted, which only KNIME reads)" if own.saved_password else ""
        )
        raise RunError(f"There is no password for the credentials '{own.variable}'{stored}")
    return CredentialValue(found.login or str(own.value), found.password)


def validate(own: Configuration, value: Any) -> None:
    """Checks a value as the node does.

    Raises:
        RunError: The value is not allowed.
    """
    if own.minimum is not None and value < own.minimum:
        raise RunError(f"The set {own.kind} {value} is smaller than the allowed minimum of {own.minimum:g}")
    if own.maximum is not None and value > own.maximum:
        raise RunError(f"The set {own.kind} {value} is bigger than the allowed maximum of {own.maximum:g}")
    if own.kind == "string" and own.pattern:
        try:
            matches = re.fullmatch(own.pattern, value) is not None
        except re.error as error:
            raise RunError(
                f"The pattern '{own.pattern}' of '{own.variable}' cannot be read here: {error}",
                fix="Java's regular expressions differ in places; run the workflow in KNIME",
            ) from None
        if not matches:
            raise RunError(own.message.replace("?", value) or f"'{value}' does not match '{own.pattern}'")


def from_text(own: Configuration, text: str) -> Any:
    """The value that a person wrote on the command line.

    Raises:
        RunError: It is not such a value, or it is not allowed.
    """
    if own.kind == "credentials":
        raise RunError(
            f"'{own.variable}' are credentials, which do not belong on a command line",
            fix="Put them into the environment or the keyring: --help says how",
        )
    value = parsed(own.variable, _KINDS[own.kind], text)
    validate(own, value)
    return value


def from_json(own: Configuration, value: Any) -> Any:
    """The value that a caller of a tool gave, read as KNIME reads it.

    Raises:
        RunError: It is not such a value, or it is not allowed.
    """
    if isinstance(value, dict):
        inner = cast("dict[str, Any]", value)
        if own.kind == "credentials":
            return CredentialValue(str(inner.get("username") or ""), str(inner.get("password") or ""))
        if own.kind not in inner:
            raise RunError(f"Expected {own.kind} value for key '{own.kind}'")
        value = inner[own.kind]
        if own.kind == "boolean" and value is None:
            value = False
    read = _read(own, value)
    validate(own, read)
    return read


def _read(own: Configuration, value: Any) -> Any:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    match own.kind:
        case "string" if isinstance(value, str):
            return value
        case "string" if is_number:
            return json.dumps(value)
        case "boolean" if isinstance(value, bool):
            return value
        case "boolean" if isinstance(value, str):
            return value.lower() == "true"  # every other text is false to KNIME
        case "integer" if is_number:
            return parsed(own.variable, "INTEGER", str(int(value)))  # what is behind the point is cut off
        case "double" if is_number:
            return float(value)
        case "integer" | "double" if isinstance(value, str):
            return parsed(own.variable, _KINDS[own.kind], value)
        case _:
            shown = "null" if value is None else type(value).__name__
            raise RunError(f"'{own.parameter}' has to be a JSON {own.kind}, not {shown}")
