"""A workflow tool's file store as KNIME's Java writes it, made by hand: no writer of the project is used.

``ZipOutputStream`` does not know a file's size when it starts: the size stands behind the file, and here the
list of files at the end is missing, as KNIME takes the bytes before it closes the stream.
"""

import struct
import zlib

HEAD = (
    '<?xml version="1.0" encoding="UTF-8"?>\n<config xmlns="http://www.knime.org/2008/09/XMLConfig"'
    ' xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance" xsi:schemaLocation='
    '"http://www.knime.org/2008/09/XMLConfig http://www.knime.org/XMLConfig_2008_09.xsd" key="{key}">{inside}'
    "</config>"
)
TABLE = (
    '<config key="type"><entry key="portObjectClass" type="xstring"'
    ' value="org.knime.core.node.BufferedDataTable"/><entry key="isOptional" type="xboolean" value="false"/>'
    "</config>"
)
METADATA = """<entry key="name" type="xstring" value="{name}"/>
<config key="ref_node_ids"><entry key="num_ids" type="xint" value="0"/></config>
<config key="input_ports"><entry key="num_inputs" type="xint" value="1"/><config key="input_0">{table}
<config key="connected_ports"><entry key="num_ports" type="xint" value="2"/>
<config key="port_0"><entry key="node_id" type="xstring" value="7"/>
<entry key="index" type="xint" value="1"/></config>
<config key="port_1"><entry key="node_id" type="xstring" value="7"/>
<entry key="index" type="xint" value="2"/></config></config></config></config>
<config key="output_ports"><entry key="num_outputs" type="xint" value="1"/><config key="output_0">{table}
<config key="connected_port"><entry key="node_id" type="xstring" value="7"/>
<entry key="index" type="xint" value="{port}"/></config></config></config>"""
WORKFLOW = """<entry key="created_by" type="xstring" value="5.12.0.{when}"/>
<entry key="created_by_nightly" type="xboolean" value="false"/>
<entry key="version" type="xstring" value="5.1.0"/>
<entry key="name" type="xstring" isnull="true" value=""/>
<config key="authorInformation"><entry key="authored-by" type="xstring" value="somebody"/>
<entry key="authored-when" type="xstring" value="{when}"/>
<entry key="lastEdited-by" type="xstring" value="somebody"/>
<entry key="lastEdited-when" type="xstring" value="{when}"/></config>
<entry key="customDescription" type="xstring" isnull="true" value=""/>
<entry key="state" type="xstring" value="CONFIGURED"/><config key="workflow_credentials"/>
<config key="annotations"/><config key="nodes"><config key="node_7"><entry key="id" type="xint" value="7"/>
<entry key="node_settings_file" type="xstring" value="{node} (#7)/settings.xml"/>
<entry key="node_is_meta" type="xboolean" value="false"/>
<entry key="node_type" type="xstring" value="NativeNode"/>
<entry key="ui_classname" type="xstring" value="org.knime.core.node.workflow.NodeUIInformation"/>
<config key="ui_settings"><config key="extrainfo.node.bounds"><entry key="array-size" type="xint" value="4"/>
<entry key="0" type="xint" value="{x}"/><entry key="1" type="xint" value="2"/>
<entry key="2" type="xint" value="3"/><entry key="3" type="xint" value="4"/></config></config></config>
</config>
<config key="connections"/>"""
SETTINGS = """<entry key="node_file" type="xstring" value="settings.xml"/>
<config key="flow_stack"><config key="0"><entry key="name" type="xstring" value="when"/>
<entry key="value" type="xstring" value="{when}"/></config></config>
<config key="internal_node_subsettings">
<entry key="memory_policy" type="xstring" value="CacheSmallInMemory"/></config>
<config key="model"><entry key="count" type="xint" value="1"/>
<entry key="limit" type="xint" value="{limit}"/>
<entry key="name" type="xstring" value="{said}"/>
<entry key="password" type="xpassword" value="{secret}"/></config>
<config key="nodeAnnotation"><entry key="text" type="xstring" value="seen {when}"/></config>
<entry key="customDescription" type="xstring" isnull="true" value=""/>
<entry key="state" type="xstring" value="CONFIGURED"/>
<entry key="factory" type="xstring" value="org.example.CounterNodeFactory"/>
<entry key="node-name" type="xstring" value="{node}"/>
<entry key="node-bundle-name" type="xstring" value="{node}s"/>
<entry key="node-bundle-symbolic-name" type="xstring" value="org.example"/>
<entry key="node-bundle-vendor" type="xstring" value="Maker of {node}"/>
<entry key="node-bundle-version" type="xstring" value="5.12.0.v{when}"/>
<config key="factory_settings"/><entry key="name" type="xstring" value="{node}"/>
<entry key="hasContent" type="xboolean" value="false"/>
<entry key="isInactive" type="xboolean" value="false"/>
<config key="ports"><config key="port_1"><entry key="index" type="xint" value="1"/>
<entry key="port_dir_location" type="xstring" isnull="true" value=""/></config></config>
<config key="filestores"><entry key="file_store_location" type="xstring" isnull="true" value=""/>
<entry key="file_store_id" type="xstring" isnull="true" value=""/></config>"""
ABOUT = """<?xml version="1.0" encoding="UTF-8"?>
<workflow-metadata content-type="text/plain" xmlns="http://www.knime.org/core/node/workflow/metadata/v1.0">
  <author>somebody</author>
  <created>2026-01-01T00:00:00.{when}Z</created>
  <last-modified>2026-01-01T00:00:00.{when}Z</last-modified>
  <description>{description}</description>
</workflow-metadata>"""


def stream(entries, *, when=0):
    """A zip stream that was not finished, with all sizes behind the files."""
    out = b""
    for name, data in entries:
        packer = zlib.compressobj(-1, zlib.DEFLATED, -15)
        body = packer.compress(data) + packer.flush()
        encoded = name.encode()
        out += struct.pack(
            "<4sHHHHHIIIHH", b"PK\3\4", 20, 0x0808, 8, 1000 + when, 20000, 0, 0, 0, len(encoded), 0
        )
        out += encoded + body + struct.pack("<4sIII", b"PK\7\10", zlib.crc32(data), len(body), len(data))
    return out


def workflow_files(
    *,
    when=0,
    x=1,
    limit=3,
    description="Counts",
    secret="v1-abc",
    order=1,
    more=(),
    name="Word count",
    node="Counter",
    said="n",
):
    artifacts = [b'{"a": 1, "b": 2}', b'{"b": 2, "a": 1}'][when % 2]
    settings = SETTINGS.format(when=when, limit=limit, secret=secret, node=node, said=said)
    workflow = WORKFLOW.format(when=when, x=x, node=node)
    folder = f"{name}/{node} (#7)/"
    return [
        (f"{name}/", b""),
        (f"{name}/.artifacts/", b""),
        (f"{name}/.artifacts/workflow-configuration.json", artifacts),
        (folder, b""),
        (f"{folder}settings.xml", HEAD.format(key="settings.xml", inside=settings).encode()),
        (f"{folder}internal/kept.bin", b"kept"),
        (f"{name}/workflow-metadata.xml", ABOUT.format(when=when, description=description).encode()),
        (f"{name}/workflow.knime", HEAD.format(key="workflow.knime", inside=workflow).encode()),
        (f"{name}/workflowset.meta", f"<met>Last Edited {when}</met>".encode()),
        *more,
    ][::order]


def segment(*, when=0, port=1, name="Word count", **workflow):
    """What KNIME keeps in the first file store of a tool; `when` changes what each saving changes."""
    metadata = HEAD.format(key="metadata.xml", inside=METADATA.format(table=TABLE, port=port, name=name))
    inner = stream(workflow_files(when=when, name=name, **workflow), when=when)
    return stream([("metadata.xml", metadata.encode()), ("workflow.bin", inner)], when=when)
