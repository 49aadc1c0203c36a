"""Flow variables: which one counts, what a node's own become, and what the command line says."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from knime_mcp.headless.workflows.flow_variables import (
    CredentialValue,
    FlowVariable,
    available,
    credentials,
    kind_of,
    merged,
    parsed,
    pushed,
    python_values,
)
from knime_mcp.headless.workflows.node_kind import WorkflowError


def stack(**values):
    return tuple(FlowVariable(name, kind_of(name, value), value) for name, value in values.items())


def test_the_first_connected_input_wins():
    assert python_values(merged([stack(x=0), stack(x=1), stack(x=2)])) == {"x": 0}
    assert python_values(merged([stack(y=0), stack(x=1), stack(x=2)])) == {"y": 0, "x": 2}
    assert python_values(merged([stack(x=1)])) == {"x": 1}
    assert python_values(merged([])) == {}


def test_what_a_node_makes_wins_over_what_arrives():
    arrived = merged([stack(x=1, y=1)])
    assert python_values((*arrived, *stack(x=2))) == {"x": 2, "y": 1}


def test_the_same_variable_on_two_ways_is_one():
    """The way that is longer and pushes it again decides the order, as in KNIME."""
    both = merged([stack(a=1, b=2), stack(b=2, a=1)])
    assert [variable.name for variable in both] == ["a", "b"]
    assert list(available(both)) == ["b", "a"]


def test_an_overwritten_variable_comes_back_where_ways_meet():
    """KNIME's rule is by input, not by how near the node is that set the variable."""
    origin = stack(x="first")
    changed = (*origin, *stack(x="second"))
    assert python_values(merged([changed, origin])) == {"x": "second"}
    assert python_values(merged([origin, changed])) == {"x": "first"}


values = st.one_of(st.booleans(), st.integers(-(2**63), 2**63 - 1), st.text(max_size=3))
stacks = st.lists(st.dictionaries(st.sampled_from("abc"), values, max_size=3), max_size=4)


@given(stacks)
def test_merging_knows_every_name_and_nothing_else(given_stacks):
    own = [stack(**values) for values in given_stacks]
    after = python_values(merged(own))
    assert after.keys() == {name for values in given_stacks for name in values}
    for name, value in after.items():
        holders = [values for values in given_stacks if name in values]
        first = given_stacks[0] if given_stacks and name in given_stacks[0] else holders[-1]
        assert (type(value), value) == (type(first[name]), first[name])


def test_credentials_are_no_values():
    both = (*stack(x=1), FlowVariable("prod", "CREDENTIALS", CredentialValue("me", "secret")))
    assert python_values(both) == {"x": 1}
    assert credentials(both)["prod"].password == "secret"
    assert "secret" not in repr(both)


def test_only_what_a_node_changed_is_pushed():
    before = {"a": 1, "b": "x", "c": [1, 2]}
    after = {"a": 1, "b": "y", "c": [1, 2], "d": True, "e": 2**40, "f": [1.5]}
    assert pushed(before, after) == (
        FlowVariable("b", "STRING", "y"),
        FlowVariable("d", "BOOLEAN", True),
        FlowVariable("e", "LONG", 2**40),
        FlowVariable("f", "DOUBLEARRAY", (1.5,)),
    )
    assert pushed({"a": 1}, {"a": True}) == (FlowVariable("a", "BOOLEAN", True),)


def test_what_knime_cannot_hold():
    with pytest.raises(WorkflowError, match="too large"):
        pushed({}, {"x": 2**63})
    with pytest.raises(WorkflowError, match="no flow variables like 'x'"):
        kind_of("x", [1, "a"])


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        ("STRING", "a=b", "a=b"),
        ("INTEGER", "-7", -7),
        ("LONG", "9000000000", 9_000_000_000),
        ("DOUBLE", "1e3", 1000.0),
        ("BOOLEAN", "True", True),
        ("INTARRAY", "1,2", (1, 2)),
        ("STRINGARRAY", "", ()),
    ],
)
def test_values_from_the_command_line(kind, text, value):
    assert parsed("x", kind, text) == value


@pytest.mark.parametrize(
    ("kind", "text"), [("INTEGER", "1.5"), ("INTEGER", "9000000000"), ("BOOLEAN", "yes"), ("DOUBLE", "a")]
)
def test_values_that_do_not_fit(kind, text):
    with pytest.raises(WorkflowError, match=f"'x' is '{text}', but it has to be"):
        parsed("x", kind, text)
