"""The second reader of facts finds what a source says, and nothing that it does not say."""

import pytest

from knime_node_knowledge.sources.shipped_nodes import shipped_nodes
from node_facts.second_look import Sources, looked_up

FACTORY = """package org.a;
import org.b.TreePort;
public class MyNodeFactory extends NodeFactory<MyNodeModel> { Object p = TreePort.TYPE; }
"""
MODEL = 'package org.a;\nclass MyNodeModel { String key = "count"; int m_limit = 3; }\n'
DESCRIBED = """<knimeNode><name>My &amp; Node</name><ports>
<inPort index="0" name="In"/><!-- <inPort index="1" name="Old"/> -->
<dynInPort name="More" group-identifier="more"/>
</ports></knimeNode>
"""
FACT = {
    "id": "org.a.MyNodeFactory",
    "name": "My & Node",
    "bundle": "org.a",
    "at": [0, "org.a/src/"],
    "in": [{"t": 1, "n": "In"}, {"t": 0, "n": "more", "g": 1}],
    "out": [],
    "settings": [{"k": "group.count"}, {"k": "limit"}],
}
TYPES = [{"id": "org.knime.core.node.BufferedDataTable"}, {"id": "org.b.TreePort"}]


@pytest.fixture
def sources(tmp_path):
    files = {
        "src/org/a/MyNodeFactory.java": FACTORY,
        "src/org/a/MyNodeFactory.xml": DESCRIBED,
        "src/org/a/MyNodeModel.java": MODEL,
        "plugin.xml": '<node factory-class="org.a.MyNodeFactory"/>',
    }
    for name, text in files.items():
        file = tmp_path / "repo" / "org.a" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    found = Sources(tmp_path, ["knime/repo"])
    found.index()
    return found


def nowhere(fact, sources):
    return {(kind, words) for kind, words, where in looked_up(fact, TYPES, sources) if not where}


def test_what_a_source_says_is_found_with_its_line(sources):
    found = {(kind, words): where for kind, words, where in looked_up(FACT, TYPES, sources)}
    assert nowhere(FACT, sources) == set()
    assert found["factory", FACT["id"]] == "repo/org.a/src/org/a/MyNodeFactory.java:3"
    assert found["setting", "group.count"] == "repo/org.a/src/org/a/MyNodeModel.java:2"


@pytest.mark.parametrize(
    ("other", "missing"),
    [
        ({"name": "Another"}, ("name", "Another")),
        ({"in": [{"n": "In"}, {"n": "Old"}]}, ("in: fixed", "2")),
        ({"in": [{"n": "In"}, {"n": "none", "g": 1}]}, ("in: group", "none")),
        ({"settings": [{"k": "made_up"}]}, ("setting", "made_up")),
        ({"id": "org.a.NoNodeFactory"}, ("factory", "org.a.NoNodeFactory")),
    ],
)
def test_what_it_does_not_say_is_nowhere(sources, other, missing):
    assert missing in nowhere(FACT | other, sources)


def test_settings_of_most_nodes_in_use_can_be_judged():
    in_use = [node for node in shipped_nodes() if not node.deprecated and not node.hidden]
    assert sum(node.settings_known for node in in_use) >= 500
