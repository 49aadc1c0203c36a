// Models of nodes for tests, written as KNIME's are, with as much of its API as they need.
// Compile into this folder: javac --release 17 -d classes Models.java
package org.knime.core.test;

final class PortType {
    PortType(Class<?> kind) { }
    PortType(Class<?> kind, boolean optional) { }
}

final class PortTypeRegistry {
    static PortTypeRegistry getInstance() { return null; }
    PortType getPortType(Class<?> kind) { return null; }
}

final class BufferedDataTable { static final PortType TYPE = new PortType(BufferedDataTable.class); }

final class DatabasePortObject { static final PortType TYPE = new PortType(DatabasePortObject.class); }

final class DBTreePortObject { }

class Ports {
    void addFixedInputPortGroup(String name, PortType... types) { }
    void addExtendableInputPortGroup(String name, PortType... types) { }
    void addFixedOutputPortGroup(String name, PortType... types) { }
}

class NodeModel {
    NodeModel(int in, int out) { }
    NodeModel(PortType[] in, PortType[] out) { }
}

abstract class Factory<T extends NodeModel> { abstract T createNodeModel(); }

class CountedNodeFactory extends Factory<CountedNodeModel> {
    @Override
    CountedNodeModel createNodeModel() { return new CountedNodeModel(); }
}

class CountedNodeModel extends NodeModel {
    private final int m_number = 7;
    CountedNodeModel() { super(2, 1); }
}

class ListedNodeFactory extends Factory<ListedNodeModel> {
    @Override
    ListedNodeModel createNodeModel() { return new ListedNodeModel(); }
}

class ListedNodeModel extends NodeModel {
    ListedNodeModel() { super(new PortType[]{DatabasePortObject.TYPE, new PortType(DBTreePortObject.class, true)}, outputs()); }

    private static PortType[] outputs() {
        return new PortType[]{PortTypeRegistry.getInstance().getPortType(DBTreePortObject.class)};
    }
}

class Base extends NodeModel {
    Base(int number, int other) { super(other, number); }
    Base(PortType in) { super(new PortType[]{in, BufferedDataTable.TYPE}, new PortType[0]); }
}

class InheritedNodeFactory extends Factory<Base> {
    @Override
    Base createNodeModel() { return new Base(DatabasePortObject.TYPE) { }; }
}

class SwappedNodeFactory extends Factory<Base> {
    @Override
    Base createNodeModel() { return new Base(1, 2); }
}

class AddedNodeFactory {
    Ports createPortsConfigBuilder() {
        final Ports ports = new Ports();
        ports.addExtendableInputPortGroup("more", BufferedDataTable.TYPE);
        ports.addFixedInputPortGroup("in", BufferedDataTable.TYPE, DatabasePortObject.TYPE);
        ports.addFixedOutputPortGroup("out", DatabasePortObject.TYPE);
        return ports;
    }
}

class ChosenNodeFactory extends Factory<ChosenNodeModel> {
    @Override
    ChosenNodeModel createNodeModel() { return new ChosenNodeModel(true); }
}

class ChosenNodeModel extends NodeModel {
    ChosenNodeModel(boolean more) { super(more ? 2 : 1, 1); }
}
