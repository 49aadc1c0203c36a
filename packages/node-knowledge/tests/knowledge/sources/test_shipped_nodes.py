"""Facts about KNIME's nodes that come along."""

import re

import pytest

from knime_node_knowledge.configuration_check import check_configuration
from knime_node_knowledge.sources.shipped_nodes import facts, facts_by_id, shipped_nodes

pytestmark = pytest.mark.quick


@pytest.fixture(scope="module")
def in_use():
    return {node.name: node for node in shipped_nodes() if not node.deprecated and not node.hidden}


@pytest.mark.parametrize(
    ("name", "inputs", "outputs"),
    [
        ("Random Forest Learner", ["Table"], ["Table", "Table", "Tree Ensemble"]),
        ("Row to Column Names", ["Table"], ["Table", "Table"]),
        ("Stop Word Filter", ["Table", "Table"], ["Table"]),
        ("Decision Tree Learner", ["Table"], ["PMML"]),
        ("Logistic Regression Learner", ["Table"], ["PMML", "Table", "Table"]),
        ("Excel Reader", [], ["Table"]),
        ("Joiner", ["Table", "Table"], ["Table", "Table", "Table"]),
    ],
)
def test_ports_are_those_of_the_source(in_use, name, inputs, outputs):
    node = in_use[name]
    assert [port.type for port in node.input_ports if not port.group] == inputs
    assert [port.type for port in node.output_ports if not port.group] == outputs


def test_every_fact_says_where_it_was_read_and_names_a_factory():
    known = facts()
    assert len(known) >= 1_400
    assert len(facts_by_id()) == len(shipped_nodes())
    for node in known:
        assert re.fullmatch(
            r"github\.com/(knime|spatial-data-lab)/[\w.-]+/blob/[0-9a-f]{40}/.+\.(java|py)", node.origin.file
        )


def test_successors_are_nodes_that_there_are():
    named = [node for node in facts() if node.successor]
    assert len(named) >= 300
    assert all(node.deprecated and node.successor in facts_by_id() for node in named)


def test_settings_have_keys_types_limits_and_choices(in_use):
    assert sum(node.settings_known and not node.open_settings for node in in_use.values()) >= 500
    check = check_configuration(in_use["k-Means"], {"nrOfClusters": "many", "clusters": 3})
    assert [(entry.setting, entry.problem) for entry in check.problems] == [
        ("nrOfClusters", "'many' is no number"),
        ("clusters", "is not a setting of this node"),
    ]
    check = check_configuration(in_use["Joiner"], {"compositionMode": "MATCH_SOME"})
    assert "MATCH_ALL" in check.problems[0].fix
    assert check_configuration(in_use["Joiner"], {"compositionMode": "MATCH_ANY"}).valid


def test_facts_have_no_sentences():
    for node in facts():
        assert not node.description
        assert not node.short_description
        assert all(len(port.name) <= 60 for port in (*node.input_ports, *node.output_ports))
