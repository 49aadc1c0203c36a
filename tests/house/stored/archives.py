"""Workflows, segments and components as KNIME gets them: what the zip files hold, not how it is packed."""

import io
import re
import zipfile
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import get_args

from examples.knime_nodes import (
    Column,
    concatenate_node,
    table_creator,
)
from knime_mcp.audit.record import CallStatus
from knime_mcp.knwf import (
    CONFIGURATION_FACTORIES,
    Annotation,
    CanvasPosition,
    Component,
    ComponentFace,
    Config,
    Configuration,
    Connection,
    DeclaredPort,
    NodeState,
    PortOf,
    Segment,
    SettingsEntry,
    VariableControl,
    Workflow,
    WorkflowCredential,
    WorkflowVariable,
    configuration_node,
    edge_node,
    extension_node,
    segment_digest,
    write_component,
    write_segment,
    write_workflow,
)
from knime_mcp.knwf.configuration_nodes import DateKind
from knime_mcp.knwf.settings_xml import EntryType, array, string, to_xml
from knime_mcp.knwf.workflow_model import VariableType
from knime_mcp.tools.audit_workflow import save_audit_workflow
from knime_mcp.tools.tool_component import tool_component
from knime_mcp.types.texts import canonical_json
from knime_mcp.types.tool import MCPTool, WorkflowTool, to_json_text
from tests.audit.calls import record
from tests.types.knime_tables import executing

CHANGED = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
ODD = "a <b> & \"c\" 'd' %% \t\r\n \x01 ü 😀"
TABLE = Column("n", "int", (1, None))
SCHEMA = {
    "type": "object",
    "properties": {
        "query": {"type": "string", "description": "What to look for: ü"},
        "limit": {"type": "integer", "default": 5, "minimum": 1, "maximum": 9},
        "exact": {"type": "boolean", "default": True},
        "ratio": {"type": "number", "default": 0.5},
        "order": {"enum": ["up", "down"]},
        "day": {"type": "string", "format": "date"},
        "file": {"type": "string", "contentEncoding": "base64"},
        "page-2": {"type": "array", "items": {"type": "string"}},
        "password": {"type": "string", "format": "password"},
    },
    "required": ["query", "order", "day", "file"],
}
SEARCH = MCPTool(
    "crm search",
    "Finds",
    SCHEMA,
    "https://host.example/mcp?x=1#credential=prod&send_credentials_as=header&header_name=X-Key"
    "&header=X-Team:sales&transport=sse&digest=sha256:" + "ab" * 32,
    "search",
)
_VERSION = re.compile(rb'("extension_version_Internals" type="xstring" value=)"[\d.]+"')
FLOW = WorkflowTool("Flow", "Counts", {"n": {"type": "integer"}}, filestore_keys="segment")


def stored(folder: Path) -> Iterator[tuple[str, bytes]]:
    yield "settings of every type", to_xml(_settings())
    for workflow in (_everything(), _kinds_of_nodes()):
        write_workflow(workflow, folder / "w.knwf")
        yield from _members(f"workflow {workflow.name}", (folder / "w.knwf").read_bytes())
    segment = write_segment(_segment())
    yield from _members("segment", segment)
    yield "digest of the segment", segment_digest(segment).encode()
    own = Component(_part(), 2, 3)
    face = ComponentFace(description=ODD, icon=b"\x89PNG", inputs=(("In", ODD),), outputs=(("Out", ""),))
    for label, (component, looks) in {"component": (own, face), "component of a tool": _of_tool()}.items():
        write_component(component, looks, folder / f"{label}.knwf", changed=CHANGED)
        yield from _members(label, (folder / f"{label}.knwf").read_bytes())
    with executing() as stores:
        Path(stores.file_store_key_to_absolute_path("segment")).write_bytes(segment)
        saved = save_audit_workflow(_recorded(), folder / "audit.knwf", question="Why: ü?", answer="So.")
    yield "audit workflow: said", saved.text().encode()
    yield from _members("audit workflow", (folder / "audit.knwf").read_bytes())


def zipped(data: bytes) -> Iterator[tuple[str, bytes]]:
    """The entries of a zip file, and those of zip files in it; the first one tells how they stand there."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        yield "entries", "\n".join(map(_entry, archive.infolist())).encode()
        for name in archive.namelist():
            content = archive.read(name)
            if zipfile.is_zipfile(io.BytesIO(content)):
                yield from ((f"{name}: {part}", inner) for part, inner in zipped(content))
            else:
                yield name, _VERSION.sub(rb'\1"VERSION"', content)


def _entry(own: zipfile.ZipInfo) -> str:
    packing = "stored" if own.compress_type == zipfile.ZIP_STORED else "deflated"
    return f"{own.filename} {packing} {own.create_system} {own.external_attr:o} {own.date_time}"


def _members(label: str, data: bytes) -> Iterator[tuple[str, bytes]]:
    return ((f"{label}: {name}", content) for name, content in zipped(data))


def _settings() -> Config:
    numbers = {"xdouble": 0.1, "xfloat": float("-inf"), "xboolean": True, "xchar": "ü"}
    numbers |= dict.fromkeys(("xint", "xlong", "xshort", "xbyte"), -7)
    entries = [SettingsEntry(kind, kind, numbers.get(kind, ODD)) for kind in get_args(EntryType)]
    more = (SettingsEntry("null", "xstring", None), array("array", "xlong", (1, 2**40)), Config("empty"))
    return Config("settings.xml", (*entries, *more, Config(ODD.replace("\x01", ""), (string("k", ""),))))


def _everything() -> Workflow:
    node = extension_node(
        7,
        "Caller: ü",
        extension_id="org.example.ext",
        extension_node_id="a_node",
        version="1.2.3",
        title="An extension",
        vendor="Somebody",
        parameters={"model": {"url": ODD, "more": {"n": 1, "x": [1.5, None]}, "flags": [True], "none": None}},
        inputs=[
            DeclaredPort(name="First"),
            DeclaredPort(name="Tools", optional=True, present=0),
            DeclaredPort(name="Data", group=True, present=2),
            DeclaredPort(name="Login", type="PortType.CREDENTIAL", optional=True),
        ],
        outputs=[DeclaredPort(name="Results"), DeclaredPort(name="Picture", type="PortType.IMAGE")],
        variables=[
            VariableControl(("url",), used="u"),
            VariableControl(("more", "n"), used="n", exposed="m"),
        ],
        position=CanvasPosition(1, -2, 3, 4),
        annotation="label\nof two lines",
    )
    node = replace(node, description=ODD, other=(*node.other, Config("view", (string("v", "1"),))))
    values = {
        "STRING": ODD, "INTEGER": 1, "LONG": 2**40, "DOUBLE": 0.1, "BOOLEAN": True,
        "STRINGARRAY": ("a", ODD), "INTARRAY": (1, 2), "LONGARRAY": (2**40,), "DOUBLEARRAY": (0.1,),
        "BOOLEANARRAY": (True, False),
    }  # fmt: skip
    return Workflow(
        "Everything: ü",
        (table_creator(2, [TABLE], annotation="rows"), replace(node, state=NodeState.IDLE)),
        (Connection(2, 1, 7, node.input_port("Data", 1)), Connection(2, 0, 7, 0)),
        (Annotation(ODD, 1, 2, 3, 4, "text/html", 5, 6, 7, 8, "CENTER"), Annotation("plain")),
        (WorkflowCredential("prod", "me"), WorkflowCredential("test")),
        tuple(WorkflowVariable(kind.lower(), kind, values[kind]) for kind in get_args(VariableType)),
        ODD,
        files={"data/in.csv": b"a,b\n"},
        other=(Config("tableBackend", (string("class", "x"),)),),
    )


def _kinds_of_nodes() -> Workflow:
    """Each kind of Configuration node, with settings that are not the defaults."""
    settings = {
        "string": {"value": ODD, "pattern": "a.*", "message": "'?' is none", "multi_line": True},
        "integer": {"value": 3, "minimum": 1, "maximum": 9},
        "double": {"value": 0.5, "maximum": 1.5},
        "boolean": {"value": True, "as_number": True},
        "credentials": {"value": "me"},
        "choice": {"value": "a", "choices": ("a", ODD)},
        "date": {"value": "2026-01-31T12:00:00Z", "now": True},
        "file": {"value": "/data/in.csv"},
    }
    made = [
        Configuration(
            kind=kind,
            variable=f"v-{kind}",
            parameter=f"p-{kind}",
            label=ODD,
            description="ü",
            **settings[kind],
        )
        for kind in CONFIGURATION_FACTORIES.values()
    ]
    made += [
        Configuration(kind="date", variable="v", parameter="", value="2026-01-31T12:00:00Z", date=kind)
        for kind in get_args(DateKind)
        if kind != made[-2].date
    ]
    nodes = [
        *(configuration_node(number, own, annotation="a") for number, own in enumerate(made, 1)),
    ]
    return Workflow("Kinds of nodes", tuple(nodes))


def _segment() -> Segment:
    workflow = Workflow("Word count", (table_creator(7, [TABLE]), concatenate_node(8)))
    return Segment(
        workflow=workflow,
        inputs=((PortOf(8, 1), PortOf(8, 2)), ()),
        outputs=(PortOf(7, 1), PortOf(8, 1)),
        behind={"mcp-tool.json": b"{}"},
    )


def _part() -> Workflow:
    nodes = (
        table_creator(1, [TABLE]),
        edge_node(2, "input", (("In", ODD),)),
        edge_node(3, "output", (("Out", "ü"),)),
    )
    return Workflow("Part: ü?", nodes, (Connection(1, 1, 3, 1),))


def _of_tool() -> tuple[Component, ComponentFace]:
    component, face = tool_component(SEARCH)
    return component, replace(face, icon=b"\x89PNG")


def _recorded() -> list:
    """Calls of every status, an argument that is a secret, workflows with and without their file."""
    arguments = canonical_json({"query": ODD, "limit": 3, "more": {"x": None}})
    marked = canonical_json({"query": "x", "password": "⟨secret 0123456789ab⟩"})
    secrets = '{"arguments":{"/password":["0123456789ab"]}}'
    search = {
        "tool": to_json_text(SEARCH),
        "tool_name": SEARCH.name,
        "tool_type": "mcp",
        "server": SEARCH.route.url,
        "digest": SEARCH.digest,
    }
    of_flow = {"tool": to_json_text(FLOW), "tool_name": "Flow", "tool_type": "workflow", "server": None}
    return [
        *(
            record(1, call=call, status=status, arguments=arguments, iteration=1 + call // 4, **search)
            for call, status in enumerate(CallStatus, 1)
        ),
        record(1, call=20, arguments=marked, secrets=secrets, **search),
        record(1, call=21, arguments='{"n":3}', **of_flow, digest=None),
        record(4, call=22, arguments='{"n":3}'),
        record(1, call=23, tool=None, server=None, tool_name="nothing", digest=None),
    ]
