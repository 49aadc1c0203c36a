"""What pyproject.toml offers is tried where packages are built."""

import tomllib
from pathlib import Path

import pytest

from tests.packaging.packages import PRODUCTS, PROMISES

pytestmark = pytest.mark.quick


ROOT = Path(__file__).parents[2]
OFFERED = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]


def test_every_extra_is_tried_alone():
    assert set(PROMISES) == {"", *OFFERED}


@pytest.mark.parametrize("product", PRODUCTS)
def test_every_extra_of_a_product_is_tried_alone(product):
    text = (ROOT / "packages" / product / "pyproject.toml").read_text()
    offered = tomllib.loads(text)["project"].get("optional-dependencies", {})
    assert set(PRODUCTS[product]) == {"", *offered}


def test_all_has_every_other_extra():
    (everything,) = OFFERED["all"]
    named = everything.removeprefix("knime-mcp[").removesuffix("]").split(",")
    # "knime" bounds packages, such as pandas, for a Python that does nothing but run the nodes.
    assert sorted(named) == sorted(set(OFFERED) - {"all", "knime"})


def test_every_extra_is_explained():
    text = (ROOT / "docs" / "command-line.md").read_text().partition("## Extras")[2]
    assert [extra for extra in OFFERED if f"| `{extra}` |" not in text] == []
