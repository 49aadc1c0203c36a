"""KNIME's String to Path node: makes one from its settings, and reads them. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from .nodes import KNIME_VENDOR
from .settings import Config, Entry, KnwfError, boolean, integer, string
from .workflow import ORIGIN, NativeNode, PortGroup, Position, model_of, node_label

STRING_TO_PATH_FACTORY: Final = "org.knime.filehandling.utility.nodes.stringtopath.StringToPathNodeFactory"
#: The port group for a connection to a file system, which another node provides.
CONNECTION_GROUP: Final = "File System Connection"
_BUNDLE: Final = ("KNIME Filehandling Nodes", "org.knime.filehandling.utility.nodes", KNIME_VENDOR)
_URL_TIMEOUT: Final = 10_000


@dataclass(frozen=True, slots=True)
class PathConversion:
    """The settings of a String to Path node.

    Attributes:
        column: The column with the texts.
        category: The kind of file system of the paths: ``RELATIVE``, ``LOCAL``, ….
        specifier: The file system of that kind: ``knime.workflow`` (paths start at the workflow, ``../x`` is
            beside it), ``knime.workflow.data`` (its data area), ``knime.space``, …; None if the kind has only
            one.
        new_column: Name of the added column; None replaces `column`.
        must_exist: Whether a path without a file or folder fails.
        fail_on_missing: Whether a missing cell fails; otherwise its path is missing.
    """

    column: str
    category: str = "RELATIVE"
    specifier: str | None = "knime.workflow"
    new_column: str | None = "Path"
    must_exist: bool = False
    fail_on_missing: bool = True


def string_to_path_node(
    node_id: int, settings: PathConversion, *, position: Position = ORIGIN, annotation: str = ""
) -> NativeNode:
    """Makes a String to Path node."""
    model = (
        *_setting("file_system", _file_system(settings)),
        *_setting("string", string("selected_column_name", settings.column)),
        *_setting("boolean", boolean("fail_on_missing_file_folder", value=settings.must_exist)),
        *_setting("boolean", boolean("fail_on_missing_values", value=settings.fail_on_missing)),
        *_setting(
            "string",
            string(
                "generated_column_mode", "REPLACE_SELECTED" if settings.new_column is None else "APPEND_NEW"
            ),
        ),
        *_setting("string", string("appended_column_name", settings.new_column or "Path")),
    )
    return NativeNode(
        id=node_id,
        name="String to Path",
        factory=STRING_TO_PATH_FACTORY,
        model=Config("model", model),
        inputs=1,
        outputs=1,
        port_groups=(PortGroup(CONNECTION_GROUP), PortGroup("Data Table"), PortGroup("Output table")),
        position=position,
        annotation=annotation,
        bundle=_BUNDLE,
    )


def _setting(kind: str, setting: Entry | Config) -> tuple[Config, Entry | Config]:
    """A setting, after the internals that KNIME's settings models write before it."""
    internals = (string("SettingsModelID", f"SMID_{kind}"), boolean("EnabledStatus", value=True))
    return Config(f"{setting.key}_Internals", internals), setting


def _file_system(settings: PathConversion) -> Config:
    relative = settings.specifier if settings.category == "RELATIVE" else None
    chooser = (
        boolean("has_fs_port", value=False),
        boolean("overwritten_by_variable", value=False),
        string("convenience_fs_category", settings.category),
        string("relative_to", relative or "knime.workflow"),
        string("mountpoint", "LOCAL"),
        string("spaceId", ""),
        string("spaceName", ""),
        integer("custom_url_timeout", _URL_TIMEOUT),
        boolean("connected_fs", value=True),
    )
    location = (
        boolean("location_present", value=True),
        string("file_system_type", settings.category),
        string("file_system_specifier", settings.specifier),
    )
    return Config(
        "file_system", (Config("file_system_chooser__Internals", chooser), Config("location_spec", location))
    )


def read_string_to_path(node: NativeNode) -> PathConversion:
    """Reads the settings of a String to Path node.

    Raises:
        KnwfError: The node is of another kind, or its settings are incomplete.
    """
    model = model_of(node, STRING_TO_PATH_FACTORY, "String to Path node")
    location = (model.config("file_system") or model).config("location_spec")
    if location is None or not model.text("selected_column_name"):
        raise KnwfError(f"{node_label(node)} does not say which column it converts to which file system")
    replaces = model.text("generated_column_mode") == "REPLACE_SELECTED"
    return PathConversion(
        column=model.text("selected_column_name"),
        category=location.text("file_system_type"),
        specifier=location.text("file_system_specifier") or None,
        new_column=None if replaces else model.text("appended_column_name", "Path"),
        must_exist=model.value("fail_on_missing_file_folder") is True,
        fail_on_missing=model.value("fail_on_missing_values") is not False,
    )
