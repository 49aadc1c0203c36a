"""Runs KNIME's Configuration nodes, and reads the values that callers give them."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, Final, cast

from ....knwf import read_configuration
from ..errors import RunError
from ..variables import CredentialValue, FlowVariable, VariableKind, parsed
from .node_kind import Done, Ports, Ready

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ....knwf import Configuration, NativeNode
    from .node_kind import Job

_KINDS: Final[Mapping[str, VariableKind]] = {
    "string": "STRING",
    "integer": "INTEGER",
    "double": "DOUBLE",
    "boolean": "BOOLEAN",
    "credentials": "CREDENTIALS",
}


class ConfigurationNode:
    """Runs Configuration nodes, which make a flow variable from the caller's value or the default."""

    def ready(self, node: NativeNode) -> Ready:
        """See `NodeKind`."""
        read_configuration(node)
        return Ready(Ports(outputs=("Flow Variable Output",)))

    def run(self, job: Job) -> Done:
        """See `NodeKind`."""
        config = read_configuration(job.node)
        if config.kind == "credentials":
            variable = FlowVariable(config.variable, "CREDENTIALS", _credential(config, job))
            return Done(outputs=(None,), variables=(variable,))
        value = job.world.values.get(job.node.id, config.value)
        validate(config, value)
        kind = _KINDS[config.kind]
        if config.as_number:
            kind, value = "INTEGER", int(bool(value))
        return Done(outputs=(None,), variables=(FlowVariable(config.variable, kind, value),))


def _credential(config: Configuration, job: Job) -> CredentialValue:
    given = job.world.values.get(job.node.id)
    found = given if isinstance(given, CredentialValue) else job.world.find_credential(config.variable)
    if found is None:
        stored = (
            " (the password in the file is encrypted, which only KNIME reads)"
            if config.saved_password
            else ""
        )
        raise RunError(f"There is no password for the credentials '{config.variable}'{stored}")
    return CredentialValue(found.login or str(config.value), found.password)


def validate(config: Configuration, value: Any) -> None:
    """Checks a value, with the same rules as the node.

    Raises:
        RunError: The value is not allowed.
    """
    if config.minimum is not None and value < config.minimum:
        raise RunError(
            f"The set {config.kind} {value} is smaller than the allowed minimum of {config.minimum:g}"
        )
    if config.maximum is not None and value > config.maximum:
        raise RunError(
            f"The set {config.kind} {value} is bigger than the allowed maximum of {config.maximum:g}"
        )
    if config.kind == "string" and config.pattern:
        try:
            matches = re.fullmatch(config.pattern, value) is not None
        except re.error as error:
            raise RunError(
                f"The pattern '{config.pattern}' of '{config.variable}' cannot be read here: {error}",
                fix="Java's regular expressions differ in places; run the workflow in KNIME",
            ) from None
        if not matches:
            raise RunError(
                config.message.replace("?", value) or f"'{value}' does not match '{config.pattern}'"
            )


def from_text(config: Configuration, text: str) -> Any:
    """The value from a text on the command line.

    Raises:
        RunError: The text is not a value of this type, or the value is not allowed.
    """
    if config.kind == "credentials":
        raise RunError(
            f"'{config.variable}' are credentials, which do not belong on a command line",
            fix="Put them into the environment or the keyring: --help says how",
        )
    value = parsed(config.variable, _KINDS[config.kind], text)
    validate(config, value)
    return value


def from_json(config: Configuration, value: Any) -> Any:
    """The value from a tool call's JSON, with KNIME's rules.

    Raises:
        RunError: The JSON is not a value of this type, or the value is not allowed.
    """
    if isinstance(value, dict):
        inner = cast("dict[str, Any]", value)
        if config.kind == "credentials":
            return CredentialValue(str(inner.get("username") or ""), str(inner.get("password") or ""))
        if config.kind not in inner:
            raise RunError(f"Expected {config.kind} value for key '{config.kind}'")
        value = inner[config.kind]
        if config.kind == "boolean" and value is None:
            value = False
    read = _read(config, value)
    validate(config, read)
    return read


def _read(config: Configuration, value: Any) -> Any:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    match config.kind:
        case "string" if isinstance(value, str):
            return value
        case "string" if is_number:
            return json.dumps(value)
        case "boolean" if isinstance(value, bool):
            return value
        case "boolean" if isinstance(value, str):
            return value.lower() == "true"  # KNIME reads every other text as false
        case "integer" if is_number:
            return parsed(config.variable, "INTEGER", str(int(value)))  # decimals are cut off
        case "double" if is_number:
            return float(value)
        case "integer" | "double" if isinstance(value, str):
            return parsed(config.variable, _KINDS[config.kind], value)
        case _:
            shown = "null" if value is None else type(value).__name__
            raise RunError(f"'{config.parameter}' has to be a JSON {config.kind}, not {shown}")
