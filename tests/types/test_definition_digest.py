import re

from hypothesis import given

from knime_mcp.types.texts import definition_digest
from tests.types.strategies import json_objects

DEFINITION = {
    "name": "search",
    "title": "Search",
    "description": "Finds things",
    "input_schema": {"type": "object", "properties": {"q": {"type": "string"}}},
    "output_schema": {"type": "object"},
    "annotations": {"readOnlyHint": True},
}


def test_the_digest_is_frozen():
    # Pins in saved tables are compared with this digest, so it must never change.
    assert definition_digest(**DEFINITION) == (
        "sha256:85f078c272a5473e0ac26243c29a525d724a29cd6de4e5d2ed417d54c11ed962"
    )


@given(json_objects)
def test_the_order_of_keys_does_not_change_a_digest(schema):
    digest = definition_digest(**DEFINITION | {"input_schema": schema})
    assert re.fullmatch(r"sha256:[0-9a-f]{64}", digest)
    backwards = dict(reversed(schema.items()))
    assert definition_digest(**DEFINITION | {"input_schema": backwards}) == digest


def test_every_part_counts(subtests):
    for change in [
        {"name": "Search"},
        {"title": "search"},
        {"title": None},
        {"description": "Finds things."},
        {"description": None},
        {"input_schema": {"type": "object", "properties": {"q": {"type": "integer"}}}},
        {"output_schema": {}},
        {"output_schema": None},
        {"annotations": {"readOnlyHint": False}},
        {"annotations": {}},
        {"annotations": None},
        {"title": "Finds things", "description": "Search"},
    ]:
        with subtests.test(change=change):
            assert definition_digest(**DEFINITION | change) != definition_digest(**DEFINITION)
