"""What the bundler puts into KNIME's environment is what the nodes need."""

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]


def read(name):
    return tomllib.loads((ROOT / name).read_text("utf-8"))


def bundled():
    pixi = read("pixi.toml")
    return pixi["dependencies"] | pixi["pypi-dependencies"]


def test_every_dependency_is_bundled_in_the_same_versions():
    found = bundled()
    for needed in read("pyproject.toml")["project"]["dependencies"]:
        name, versions = re.fullmatch(r"([a-z-]+)(.*)", needed).groups()
        if name == "pyarrow":
            assert "knime-python-base" in found  # brings Arrow in the version that KNIME's own code wants
        else:
            assert found.get(name) == versions, name


def test_markdown_is_one_that_knime_can_read_descriptions_with():
    assert bundled()["markdown"].endswith("<3.11")
