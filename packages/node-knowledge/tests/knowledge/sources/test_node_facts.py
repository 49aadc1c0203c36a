"""Facts from Java source: ports and settings, from classes written for these tests."""

import pytest

from node_facts.java_classes import JavaIndex
from node_facts.java_reader import JavaReader
from node_facts.node_ports import ENDS, TABLE, ports_of_groups, ports_of_model
from node_facts.node_sets import members_of_sets
from node_facts.node_settings import ParametersReader, settings_of_model
from node_facts.python_nodes import read_extension_sources

pytestmark = pytest.mark.quick


MODEL = """
package a;
import org.knime.core.node.BufferedDataTable;
import org.knime.core.node.NodeModel;
import org.knime.core.node.port.PortType;
import org.knime.core.node.port.PortTypeRegistry;
import org.knime.core.node.defaultnodesettings.SettingsModelIntegerBounded;
import b.TreePortObject;
public class MyNodeModel extends NodeModel {
    private static final String KEY = "my" + "Key";
    private final SettingsModelIntegerBounded m_count = new SettingsModelIntegerBounded("count", 3, 1, 9);
    private String m_name = "x";
    private final boolean m_more;
    public MyNodeModel(final boolean more, final int tables) {
        super(types(tables), new PortType[] {BufferedDataTable.TYPE, TreePortObject.TYPE});
        m_more = more;
    }
    private static PortType[] types(final int tables) {
        PortType[] found = new PortType[tables + 1];
        for (int i = 0; i < tables; i++) { found[i] = BufferedDataTable.TYPE; }
        found[tables] = PortTypeRegistry.getInstance().getPortType(TreePortObject.class, true);
        return found;
    }
    protected void saveSettingsTo(final NodeSettingsWO settings) {
        m_count.saveSettingsTo(settings);
        settings.addString(KEY, m_name);
        if (m_more) { settings.addNodeSettings("group").addBoolean("flag", true); }
        for (int i = 0; i < m_names.size(); i++) { settings.addNodeSettings("list").addString("" + i, "y"); }
    }
    protected void loadValidatedSettingsFrom(final NodeSettingsRO settings) {
        m_name = settings.getString("earlierKey", "");
    }
}
"""
FACTORY = """
package a;
import org.knime.core.node.BufferedDataTable;
import org.knime.core.node.ConfigurableNodeFactory;
public class MyNodeFactory extends ConfigurableNodeFactory<MyNodeModel> {
    protected Optional<PortsConfigurationBuilder> createPortsConfigBuilder() {
        final var builder = new PortsConfigurationBuilder();
        builder.addOptionalInputPortGroup("File System", b.TreePortObject.TYPE);
        builder.addExtendableInputPortGroup("In", new PortType[] {BufferedDataTable.TYPE},
            BufferedDataTable.TYPE);
        builder.addFixedOutputPortGroup("Out", BufferedDataTable.TYPE);
        return Optional.of(builder);
    }
    public MyNodeModel createNodeModel() { return new MyNodeModel(false, 2); }
}
"""
PARAMETERS = """
package a;
import org.knime.node.parameters.NodeParameters;
class MyParameters implements NodeParameters {
    enum Mode { FIRST, LAST }
    @Widget(title = "t") Mode m_mode = Mode.LAST;
    @Persist(configKey = "how_many") @Widget(title = "n")
    @NumberInputWidget(minValidation = IsPositiveIntegerValidation.class) int m_number = 5;
    Inner m_inner = new Inner();
    static class Inner implements NodeParameters { String m_text = "t"; }
    @Persistor(Unseen.class) String m_odd;
}
"""


@pytest.fixture
def reader(tmp_path):
    for name, text in {"MyNodeModel": MODEL, "MyNodeFactory": FACTORY, "MyParameters": PARAMETERS}.items():
        (tmp_path / f"{name}.java").write_text(text)
    return JavaReader(JavaIndex([tmp_path]), ends=ENDS)


def test_ports_are_what_a_model_passes_on(reader):
    model = reader.call(reader.new("a.MyNodeFactory"), "createNodeModel")
    ports = ports_of_model(model, reader)
    assert [(port.type, port.optional) for port in ports.inputs] == [
        (TABLE, False),
        (TABLE, False),
        ("b.TreePortObject", True),
    ]
    assert [port.type for port in ports.outputs] == [TABLE, "b.TreePortObject"]


def test_ports_that_a_person_can_add_are_groups(reader):
    builder = reader.call(reader.new("a.MyNodeFactory"), "createPortsConfigBuilder")
    ports = ports_of_groups(builder, reader)
    assert [(port.type, port.group, port.count, port.addable) for port in ports.inputs] == [
        ("b.TreePortObject", "File System", 0, True),
        (TABLE, "In", 1, True),
    ]
    assert [(port.type, port.group) for port in ports.outputs] == [(TABLE, None)]


def test_settings_are_what_a_model_saves_on_every_way(reader):
    model = reader.call(reader.new("a.MyNodeFactory"), "createNodeModel")
    found = settings_of_model(model, reader)
    count = found.found["count"]
    assert (count.type, count.default, count.min, count.max) == ("integer", 3, 1, 9)
    assert found.found["myKey"].default == "x"
    assert found.found["group.flag"].type == "boolean"  # also on the way that a new node does not take
    assert found.found["earlierKey"].read
    assert "list." in found.open  # a list has any number of entries
    assert "" not in found.open


def test_settings_of_a_class_have_the_keys_under_which_they_are_saved(reader):
    found = ParametersReader(reader).read("a.MyParameters")
    mode, number = found.found["mode"], found.found["how_many"]
    assert (mode.choices, mode.default, mode.hidden) == (["FIRST", "LAST"], "LAST", False)
    assert (number.type, number.default, number.min) == ("integer", 5, 1)
    assert (found.found["inner.text"].default, found.found["inner.text"].hidden) == ("t", True)
    assert "" in found.open  # what the other class saves is not known


CHAINED = """
package a;
import org.knime.core.node.BufferedDataTable;
import org.knime.core.node.NodeModel;
public class Chained extends NodeModel {
    private static final PortsConfiguration PORTS = new FixedPortsConfigurationBuilder()
        .addFixedInputPortGroup("File System", b.TreePortObject.TYPE)
        .addFixedInputPortGroup("Data", BufferedDataTable.TYPE)
        .build();
    public Chained() { super(PORTS.getInputPorts(), PORTS.getOutputPorts()); }
}
"""


def test_ports_are_all_of_a_chain_of_calls(tmp_path):
    (tmp_path / "Chained.java").write_text(CHAINED)
    reader = JavaReader(JavaIndex([tmp_path]), ends=ENDS)
    ports = ports_of_model(reader.new("a.Chained"), reader)
    assert [port.type for port in ports.inputs] == ["b.TreePortObject", TABLE]


SET = """
package a;
public class MySet implements NodeSetFactory {
    private static final String CATEGORY = "/labs/mine";
    public Collection<String> getNodeFactoryIds() {
        m_all.put(MyNodeFactory.class.getCanonicalName(), CATEGORY);
        m_all.put(UnknownNodeFactory.class.getCanonicalName(), CATEGORY);
    }
}
"""
SPARK = """
package a;
public class MyProvider extends DefaultSparkNodeFactoryProvider {
    public MyProvider() { super(CHECKER, new SparkSortNodeFactory()); }
}
"""
SPARK_FACTORY = """
package a;
public class SparkSortNodeFactory extends Above {
    public SparkSortNodeFactory() { super("row/sort"); }
}
"""
ABOVE = """
package a;
class Above {
    private final String m_categoryPath;
    Above(final String path) { m_categoryPath = path; }
}
"""
SETS = b"""<plugin>
<extension point="org.knime.workbench.repository.nodesets">
  <nodeset factory-class="a.MySet"/>
  <nodeset factory-class="a.MySet" internal="true"/>
</extension>
<extension point="org.knime.bigdata.spark.core.SparkNodeFactoryProvider">
  <SparkNodeFactoryProvider ProviderClass="a.MyProvider"/>
</extension>
</plugin>"""


def test_members_of_sets_are_those_that_java_code_lists(tmp_path):
    sources = {"MyNodeFactory": FACTORY, "MySet": SET, "MyProvider": SPARK, "Above": ABOVE}
    for name, text in {**sources, "SparkSortNodeFactory": SPARK_FACTORY}.items():
        (tmp_path / f"{name}.java").write_text(text)
    found = members_of_sets(SETS, JavaIndex([tmp_path]))
    assert [(entry.factory, entry.category_path) for entry in found] == [
        ("a.MyNodeFactory", "/labs/mine"),
        ("a.SparkSortNodeFactory", "/toolintegration/spark/row/sort"),
    ]


PYTHON = """
import knime.extension as knext

class _Shared:
    def __init__(self):
        self.input_ports = [knext.Port(type=knext.PortType.TABLE, name="Geo table", description="")]

@knext.node(name=" Area ", node_type=knext.NodeType.MANIPULATOR, category="/community/geo")
@knext.output_table(name="Areas", description="")
class AreaNode(_Shared):
    pass
"""


def test_python_nodes_have_the_ports_that_a_class_above_sets(tmp_path):
    (tmp_path / "knime.yml").write_text("{group_id: org, name: geo, extension_module: nodes}")
    (tmp_path / "nodes.py").write_text(PYTHON)
    (node,) = read_extension_sources(tmp_path / "knime.yml").nodes
    assert (node.name, [port.name for port in node.inputs]) == ("Area", ["Geo table"])
    assert [(port.type, port.name) for port in node.outputs] == [(TABLE, "Areas")]
