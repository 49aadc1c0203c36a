// Node factories for tests, written as KNIME's are, with as much of its API as they need.
// Compile into this folder: javac --release 17 -d classes Factories.java
package example;

import java.util.List;
import java.util.function.Function;

enum NodeType { Manipulator, Learner }

final class PortType { }

final class BufferedDataTable { static final PortType TYPE = new PortType(); }

final class ModelPortObject { static final PortType TYPE = new PortType(); }

record PortDescription(String name, String text) {
    static PortDescription fixedPort(String name, String text) { return new PortDescription(name, text); }
    static PortDescription dynamicPort(String id, String name, String text) { return new PortDescription(name, text); }
}

record ViewDescription(String name, String text) { }

record Resource(String url, String text) { }

interface Chain {
    static Chain builder() { return null; }
    Chain name(String name);
    Chain icon(String icon);
    Chain shortDescription(String text);
    Chain fullDescription(String text);
    Chain addInputPort(String name, PortType type, String text);
    Chain addInputPortGroup(String name, PortType type, String text);
    Chain addOutputPort(String name, PortType type, String text);
    Chain addInputTable(String name, String text);
    Chain addOptionalInputTable(String name, String text);
    Chain addOutputTable(String name, String text);
    Chain ports(Function<Chain, Chain> ports);
    Chain nodeType(NodeType type);
    Chain sinceVersion(int major, int minor, int patch);
    Chain addExternalResource(String url, String text);
    Chain keywords(String... words);
    Chain build();
}

class Utility {
    static Object createNodeDescription(String name, String icon, List<PortDescription> in, List<PortDescription> out,
        String text, String full, List<Resource> resources, Class<?> settings, List<ViewDescription> views,
        NodeType type, List<String> keywords, Object version) { return null; }
}

class ChainNodeFactory {
    private static int seen = 7;
    static final Chain CONFIG = Chain.builder().name("Chain Links").icon("c.png")
        .shortDescription("Joins <i>links</i> & more.")
        .fullDescription("<p>First.</p><ul><li>one</li></ul>")
        .addInputPort("Left", BufferedDataTable.TYPE, "The left " + "table.")
        .addInputPortGroup("Further", ModelPortObject.TYPE, "Models.")
        .addOutputPort("Model", ModelPortObject.TYPE, "A <b>model</b>.")
        .nodeType(NodeType.Learner).sinceVersion(4, 2, 300)
        .addExternalResource("https://a.example/", "More").keywords("combine", "tables").build();

    static int branches(int value) { return value > 3 ? seen : 2; }
}

class LambdaNodeFactory {
    private static final Chain NODE = Chain.builder().name("With Lambda").icon("l.png")
        .shortDescription("""
            Has its ports in
            a lambda.
            """)
        .fullDescription("Full: ä € 😀.").sinceVersion(5, 3, 0)
        .ports(p -> p.addInputTable("In", "What goes in.").addOptionalInputTable("Maybe", "If any.")
            .addOutputTable("Out", "What comes out."))
        .nodeType(NodeType.Manipulator);
}

class CallNodeFactory {
    private static final String NODE_NAME = "One Call";
    private static final List<PortDescription> IN = List.of(PortDescription.fixedPort("Data", "Rows."),
        PortDescription.dynamicPort("id", "More data", "Further rows."));
    private static final List<ViewDescription> VIEWS = List.of(new ViewDescription("Chart", "Bars."));

    Object createNodeDescription() {
        return Utility.createNodeDescription(NODE_NAME, "o.png", IN,
            List.of(PortDescription.fixedPort("Result", "Less rows.")), "Short.", "Full <tt>text</tt>.", List.of(),
            String.class, VIEWS, NodeType.Manipulator, List.of("word", "other word"), null);
    }
}

class OtherNodeFactory {
    Object createNodeDescription() { return new Object(); }
}

class LocalNodeFactory {
    static Object make(Chain chain) { return chain; }

    protected Object createNodeDescription() {
        final Chain config = Chain.builder().name("In a Variable").icon("v.png")
            .shortDescription("Is built where it is used.").fullDescription("Full.")
            .addInputTable("Rows", "What goes in.").build();
        return make(config);
    }
}
