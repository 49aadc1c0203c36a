"""KNIME's Configuration nodes: each makes one flow variable, which a caller of the workflow can set. Pure.

The settings are those of KNIME's own nodes (``org.knime.js.base.node.configuration.input``). A person who
runs the workflow, a component's dialog and an agent that calls the workflow as a tool set the same parameter.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, Literal, cast

from .settings_xml import (
    Config,
    EntryType,
    KnwfError,
    SettingsEntry,
    array,
    array_values,
    boolean,
    integer,
    string,
)
from .workflow_model import KNIME_VENDOR, ORIGIN, CanvasPosition, NativeNode, node_label

if TYPE_CHECKING:
    from collections.abc import Mapping

ConfigurationKind = Literal["string", "integer", "double", "boolean", "credentials", "choice", "date", "file"]
ConfigurationValue = str | int | float | bool
DateKind = Literal["LOCAL_DATE", "LOCAL_TIME", "LOCAL_DATE_TIME", "ZONED_DATE_TIME"]

_PACKAGE: Final = "org.knime.js.base.node.configuration"
CONFIGURATION_FACTORIES: Final[Mapping[str, ConfigurationKind]] = {
    f"{_PACKAGE}.input.string.StringDialogNodeFactory": "string",
    f"{_PACKAGE}.input.integer.IntegerDialogNodeFactory": "integer",
    f"{_PACKAGE}.input.dbl.DoubleDialogNodeFactory": "double",
    f"{_PACKAGE}.input.bool.BooleanDialogNodeFactory": "boolean",
    f"{_PACKAGE}.input.credentials.CredentialsDialogNodeFactory": "credentials",
    f"{_PACKAGE}.selection.single.SingleSelectionDialogNodeFactory": "choice",
    f"{_PACKAGE}.input.date.DateDialogNodeFactory": "date",
    f"{_PACKAGE}.input.fileupload.FileDialogNodeFactory": "file",
}
_NAMES: Final[Mapping[ConfigurationKind, str]] = {
    "choice": "Single Selection Configuration",
    "date": "Date&Time Configuration",
    "file": "Local File Browser Configuration",
}
#: Where the value stands in the settings of kinds that are not called like it.
VALUE_KEYS: Final[Mapping[ConfigurationKind, str]] = {
    "choice": "variable_value",
    "date": "date&time",
    "file": "path",
}
_BUNDLE: Final = ("KNIME Quick Form Nodes", "org.knime.js.quickforms", KNIME_VENDOR)
_ENTRY_TYPES: Final[Mapping[ConfigurationKind, EntryType]] = {
    "string": "xstring",
    "integer": "xint",
    "double": "xdouble",
    "boolean": "xboolean",
}
#: The names of parameters that KNIME allows: DialogNode.PARAMETER_NAME_PATTERN in knime-core.
PARAMETER_NAME: Final = re.compile(r"[a-zA-Z](?:[-_]?[a-zA-Z0-9]+)*(?<![0-9])")


@dataclass(frozen=True, slots=True, kw_only=True)
class Configuration:
    """The settings of a Configuration node."""

    kind: ConfigurationKind  # type of the value
    variable: str  # the flow variable that the node makes
    parameter: str  # the parameter's name for callers
    #: The default; the user name for credentials, the path for a file, and for a date text as Java writes a
    #: moment with a zone: 2025-01-01T10:42:08+01:00[Europe/Berlin].
    value: ConfigurationValue
    label: str = "Label"  # the name that people see
    description: str = ""  # The purpose of the parameter. Agents read it
    minimum: float | None = None  # the smallest number allowed, or None
    maximum: float | None = None  # the largest number allowed, or None
    pattern: str = ""  # regular expression (Java's) that the whole text must match; "" for any text
    message: str = ""  # the error for a text that does not match; ``?`` stands for the text
    as_number: bool = False  # true if a boolean becomes the integer 1 or 0
    multi_line: bool = False  # whether a text is edited in several lines
    choices: tuple[str, ...] = ()  # the texts of which one is chosen
    date: DateKind = "LOCAL_DATE_TIME"  # the part of the moment that the variable has
    now: bool = False  # whether the default of a date is the moment of the execution
    saved_password: bool = False  # true if the file holds an encrypted password, which only KNIME can read


def configuration_node(
    node_id: int, configuration: Configuration, *, position: CanvasPosition = ORIGIN, annotation: str = ""
) -> NativeNode:
    """Makes a Configuration node; KnwfError if KNIME would refuse its settings."""
    if not configuration.variable:
        raise KnwfError(f"node {node_id}: the name of its flow variable is empty")
    if configuration.parameter and not PARAMETER_NAME.fullmatch(configuration.parameter):
        what = "letters, digits, single dashes and underscores; letters at both ends"
        name = f"node {node_id}: {configuration.parameter!r}"
        raise KnwfError(f"{name} cannot be the name of a parameter: use {what}")
    model = (
        Config("defaultValue", _default(configuration, node_id)),
        boolean("hideInDialog", value=False),
        string("parameterName", configuration.parameter),
        string("label", configuration.label),
        string("description", configuration.description),
        boolean("required", value=True),
        string("flowVariableName", configuration.variable),
        *_details(configuration),
    )
    return NativeNode(
        id=node_id,
        name=_NAMES.get(configuration.kind, f"{configuration.kind.capitalize()} Configuration"),
        factory=next(name for name, kind in CONFIGURATION_FACTORIES.items() if kind == configuration.kind),
        model=Config("model", model),
        inputs=0,
        outputs=1,
        position=position,
        annotation=annotation,
        bundle=_BUNDLE,
    )


def _default(settings: Configuration, node_id: int) -> tuple[SettingsEntry | Config, ...]:
    if settings.kind == "credentials":
        login = (
            boolean("isCredentials_Internals", value=True),
            string("name", ""),
            string("login", str(settings.value)),
        )
        return (
            # A password never goes into a file.
            boolean("isSavePassword", value=False),
            Config("credentialsValue", login),
            boolean("useServerLoginCredentials", value=False),
        )
    if not _fits(settings.kind, settings.value):
        raise KnwfError(f"node {node_id}: {settings.value!r} is no {settings.kind}")
    match settings.kind:
        case "choice":
            return (array("variable_value", "xstring", (str(settings.value),)),)
        case "date":
            return (string("date&time", str(settings.value)),)
        case "file":
            return (
                string("path", str(settings.value)),
                boolean("pathValid", value=True),
                string("fileName", ""),
                boolean("localUpload", value=False),
            )
        case kind:
            value = float(settings.value) if kind == "double" else settings.value
            return (SettingsEntry(kind, _ENTRY_TYPES[kind], value),)


def _fits(kind: ConfigurationKind, value: ConfigurationValue) -> bool:
    match kind:
        case "string" | "credentials" | "choice" | "date" | "file":
            return isinstance(value, str)
        case "boolean":
            return isinstance(value, bool)
        case "integer":
            return isinstance(value, int) and not isinstance(value, bool)
        case "double":
            return isinstance(value, int | float) and not isinstance(value, bool)


def _details(settings: Configuration) -> tuple[SettingsEntry | Config, ...]:
    match settings.kind:
        case "string":
            return (
                string("regex", settings.pattern),
                string("error_message", settings.message),
                string("editorType", "Multi-line" if settings.multi_line else "Single-line"),
                integer("multilineEditorWidth", 60),
                integer("multilineEditorHeight", 5),
            )
        case "integer" | "double":
            convert = int if settings.kind == "integer" else float
            minimum = 0 if settings.minimum is None else settings.minimum
            maximum = 100 if settings.maximum is None else settings.maximum
            return (
                boolean("useMin", settings.minimum is not None),
                boolean("useMax", settings.maximum is not None),
                SettingsEntry("min", _ENTRY_TYPES[settings.kind], convert(minimum)),
                SettingsEntry("max", _ENTRY_TYPES[settings.kind], convert(maximum)),
            )
        case "boolean":
            return (boolean("pushIntVar", settings.as_number),)
        case "credentials":
            return (
                string("error_message", settings.message),
                boolean("prompt_username", value=True),
                boolean("use_server_login", value=False),
                boolean("no_display", value=False),
                string("usernameLabel", "User"),
                string("passwordLabel", "Password"),
            )
        case "choice":
            return (
                array("possible_choices", "xstring", settings.choices),
                string("type", "Dropdown"),
                boolean("limit_number_visible_options", value=False),
                integer("number_visible_options", 10),
            )
        case "date":
            unused = ("use_min", "use_max", "use_min_exec_time", "use_max_exec_time")
            return (
                boolean("show_now", value=True),
                string("granularity", "SHOW_SECONDS"),
                *(boolean(key, value=False) for key in unused),
                boolean("use_default_exec_time", settings.now),
                string("min", str(settings.value)),
                string("max", str(settings.value)),
                string("date_time_type", settings.date),
            )
        case "file":
            return (
                array("types", "xstring", ()),
                string("error_message", ""),
                integer("timeout", 1000),
                boolean("disable_output", value=False),
            )


def read_configuration(node: NativeNode) -> Configuration:
    """Reads the settings of a Configuration node; KnwfError for other nodes, and incomplete ones."""
    kind, model = CONFIGURATION_FACTORIES.get(node.factory), node.model
    if kind is None or model is None:
        raise KnwfError(f"{node_label(node)} is no Configuration node with settings")
    variable = model.text("flowVariableName")
    default = model.config("defaultValue") or Config("defaultValue")
    if not variable:
        raise KnwfError(f"{node_label(node)} does not say which flow variable it makes")
    value = _value(kind, default)
    if kind in ("string", "choice", "file") and value is None:
        value = ""  # KNIME turns a missing text into an empty one
    if value is None or not _fits(kind, value):
        raise KnwfError(f"{node_label(node)}: its default value, {value!r}, is no {kind}")
    return Configuration(
        kind=kind,
        variable=variable,
        parameter=model.text("parameterName"),
        value=value,
        label=model.text("label"),
        description=model.text("description"),
        minimum=_limit(model, "useMin", "min"),
        maximum=_limit(model, "useMax", "max"),
        pattern=model.text("regex") if model.text("editorType", "Single-line") == "Single-line" else "",
        message=model.text("error_message"),
        as_number=model.value("pushIntVar") is True,
        multi_line=kind == "string" and model.text("editorType", "Single-line") != "Single-line",
        choices=_texts(model, "possible_choices") if kind == "choice" else (),
        date=cast("DateKind", model.text("date_time_type", "LOCAL_DATE_TIME")),
        now=model.value("use_default_exec_time") is True,
        saved_password=kind == "credentials" and _has_password(default),
    )


def with_value(node: NativeNode, value: ConfigurationValue) -> NativeNode:
    """The same Configuration node with another default; KnwfError for credentials, or another type."""
    configuration = read_configuration(node)
    if configuration.kind == "credentials" or node.model is None:
        raise KnwfError(f"{node_label(node)} holds credentials")
    default = Config("defaultValue", _default(replace(configuration, value=value), node.id))
    children = tuple(default if child.key == default.key else child for child in node.model)
    return replace(node, model=Config(node.model.key, children))


def _value(kind: ConfigurationKind, default: Config) -> Any:
    match kind:
        case "credentials":
            return _login(default)
        case "choice":
            return next(iter(_texts(default, "variable_value")), None)
        case _:
            return default.value(VALUE_KEYS.get(kind, kind))


def _texts(config: Config, key: str) -> tuple[str, ...]:
    stored = config.config(key)
    return () if stored is None else tuple(str(own) for own in array_values(stored) if own is not None)


def _limit(model: Config, used: str, key: str) -> float | None:
    value = model.value(key)
    return cast("float", value) if model.value(used) is True and isinstance(value, int | float) else None


def _login(default: Config) -> str:
    inner = default.config("credentialsValue")
    return default.text("username") if inner is None else inner.text("login")  # "username": before 5.2


def _has_password(default: Config) -> bool:
    places = [default, *default.configs()]
    return any(
        isinstance(e, SettingsEntry) and e.type == "xpassword" and e.value for place in places for e in place
    )
