"""One version, wherever somebody looks for it."""

from pathlib import Path

import yaml

from knime_mcp.version import VERSION

ROOT = Path(__file__).parents[2]


def test_knime_yml_has_the_version_as_text():
    assert yaml.safe_load((ROOT / "knime.yml").read_text(encoding="utf-8"))["version"] == VERSION


def test_changelog_knows_the_version():
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert f"## [{VERSION}]" in text or "## [Unreleased]" in text
