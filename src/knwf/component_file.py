"""A component's own file (``settings.xml``), the two nodes at its edge, and components in files of their own.

A component is a workflow behind a node. *Component Input* inside has the inputs of the component as its
outputs, *Component Output* the outputs as its inputs, and both say which flow variables cross the edge. What
a person set in the component's dialog stands in its own file, by parameter and number of the Configuration
node. KNIME's side: `FileSubNodeContainerPersistor`, `SubNodeContainer` and `VirtualSubNodeInputNodeModel` in
https://github.com/knime/knime-core.

A file of its own has what KNIME's *Share component* writes: ``template.knime`` beside the workflow says that
it is a component, and ``component-metadata.xml`` how it looks (``metadata-1.0.xsd`` in
https://github.com/knime/knime-shared, where the order of the elements counts).
"""

from __future__ import annotations

import base64
import zipfile
import zlib
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

from .knwf_archive import write_archive, zipped_folder
from .settings_xml import (
    NOT_XML,
    Config,
    array,
    boolean,
    from_xml,
    integer,
    string,
    to_xml,
    xml_attribute,
    xml_text,
)
from .workflow_file import folder_name, workflow_files
from .workflow_model import (
    FORMAT_VERSION,
    KNIME_VENDOR,
    ORIGIN,
    CanvasPosition,
    NativeNode,
    NodeState,
    Workflow,
    object_class,
)

if TYPE_CHECKING:
    import os
    from collections.abc import Sequence

_PACKAGE: Final = "org.knime.core.node.workflow.virtual.subnode"
COMPONENT_INPUT_FACTORY: Final = f"{_PACKAGE}.VirtualSubNodeInputNodeFactory"
COMPONENT_OUTPUT_FACTORY: Final = f"{_PACKAGE}.VirtualSubNodeOutputNodeFactory"
#: The file that makes a folder with a workflow a shared component.
TEMPLATE_FILE: Final = "template.knime"
_METADATA_FILE: Final = "component-metadata.xml"
_METADATA_NAMESPACE: Final = "http://www.knime.org/core/node/workflow/metadata/v1.0"
_LONGEST_TEMPLATE: Final = 1 << 16
_MOMENT: Final = "%Y-%m-%d %H:%M:%S %z"
_CORE: Final = ("KNIME Core API", "org.knime.core", KNIME_VENDOR)


@dataclass(frozen=True, slots=True)
class Component:
    #: Its Configuration nodes have the values that were set in the component's dialog.
    workflow: Workflow
    entry: int  # the id of *Component Input*
    exit: int  # the id of *Component Output*


@dataclass(frozen=True, slots=True, kw_only=True)
class ComponentFace:
    """What people see of a component without opening it."""

    description: str = ""  # plain text
    kind: Literal["Source", "Manipulator", "Sink", "Visualizer", "Other"] = "Other"  # sets the color
    icon: bytes = b""  # PNG of 16 x 16 pixels; empty for KNIME's own
    inputs: tuple[tuple[str, str], ...] = ()  # name and description of each input, all of which are tables
    outputs: tuple[tuple[str, str], ...] = ()  # likewise


def edge_node(
    node_id: int,
    side: Literal["input", "output"],
    ports: Sequence[tuple[str, str]],
    *,
    position: CanvasPosition = ORIGIN,
) -> NativeNode:
    """Makes *Component Input* or *Component Output*, which let no flow variables cross.

    ``ports`` are names and descriptions, see `ComponentFace`.
    """
    is_input = side == "input"
    pattern = (
        string("pattern", ""),
        string("type", "Wildcard"),
        boolean("caseSensitive", value=True),
        boolean("excludeMatching", value=False),
    )
    nothing = (
        string("filter-type", "STANDARD"),
        array("included_names", "xstring", ()),
        array("excluded_names", "xstring", ()),
        string("enforce_option", "EnforceInclusion"),
        Config("name_pattern", pattern),
    )
    last = (
        string("sub-node-description", "")
        if is_input
        else boolean("allowOutputNodeToCompleteBeforeContent", value=False)
    )
    model = (
        Config("variable-filter", nothing),
        string("variable-prefix", None),
        array("port-names", "xstring", (name for name, _ in ports)),
        array("port-descriptions", "xstring", (about for _, about in ports)),
        last,
    )
    return NativeNode(
        id=node_id,
        name="Component Input" if is_input else "Component Output",
        factory=COMPONENT_INPUT_FACTORY if is_input else COMPONENT_OUTPUT_FACTORY,
        factory_settings=Config("factory_settings", _ports("port", len(ports))),
        model=Config("model", model),
        inputs=0 if is_input else len(ports),
        outputs=len(ports) if is_input else 0,
        position=position,
        bundle=_CORE,
        other=(boolean("isDeletable", value=False), string("factory-id-uniquifier", None)),
    )


def _ports(name: str, count: int) -> tuple[Config, ...]:
    table = Config("type", (string("object_class", object_class("PortType.TABLE")),))
    return tuple(Config(f"{name}_{place}", (integer("index", place), table)) for place in range(count))


def write_component(
    component: Component, face: ComponentFace, path: str | os.PathLike[str], *, changed: datetime
) -> None:
    """Writes a component as a file of its own (``.knwf``), which KNIME imports as a shared component.

    ``changed`` is the moment by which KNIME finds out, for a component that is linked in a workflow, that the
    file is newer. A file that says the same already is left as it is. KnwfError if `check` finds an error.
    """
    folder = folder_name(component.workflow.name)
    # KNIME offers an update of every linked copy when the time in the file is another one, so it changes
    # only with the component.
    before = _moment_of(Path(path), folder)
    if before is not None:
        same = zipped_folder(folder, _component_files(component, face, before))
        if same == Path(path).read_bytes():
            return
    write_archive(path, folder, _component_files(component, face, changed))


def _component_files(component: Component, face: ComponentFace, changed: datetime) -> dict[str, bytes]:
    template = Config(
        "workflow_template_information",
        (
            string("role", "Template"),
            string("timestamp", changed.strftime(_MOMENT)),
            string("sourceURI", None),
            string("templateType", "SubNode"),
        ),
    )
    settings = (
        string("node_file", "settings.xml"),
        Config("flow_stack"),
        Config("internal_node_subsettings", (string("memory_policy", "CacheSmallInMemory"),)),
        Config("model"),
        Config("variables"),
        string("customDescription", None),
        string("state", NodeState.CONFIGURED),
        string("workflow-file", "workflow.knime"),
        integer("virtual-in-ID", component.entry),
        Config("inports", _ports("inport", len(face.inputs))),
        integer("virtual-out-ID", component.exit),
        Config("outports", _ports("outport", len(face.outputs))),
        template,
        string("layoutJSON", '{"parentLayoutLegacyMode":false}'),
        string("configurationLayoutJSON", "{}"),
        boolean("hideInWizard", value=False),
        string("customCSS", ""),
    )
    return workflow_files(component.workflow) | {
        TEMPLATE_FILE: to_xml(Config("Template", (string("version", FORMAT_VERSION), template))),
        "settings.xml": to_xml(Config("settings.xml", settings)),
        _METADATA_FILE: _metadata(face, changed),
    }


def _metadata(face: ComponentFace, changed: datetime) -> bytes:
    def group(tag: str, ports: Sequence[tuple[str, str]]) -> str:
        inner = "".join(
            f'        <port name="{xml_attribute(NOT_XML.sub("", name))}">{xml_text(about)}</port>\n'
            for name, about in ports
        )
        return f"    <{tag}>\n{inner}    </{tag}>\n" if ports else f"    <{tag}/>\n"

    icon = f"    <icon>{base64.b64encode(face.icon).decode()}</icon>\n" if face.icon else ""
    return (
        '<?xml version="1.0" encoding="UTF-8"?>\n'
        f'<component-metadata content-type="text/plain" xmlns="{_METADATA_NAMESPACE}">\n'
        f"    <last-modified>{changed.isoformat(timespec='milliseconds')}</last-modified>\n"
        f"    <description>{xml_text(face.description)}</description>\n"
        f"    <component-type>{face.kind}</component-type>\n{icon}"
        f"{group('in-ports', face.inputs)}{group('out-ports', face.outputs)}</component-metadata>\n"
    ).encode()


def _moment_of(path: Path, folder: str) -> datetime | None:
    """The moment in the file of a shared component; None if it says none, or is none."""
    try:
        with zipfile.ZipFile(path) as archive, archive.open(f"{folder}/{TEMPLATE_FILE}") as file:
            root = from_xml(file.read(_LONGEST_TEMPLATE), TEMPLATE_FILE)
        about = root.config("workflow_template_information")
        return None if about is None else datetime.strptime(about.text("timestamp"), _MOMENT)
    except (OSError, ValueError, KeyError, RuntimeError, zipfile.BadZipFile, zlib.error):
        return None
