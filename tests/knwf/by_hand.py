"""Workflow archives whose XML is written out, so that anything can be wrong with it."""

import zipfile

WORKFLOW = """<config key="workflow.knime"><entry key="version" type="xstring" value="{version}"/>
<entry key="name" type="xstring" isnull="true" value=""/><entry key="state" type="xstring" value="IDLE"/>
<config key="workflow_credentials"/><config key="nodes">{nodes}</config>
<config key="connections">{connections}</config>{more}</config>"""
NODE = """<config key="node_{id}"><entry key="id" type="xint" value="{id}"/>
<entry key="node_settings_file" type="xstring" value="N (#{id})/settings.xml"/>
<entry key="node_type" type="xstring" value="{type}"/></config>"""
SETTINGS = """<config key="settings.xml"><config key="flow_stack"/><config key="internal_node_subsettings"/>
<entry key="state" type="xstring" value="{state}"/><entry key="factory" type="xstring" value="org.example.F"/>
<entry key="node-name" type="xstring" value="N"/><entry key="node-bundle-name" type="xstring" value=""/>
<entry key="node-bundle-symbolic-name" type="xstring" value=""/>
<entry key="node-bundle-vendor" type="xstring" value=""/>
<entry key="hasContent" type="xboolean" value="true"/>
<config key="ports"><config key="port_1"/></config><config key="filestores"/>{more}</config>"""


def workflow(*, version="5.1.0", nodes="", connections="", more=""):
    return WORKFLOW.format(version=version, nodes=nodes, connections=connections, more=more)


def node(node_id, node_type="NativeNode"):
    return NODE.format(id=node_id, type=node_type)


def settings(state="CONFIGURED", more=""):
    return SETTINGS.format(state=state, more=more)


def archive(folder, files, top="w/"):
    path = folder / "w.knwf"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        for name, content in files.items():
            file.writestr(f"{top}{name}", content)
    return path
