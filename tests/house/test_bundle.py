"""What KNIME and its bundler read beside the code says the same as the project does."""

import re
import tomllib
from pathlib import Path

import yaml

from knime_mcp.version import VERSION

ROOT = Path(__file__).parents[2]


def test_knime_yml_has_the_version_as_text():
    assert yaml.safe_load((ROOT / "knime.yml").read_text(encoding="utf-8"))["version"] == VERSION


def test_every_dependency_is_bundled_in_the_same_versions():
    project, pixi = (
        tomllib.loads((ROOT / name).read_text("utf-8")) for name in ("pyproject.toml", "pixi.toml")
    )
    bundled = pixi["dependencies"] | pixi["pypi-dependencies"]
    for needed in project["project"]["dependencies"]:
        name, versions = re.fullmatch(r"([a-z-]+)(.*)", needed).groups()
        if name == "pyarrow":
            assert "knime-python-base" in bundled  # brings Arrow in the version that KNIME's own code wants
        else:
            assert bundled.get(name) == versions, name
