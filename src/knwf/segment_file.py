"""The workflow of a workflow tool: KNIME's *segment*, in the first file store of the tool's cell. Pure.

It is a zip file of ``metadata.xml``, which says where the ports are, and then ``workflow.bin``, a zip file
of the workflow. KNIME writes both as streams that it does not finish: without the directory that a zip file
has at its end, so that Python's zipfile cannot read them. It reads whole zip files as well, and so do we.
KNIME stops reading after ``workflow.bin``; what stands behind it is kept by all nodes of KNIME, but unread.
"""

from __future__ import annotations

import hashlib
import json
import struct
import zlib
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from .knwf_archive import is_unsafe, zipped, zipped_folder
from .settings_xml import Config, KnwfError, boolean, from_xml, integer, string, to_xml
from .workflow_file import METADATA_FILE, folder_name, read_files, workflow_files
from .workflow_model import object_class

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from .settings_xml import SettingsEntry
    from .workflow_model import Workflow

_METADATA: Final = "metadata.xml"
_WORKFLOW: Final = "workflow.bin"
# https://pkware.cachefly.net/webdocs/casestudies/APPNOTE.TXT, 4.3.7 and 4.3.9
_HEADER: Final = struct.Struct("<4sHHHHHIIIHH")
_LOCAL, _DESCRIPTOR = b"PK\3\4", b"PK\7\10"
_STORED, _DEFLATED = 0, 8
_SIZE_FOLLOWS, _UTF8 = 0x8, 0x800

#: Of a zip file, after decompression: bombs end here.
MOST_FILES, MOST_IN_A_FILE, MOST_BYTES = 100_000, 256 << 20, 512 << 20

#: What of a node's settings is not what it does: its names, which a release may change, its state, and who
#: made it. Deeper down nothing is left out, as there a node may call anything so.
_PASSING: Final = frozenset(
    (
        *("name", "node-name", "customName", "customDescription", "nodeAnnotation", "node_file"),
        *("node-bundle-name", "node-bundle-vendor", "node-bundle-version"),
        *("node-feature-name", "node-feature-vendor", "node-feature-version", "factory-id-uniquifier"),
        *("flow_stack", "state", "hasContent", "nodecontainer_message", "execution.job", "job.manager.dir"),
    )
)
#: The same of a workflow, and of what it says of its nodes, connections and ports.
_PASSING_IN_WORKFLOWS: Final = frozenset(
    (
        *("name", "customDescription", "state", "annotations", "authorInformation"),
        *("created_by", "created_by_nightly", "workflow_editor_settings", "ui_settings", "ui_classname"),
    )
)
_PARTS_OF_WORKFLOWS: Final = ("nodes", "connections", "meta_in_ports", "meta_out_ports")
_WORKFLOW_FILES: Final = ("workflow.knime", "template.knime")
_SETTINGS: Final = ("settings.xml", *_WORKFLOW_FILES)
#: Files that KNIME makes of the others, and that describe the workflow; the tool's own description is in its
#: cell.
_MADE: Final = frozenset(
    (
        *(".artifacts", "workflow.svg", "workflowset.meta", ".knimeLock", ".savedWithData"),
        *(METADATA_FILE, "component-metadata.xml"),
    )
)


@dataclass(frozen=True, slots=True)
class PortOf:
    """A port of a node in a segment; 0 is the port for flow variables."""

    node: int
    index: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """A workflow without its input and output nodes, and where their connections ended."""

    workflow: Workflow
    inputs: tuple[tuple[PortOf, ...], ...] = ()  # for each input of the tool the ports that get its table
    outputs: tuple[PortOf, ...] = ()  # for each output, that of the message included, the port that has it
    behind: Mapping[str, bytes] = field(default_factory=dict[str, bytes])  # entries that KNIME does not read


def read_segment(data: bytes) -> Segment:
    """Reads a segment; KnwfError if the bytes are no zip stream, unsafe, too large, or no segment."""
    entries = _entries(data)
    if list(entries)[:2] != [_METADATA, _WORKFLOW]:
        raise KnwfError(f"it is no workflow segment: it starts with {', '.join(list(entries)[:2])}")
    metadata = from_xml(entries.pop(_METADATA), _METADATA)
    name, files = _workflow_of(entries.pop(_WORKFLOW))
    return Segment(
        workflow=read_files(metadata.text("name") or name, files),
        inputs=tuple(
            tuple(map(_port, (own.config("connected_ports") or own).configs()))
            for own in _ports(metadata, "input")
        ),
        outputs=tuple(_port(own.config("connected_port") or own) for own in _ports(metadata, "output")),
        behind=entries,
    )


def write_segment(segment: Segment) -> bytes:
    """Writes a segment, always the same bytes for the same; KnwfError if `check` finds an error in it."""
    inner = zipped_folder(folder_name(segment.workflow.name), workflow_files(segment.workflow))
    table = (
        string("portObjectClass", object_class("PortType.TABLE")),
        boolean("isOptional", value=False),
    )
    kind = Config("type", table)
    inputs = (Config(f"input_{i}", (kind, _joined(ports))) for i, ports in enumerate(segment.inputs))
    outputs = (
        Config(f"output_{i}", (kind, _port_settings("connected_port", port)))
        for i, port in enumerate(segment.outputs)
    )
    metadata = (
        string("name", segment.workflow.name),
        Config("ref_node_ids", (integer("num_ids", 0),)),
        Config("input_ports", (integer("num_inputs", len(segment.inputs)), *inputs)),
        Config("output_ports", (integer("num_outputs", len(segment.outputs)), *outputs)),
    )
    # In this order: KNIME reads the stream once, and wants the metadata first.
    entries = {_METADATA: to_xml(Config(_METADATA, metadata)), _WORKFLOW: inner}
    # Packed already.
    return zipped(entries | dict(segment.behind), stored=frozenset({_WORKFLOW}))


def segment_digest(data: bytes) -> str:
    """The digest of what a segment does: ports, nodes, connections, settings, other files.

    KNIME writes other bytes each time that it makes a tool of the same workflow, and a release may call a
    node otherwise, and so its folder. Of what is no segment it is the digest of the bytes.
    """
    try:
        entries = _entries(data)
        _, files = _workflow_of(entries[_WORKFLOW])
        said: list[object] = [_lasting(from_xml(entries[_METADATA], _METADATA), frozenset({"name"}))]
        said += _contents(files)
    # A digest is needed of what any server or program put there, also of what cannot be read.
    except (KnwfError, KeyError):
        return f"sha256:{hashlib.sha256(data).hexdigest()}"
    text = json.dumps(said, sort_keys=True, ensure_ascii=True, separators=(",", ":"))
    return f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"


def _contents(files: Mapping[str, bytes]) -> list[object]:
    """Where each file is and what it says, with the number of a node in the place of its folder's name."""
    trees = {path: from_xml(body, path) for path, body in files.items() if _file_name(path) in _SETTINGS}
    numbers: dict[str, int | None] = {}
    for path, workflow in trees.items():
        for node in (workflow.config("nodes") or Config("nodes")).configs():
            file = f"{path.removesuffix(_file_name(path))}{node.text('node_settings_file')}"
            numbers.setdefault(file.rpartition("/")[0], node.integer("id"))
    said: list[object] = []
    for path, body in files.items():
        place, tree = _numbered(path, numbers), trees.get(path)
        # Beside a workflow, not in what a node keeps.
        if next((part for part in place if isinstance(part, str)), "") not in _MADE:
            what = hashlib.sha256(body).hexdigest() if tree is None else _said(path, tree, numbers)
            said.append([place, what])
    return sorted(said, key=partial(json.dumps, sort_keys=True))


def _file_name(path: str) -> str:
    return path.rpartition("/")[2]


def _numbered(path: str, numbers: Mapping[str, int | None]) -> list[str | int]:
    """The parts of a path; of a node's folder it is the node's number, which is no text."""
    parts = path.split("/")
    known = (numbers.get("/".join(parts[:depth])) for depth in range(1, len(parts) + 1))
    return [part if number is None else number for part, number in zip(parts, known, strict=True)]


def _said(path: str, tree: Config, numbers: Mapping[str, int | None]) -> dict[str, Any]:
    """What a node or a workflow says in its settings file."""
    if _file_name(path) not in _WORKFLOW_FILES:
        return _lasting(tree, _PASSING)
    said = _lasting(tree, _PASSING_IN_WORKFLOWS)
    for key in _PARTS_OF_WORKFLOWS:
        section = tree.config(key) or Config(key)
        parts = {part.key: _lasting(part, _PASSING_IN_WORKFLOWS) for part in section.configs()}
        said[key] = _lasting(section, _PASSING_IN_WORKFLOWS) | parts
    folder = path.removesuffix(_file_name(path))
    for node in (tree.config("nodes") or Config("nodes")).configs():
        file = f"{folder}{node.text('node_settings_file')}"
        said[f"file of {node.key}"] = _numbered(file, numbers)
        said["nodes"][node.key].pop("node_settings_file", None)
    return said


def _lasting(tree: Config, passing: frozenset[str]) -> dict[str, Any]:
    """What a settings file says, without what is passing, in any order of its keys."""
    return {child.key: _value(child) for child in tree if child.key not in passing}


def _value(child: SettingsEntry | Config) -> object:
    if isinstance(child, Config):
        return _lasting(child, frozenset())
    if child.type == "xpassword":  # encrypted, anew each time
        return [child.type, child.value is not None]
    return [child.type, child.value]


def _ports(metadata: Config, side: str) -> tuple[Config, ...]:
    section = metadata.config(f"{side}_ports") or Config(side)
    found = [section.config(f"{side}_{i}") for i in range(section.integer(f"num_{side}s") or 0)]
    if None in found:
        raise KnwfError(f"{_METADATA} does not say where each {side} is")
    return tuple(own for own in found if own is not None)


def _port(config: Config) -> PortOf:
    node, index = config.text("node_id"), config.integer("index")
    if not node.isdecimal() or index is None:
        raise KnwfError(f"{_METADATA}: {config.key!r} names no port of a node")
    return PortOf(int(node), index)


def _joined(ports: tuple[PortOf, ...]) -> Config:
    each = (_port_settings(f"port_{i}", port) for i, port in enumerate(ports))
    return Config("connected_ports", (integer("num_ports", len(ports)), *each))


def _port_settings(key: str, port: PortOf) -> Config:
    return Config(key, (string("node_id", str(port.node)), integer("index", port.index)))


def _workflow_of(data: bytes) -> tuple[str, dict[str, bytes]]:
    """The name of the workflow's folder, and its files by their path there. KNIME strips one level."""
    entries = {name: body for name, body in _entries(data).items() if not name.endswith("/")}
    tops = {name.partition("/")[0] for name in entries}
    files = {name.partition("/")[2]: body for name, body in entries.items()}
    if len(tops) != 1 or "workflow.knime" not in files:
        raise KnwfError(f"{_WORKFLOW} must hold one folder, the workflow, with its workflow.knime")
    return tops.pop(), files


def _entries(data: bytes) -> dict[str, bytes]:
    entries: dict[str, bytes] = {}
    left = MOST_BYTES
    for name, body in _stream(data, MOST_IN_A_FILE):
        left -= len(body)
        if name in entries or is_unsafe(name.removesuffix("/")):
            raise KnwfError(f"it holds {name[:200]!r} twice, or where it could land outside its folder")
        if left < 0 or len(entries) >= MOST_FILES:
            raise KnwfError("it holds more files or bytes than are allowed")
        entries[name] = body
    if not entries:
        raise KnwfError("it is no zip file")
    return entries


def _stream(data: bytes, most: int) -> Iterator[tuple[str, bytes]]:
    """Name and content of each entry in their order, from the headers before them."""
    view, at = memoryview(data), 0
    while data[at : at + 4] == _LOCAL:
        if len(data) < at + _HEADER.size:
            raise KnwfError("it ends within the header of a file")
        _, _, flags, method, _, _, crc, packed, _, name_size, extra_size = _HEADER.unpack_from(data, at)
        at += _HEADER.size
        # APPNOTE, appendix D: without the flag, names are in code page 437.
        name = data[at : at + name_size].decode("utf-8" if flags & _UTF8 else "cp437", "replace")
        at += name_size + extra_size
        # The end of a stored entry whose size follows can only be guessed.
        if flags & 0x1 or method not in (_STORED, _DEFLATED) or (method == _STORED and flags & _SIZE_FOLLOWS):
            raise KnwfError(f"{name[:200]!r} is packed in a way that KNIME does not use")
        if method == _DEFLATED:
            unpacking = zlib.decompressobj(-zlib.MAX_WBITS)
            try:
                # One byte more than is allowed, so that too much is noticed without unpacking it all.
                body = unpacking.decompress(view[at:], most + 1)
            except zlib.error as error:
                raise KnwfError(f"{name[:200]!r} cannot be read: {error}") from None
            if len(body) <= most and not unpacking.eof:
                raise KnwfError(f"{name[:200]!r} ends too early")
            at = len(data) - len(unpacking.unused_data)
        else:
            body = data[at : at + packed]
            at += packed
        if len(body) > most:
            raise KnwfError(f"{name[:200]!r} unpacks to more than {most} bytes, which is not allowed")
        if flags & _SIZE_FOLLOWS:
            # APPNOTE, 4.3.9.3: the signature of a descriptor may be missing.
            marked = 4 if data[at : at + 4] == _DESCRIPTOR else 0
            crc = int.from_bytes(data[at + marked : at + marked + 4], "little")
            at += marked + 12
        if zlib.crc32(body) != crc:
            raise KnwfError(f"{name[:200]!r} is damaged")
        yield name, body
