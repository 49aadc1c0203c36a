"""Nodes whose descriptions are constants in compiled factories; java/Factories.java is what was compiled."""

import contextlib
import struct
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from knime_mcp.knowledge.sources import knime_plugins
from knime_mcp.knowledge.sources.class_files import ClassFile, ClassFileError, Static
from knime_mcp.knowledge.sources.java_descriptions import read_class
from knime_mcp.knowledge.sources.knime_plugins import read_plugins
from tests.knowledge.sources.plugin_files import node, plugin_xml, write_folder, write_jar

CLASSES = Path(__file__).parent / "java" / "classes" / "example"


def compiled(name):
    return (CLASSES / f"{name}NodeFactory.class").read_bytes()


def ports(found):
    return [(port.name, port.type, port.description, port.optional, port.group) for port in found]


def test_a_chain_of_calls():
    found = read_class(ClassFile(compiled("Chain")))
    assert (found.name, found.node_type) == ("Chain Links", "LEARNER")
    assert found.short_description == "Joins links & more."
    assert found.description == "First.\n\n- one\n- More (https://a.example/)"
    assert ports(found.input_ports) == [
        ("Left", "Table", "The left table.", False, False),
        ("Further", "Model", "Models.", True, True),
    ]
    assert ports(found.output_ports) == [("Model", "Model", "A model.", False, False)]
    assert found.keywords == ("combine", "tables")


def test_a_chain_with_its_ports_in_a_lambda():
    found = read_class(ClassFile(compiled("Lambda")))
    assert (found.name, found.node_type) == ("With Lambda", "MANIPULATOR")
    assert found.short_description == "Has its ports in a lambda."
    assert found.description == "Full: ä € 😀."
    assert ports(found.input_ports) == [
        ("In", "Table", "What goes in.", False, False),
        ("Maybe", "Table", "If any.", True, False),
    ]
    assert ports(found.output_ports) == [("Out", "Table", "What comes out.", False, False)]


def test_a_chain_in_the_method_itself():
    found = read_class(ClassFile(compiled("Local")))
    assert (found.name, found.short_description) == ("In a Variable", "Is built where it is used.")
    assert ports(found.input_ports) == [("Rows", "Table", "What goes in.", False, False)]


def test_one_call_with_everything():
    found = read_class(ClassFile(compiled("Call")))
    assert (found.name, found.node_type) == ("One Call", "MANIPULATOR")
    assert (found.short_description, found.description) == ("Short.", "Full text.")
    assert ports(found.input_ports) == [
        ("Data", "", "Rows.", False, False),
        ("More data", "", "Further rows.", True, True),
    ]
    assert ports(found.output_ports) == [("Result", "", "Less rows.", False, False)]
    assert found.output_ports[0].max_connections == -1
    assert [(view.name, view.description) for view in found.views] == [("Chart", "Bars.")]
    assert found.keywords == ("word", "other word")


def test_another_way_of_writing_is_not_guessed_at():
    assert read_class(ClassFile(compiled("Other"))) is None


@example(at=59, byte=1, cut=None)  # a class's name becomes something else
@given(at=st.integers(0, 1600), byte=st.integers(0, 255), cut=st.none() | st.integers(0, 1600))
def test_a_damaged_class_is_refused_or_read_and_nothing_else(at, byte, cut):
    data = bytearray(compiled("Chain")[:cut])
    if at < len(data):
        data[at] = byte
    with contextlib.suppress(ClassFileError):
        found = read_class(ClassFile(bytes(data)))
        assert found is None or found.name


@pytest.mark.parametrize(
    "data", [b"", b"\xca\xfe\xba\xbe", b"no class at all", struct.pack(">IHHH", 1, 0, 0, 9)]
)
def test_no_class_file(data):
    with pytest.raises(ClassFileError):
        ClassFile(data)


@pytest.mark.parametrize("place", ["jar", "bin", "target/classes"])
def test_plugins_give_nodes_out_of_code(tmp_path, place):
    names = ("Chain", "Lambda", "Call", "Other")
    registered = [f'factory-class="example.{name}NodeFactory" category-path="/x"' for name in names]
    prefix = "" if place == "jar" else f"{place}/"
    files = {f"{prefix}example/{name}NodeFactory.class": compiled(name) for name in names}
    files["plugin.xml"] = plugin_xml(*registered)
    write_jar(tmp_path / "p" / "a.jar", files) if place == "jar" else write_folder(
        tmp_path / "p" / "a", files
    )
    result = read_plugins([tmp_path])
    assert [found.name for found in result.nodes] == ["Chain Links", "With Lambda", "One Call"]
    assert result.from_code == 3
    assert [(entry.what, entry.reason) for entry in result.skipped] == [
        ("example.OtherNodeFactory", knime_plugins.NO_XML)
    ]
    assert all(found.category == ("x",) and not found.settings_known for found in result.nodes)


def test_a_factory_takes_the_description_of_the_class_it_extends(tmp_path):
    # java.lang.Object is what the class extends, so its description stands for any ancestor's.
    files = {
        "plugin.xml": plugin_xml('factory-class="example.OtherNodeFactory"'),
        "example/OtherNodeFactory.class": compiled("Other"),
        "java/lang/Object.xml": node("Inherited"),
    }
    write_jar(tmp_path / "a.jar", files)
    assert [(found.id, found.name) for found in read_plugins([tmp_path]).nodes] == [
        ("example.OtherNodeFactory", "Inherited")
    ]


POSSIBLE = [f"org.knime.core.test.{name}" for name in ("BufferedDataTable", "DatabasePortObject")]
MODELS = CLASSES.parent / "org" / "knime" / "core" / "test"


@pytest.mark.parametrize(
    ("name", "inputs", "outputs"),
    [
        ("Counted", ["Table", "Table"], ["Table"]),
        ("Listed", ["Database", "DB Tree"], ["DB Tree"]),
        ("Inherited", ["Database", "Table"], [""]),  # it makes no output, its description has one
        ("Swapped", ["Table", "Table"], ["Table"]),
        ("Added", ["Table", "Database"], ["Database"]),
        ("Chosen", ["", ""], [""]),
    ],
)
def test_types_of_ports_are_those_that_the_model_is_made_with(tmp_path, name, inputs, outputs):
    factory = f"org.knime.core.test.{name}NodeFactory"
    files = {f"org/knime/core/test/{file.name}": file.read_bytes() for file in MODELS.iterdir()}
    files["plugin.xml"] = plugin_xml(f'factory-class="{factory}"')
    files[f"{factory.replace('.', '/')}.xml"] = node("Unlike any other")
    write_jar(tmp_path / "a.jar", files)
    (found,) = read_plugins([tmp_path]).nodes
    first, group, last = found.input_ports
    assert [first.type, last.type] == inputs
    assert [port.type for port in found.output_ports] == outputs
    assert group.type == ""
    assert first.type_id in (None, "org.knime.core.node.BufferedDataTable", *POSSIBLE)


@example(file="AddedNodeFactory.class", at=20, byte=14)  # where a name stands, a field is named
@given(
    file=st.sampled_from(sorted(file.name for file in MODELS.iterdir())),
    at=st.integers(0, 1200),
    byte=st.integers(0, 255),
)
def test_whatever_a_damaged_class_calls_has_a_name(file, at, byte):
    data = bytearray((MODELS / file).read_bytes())
    data[at % len(data)] = byte
    with contextlib.suppress(ClassFileError):
        code = ClassFile(bytes(data))
        for method in code.methods:
            for call in code.run(method)[1]:
                statics = [arg.owner + arg.name for arg in call.args if isinstance(arg, Static)]
                assert all(isinstance(name, str) for name in (call.name, call.owner, *statics))
