"""What scalars without quotes mean in YAML 1.2."""

import pytest

from knime_mcp.yaml_text import core_scalar

pytestmark = pytest.mark.quick


def test_plain_scalars(subtests):
    for text, value in [
        ("yes", "yes"),
        ("off", "off"),
        ("010", 10),
        ("0o10", 8),
        ("0x1f", 31),
        ("0b101", "0b101"),
        ("-5", -5),
        ("1_000", "1_000"),
        ("12:30:45", "12:30:45"),
        ("1.0", 1.0),
        ("-.5", -0.5),
        ("1e3", 1000.0),
        ("1.2.3", "1.2.3"),
        ("2024-01-01", "2024-01-01"),
        ("~", None),
        ("", None),
        ("Null", None),
        ("True", True),
        ("tRue", "tRue"),
        (".inf", ".inf"),
        (".nan", ".nan"),
        ("1e999", "1e999"),
        ("9" * 5000, "9" * 5000),
        ("=", "="),
    ]:
        with subtests.test(text=text, value=value):
            found = core_scalar(text)
            assert (found, type(found)) == (value, type(value))
