"""No false alarm: valid settings of every node that comes along, made up from what is known about them."""

import copy
import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from knime_mcp.knwf.workflow_model import NativeNode
from knime_node_knowledge.configuration_check import check_configuration
from knime_node_knowledge.node_model import SourceKind
from tests.support.archives import read_workflow

EXAMPLES = Path(__file__).parents[4] / "examples"
NUMBERS = {"integer", "float", "number", "long", "double"}

LATER = st.sampled_from(
    [
        "{{ $json.value }}",
        "{{item.x}}",
        "$json.body.id",
        "${VALUE}",
        "=$vars.limit",
        "$flow.port$",
        "$$ROW",
        "$(run)",
    ]
)
"""Expressions and variables: what they become nobody knows before the workflow runs."""

TEXTS = st.text(max_size=20)
SPACES = "".join(map(chr, (0x1C, 0x1D, 0x1E, 0x1F, 0x85, 0xFEFF)))
"""What is a space to regular expressions of Python and not of JavaScript, or the other way round."""

OBJECTS = st.dictionaries(st.text("abc", min_size=1, max_size=5), TEXTS | st.integers(), max_size=3)
LISTS = st.lists(TEXTS | st.integers() | OBJECTS, max_size=3)


def numbers(parameter):
    whole = parameter.type in ("integer", "long")
    low = parameter.min if parameter.min is not None else -1e6
    high = parameter.max if parameter.max is not None else max(low, 0) + 1e6
    if whole:
        return st.integers(
            math.floor(low) + 1 if parameter.min_exclusive else math.ceil(low),
            math.ceil(high) - 1 if parameter.max_exclusive else math.floor(high),
        )
    return st.floats(low, high, exclude_min=parameter.min_exclusive, exclude_max=parameter.max_exclusive)


def valid_values(parameter):
    """What a person or an agent may rightly write."""
    if parameter.enum_values:
        fitting = st.sampled_from(parameter.enum_values)
        if all(isinstance(value, str) for value in parameter.enum_values):
            fitting |= fitting.map(str.lower)
    elif parameter.type in NUMBERS:
        fitting = numbers(parameter)
        fitting |= fitting.map(str)
    elif parameter.type in ("boolean", "bool"):
        fitting = st.sampled_from([True, False, "true", "False"])
    elif parameter.type in ("array", "list"):
        fitting = LISTS
    elif parameter.type in ("object", "dict"):
        fitting = OBJECTS
    elif parameter.validation_pattern:
        fitting = st.from_regex(
            parameter.validation_pattern, alphabet=st.characters(codec="utf-8", exclude_characters=SPACES)
        )
    else:
        fitting = TEXTS
    if parameter.has_default:
        fitting |= st.builds(copy.deepcopy, st.just(parameter.default_value))  # `nested` writes into it
    if not parameter.required:
        fitting |= st.none()
    return fitting | LATER


@st.composite
def configurations(draw, spec):
    """Valid settings, some of them overwritten by flow variables and left out or wrong for that reason."""
    found, tree = {}, {}
    for parameter in spec.configurations:
        needed = parameter.required and not parameter.has_default
        if draw(st.integers(0, 9)) == 0:
            *groups, last = parameter.name.split(".")
            at = tree
            for group in groups:
                at = at.setdefault(group, {})
            at[last] = {"used_variable": "v", "exposed_variable": None}
            if draw(st.booleans()):
                found[parameter.name] = draw(TEXTS)
        elif needed or draw(st.booleans()):
            found[parameter.name] = draw(valid_values(parameter))
    saved = {"model": nested(found) if draw(st.booleans()) else found}
    return saved | {"variables": {"tree": tree}} if tree or draw(st.booleans()) else found


def nested(settings):
    """As KNIME saves groups."""
    found = {}
    for name, value in settings.items():
        *groups, last = name.split(".")
        at = found
        for group in groups:
            at = at.setdefault(group, {})
        at[last] = value
    return found


@pytest.fixture(scope="module")
def judged(own_catalogue):
    # KNIME's own nodes are judged beside workflows that KNIME saved, see `node_facts`.
    kinds = {SourceKind.SPEC_PACK, SourceKind.PYTHON_EXTENSION}
    specs = [
        spec
        for spec in own_catalogue.nodes()
        if spec.settings_known and spec.configurations and spec.origin.kind in kinds
    ]
    assert {spec.origin.kind for spec in specs} == kinds
    assert len(specs) > 40
    return specs


@given(data=st.data())
def test_valid_settings_are_no_problem(judged, data):
    spec = data.draw(st.sampled_from(judged), label="node")
    settings = data.draw(configurations(spec), label="settings")
    assert check_configuration(spec, settings).problems == (), spec.id


def test_every_node_takes_each_of_its_values(judged):
    """All options, both ends of every range, every default: one after the other, on every node."""
    tried = 0
    for spec in judged:
        needed = {
            entry.name: "{{ later }}"
            for entry in spec.configurations
            if entry.required and not entry.has_default
        }
        for parameter in spec.configurations:
            values = [*parameter.enum_values, *(option.label for option in parameter.options if option.label)]
            values += [parameter.default_value] if parameter.has_default else []
            values += [parameter.min] if parameter.min is not None and not parameter.min_exclusive else []
            values += [parameter.max] if parameter.max is not None and not parameter.max_exclusive else []
            for value in values:
                found = check_configuration(spec, needed | {parameter.name: value})
                assert found.problems == (), (spec.id, parameter.name, value)
                tried += 1
    assert tried > 300


def wrong_values(parameter):
    """Values that are certainly wrong, whoever wrote them."""
    if parameter.enum_values:
        yield "no such choice"
    elif parameter.type in NUMBERS:
        yield from ("many", [1], {"a": 1})
        if parameter.min is not None:
            yield parameter.min - 1
        if parameter.max is not None:
            yield str(parameter.max + 1)
    elif parameter.type in ("boolean", "bool"):
        yield "perhaps"


def test_every_wrong_value_is_found(judged):
    tried = 0
    for spec in judged:
        for parameter in spec.configurations:
            for value in wrong_values(parameter):
                found = check_configuration(spec, {parameter.name: value}).problems
                assert parameter.name in {entry.setting for entry in found}, (spec.id, parameter.name, value)
                assert all(entry.fix for entry in found)
                tried += 1
    assert tried > 300


@given(data=st.data())
def test_a_key_that_does_not_exist_is_found_among_valid_ones(judged, data):
    spec = data.draw(st.sampled_from(judged), label="node")
    settings = data.draw(configurations(spec), label="settings")
    if "variables" in settings:
        settings |= {"model": settings["model"] | {"zzqx": 1}}
    else:
        settings |= {"zzqx": 1}
    found = check_configuration(spec, settings)
    assert [entry.setting for entry in found.problems] == ["zzqx"]


def test_settings_of_the_example_workflows_are_no_problem(own_catalogue):
    judged = 0
    for file in sorted(EXAMPLES.rglob("*.knwf")):
        for node in read_workflow(file).nodes:
            if isinstance(node, NativeNode) and node.node_id:
                check = check_configuration(
                    own_catalogue.node(f"{node.extension_id}.{node.node_id}"), node.parameters
                )
                assert (check.valid, check.problems) == (True, ()), (file.name, node.name)
                judged += 1
    assert judged >= 10
