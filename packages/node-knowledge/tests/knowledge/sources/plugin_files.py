"""Plug-ins for tests: descriptions, registrations, manifests, as files or jars."""

import io
import zipfile
from pathlib import Path

NODE = """<?xml version="1.0" encoding="utf-8"?>
<knimeNode icon="./icon.png" type="{kind}" {attributes} xmlns="http://knime.org/node/v5.3">
  <name>{name}</name>
  <shortDescription>Does {name}\n   in one step.</shortDescription>
  <fullDescription>
    <intro><p>First <b>paragraph</b>.</p><ul><li>one</li><li>two <a href="https://a.example/x">link</a></li></ul></intro>
    <tab name="Settings"><option name="Column to use">The <i>column</i>.</option></tab>
    <option name="Limit">At most so many &amp; no more.</option>
    <link href="https://a.example/more">More about it</link>
  </fullDescription>
  <ports>
    <inPort index="0" name="First">The first table.</inPort>
    <inPort index="1" name="Last">The last table.</inPort>
    <dynInPort insert-before="1" name="Further" group-identifier="more">As many as you like.</dynInPort>
    <outPort index="0" name="Result">What came out.</outPort>
  </ports>
  <views><view index="0" name="Plot">Dots.</view></views>
  <keywords><keyword>{name} word</keyword></keywords>
</knimeNode>
"""

OLD_NODE = """<?xml version="1.0"?>
<!DOCTYPE knimeNode PUBLIC "-//UNIKN//DTD KNIME Node 2.0//EN" "http://www.knime.org/Node.dtd">
<knimeNode icon="./old.png" type="Learner">
  <name>Old Learner</name>
  <shortDescription>Learns&nbsp;something.</shortDescription>
  <fullDescription><intro>Old.</intro></fullDescription>
  <ports>
    <dataIn index="0" name="Data">Training data</dataIn>
    <modelOut index="0" name="Model">The model</modelOut>
  </ports>
</knimeNode>
"""

CATEGORIES = """
  <extension point="org.knime.workbench.repository.categories">
    <category level-id="manipulation" name="Manipulation" path="/"/>
    <category level-id="row" name="%row" path="/manipulation"/>
  </extension>
"""


def node(name: str, kind: str = "Manipulator", attributes: str = "") -> str:
    return NODE.format(name=name, kind=kind, attributes=attributes)


def plugin_xml(*nodes: str, more: str = "") -> str:
    """A plugin.xml; each node is the attributes of its element."""
    elements = "".join(f"<node {attributes}/>" for attributes in nodes)
    return (
        '<?xml version="1.0" encoding="UTF-8"?><?eclipse version="3.0"?><plugin>'
        f'{more}<extension point="org.knime.workbench.repository.nodes">{elements}</extension></plugin>'
    )


def manifest(name: str, version: str, class_path: str | None = None) -> str:
    lines = [
        "Manifest-Version: 1.0",
        f"Bundle-SymbolicName: {name};singl",
        " eton:=true",
        f"Bundle-Version: {version}",
    ]
    return "\n".join(lines + ([f"Bundle-ClassPath: {class_path}"] if class_path else [])) + "\n\nName: x\n"


def write_folder(root: Path, files: dict[str, str | bytes]) -> Path:
    for name, content in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
    return root


def jar_bytes(files: dict[str, str | bytes]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return buffer.getvalue()


def write_jar(path: Path, files: dict[str, str | bytes]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(jar_bytes(files))
    return path
