"""What KNIME and its bundler read: the extension loads, and `knime.yml` and `pixi.toml` fit the project."""

import logging
import re
import tomllib
from pathlib import Path

import pytest
import yaml

from knime_mcp.version import EXTENSION_ID, EXTENSION_TITLE, EXTENSION_VENDOR, VERSION

pytestmark = pytest.mark.quick


ROOT = Path(__file__).parents[2]


@pytest.fixture
def knime_yml():
    return yaml.safe_load((ROOT / "knime.yml").read_text(encoding="utf-8"))


def test_knime_yml_has_the_version_as_text(knime_yml):
    assert knime_yml["version"] == VERSION


def test_the_names_in_workflows_are_those_in_knime_yml(knime_yml):
    assert f"{knime_yml['group_id']}.{knime_yml['name']}" == EXTENSION_ID
    assert (knime_yml["description"], knime_yml["vendor"]) == (EXTENSION_TITLE, EXTENSION_VENDOR)


def test_the_files_that_knime_yml_names_exist(knime_yml):
    names = [knime_yml["license_file"], knime_yml["pixi_toml_path"], f"{knime_yml['extension_module']}.py"]
    assert [name for name in names if not (ROOT / name).is_file()] == []


@pytest.mark.requirement("T29")
def test_knime_loads_the_extension_without_complaints(host):
    assert host.describe()["problems"] == []
    # What httpx says of each request would be in KNIME's log, with its address.
    assert logging.getLogger("httpx").level == logging.WARNING


#: What the command line and its servers need, and no node.
NOT_FOR_NODES = {
    *("anyio", "mcp", "openpyxl", "pyjwt[crypto]", "python-calamine", "rich", "starlette", "typer", "uvicorn")
}


def test_every_dependency_is_bundled_in_the_same_versions():
    project, pixi = (
        tomllib.loads((ROOT / name).read_text("utf-8")) for name in ("pyproject.toml", "pixi.toml")
    )
    bundled = pixi["dependencies"] | pixi["pypi-dependencies"]
    for needed in project["project"]["dependencies"]:
        name, versions = re.fullmatch(r"([a-z][a-z0-9-]*(?:\[\w+\])?)(.*)", needed).groups()
        if name in NOT_FOR_NODES:
            assert name not in bundled
        elif name == "pyarrow":
            assert "knime-python-base" in bundled  # brings Arrow in the version that KNIME's own code wants
        else:
            assert bundled.get(name) == versions, name
