"""A version of LangChain that does not fit is told before the first call."""

import re
import tomllib
from pathlib import Path

import pytest

from knime_mcp.agents.model.langchain_fit import VERSIONS, PackageUnfit, require_fit

ROOT = Path(__file__).parents[3]


class Changed:
    """As a later version may look."""

    def _create_chat_result(self, answer): ...


@pytest.mark.parametrize("package", VERSIONS)
def test_both_files_have_the_upper_bound(package):
    project, pixi = (
        tomllib.loads((ROOT / name).read_text("utf-8")) for name in ("pyproject.toml", "pixi.toml")
    )
    extras = project["project"]["optional-dependencies"]
    named = [*project["project"]["dependencies"], *extras["anthropic"]]
    assert f"{package}{VERSIONS[package]}" in named
    assert (pixi["dependencies"] | pixi["pypi-dependencies"])[package] == VERSIONS[package]


def test_what_is_installed_fits():
    import knime_mcp.agents._tool
    import knime_mcp.agents.model.anthropic_model

    assert knime_mcp.agents._tool.MCPStructuredTool
    assert knime_mcp.agents.model.anthropic_model.AnthropicModel


@pytest.mark.parametrize(
    ("methods", "odd"),
    [
        ({"_create_chat_result": ["response"]}, "_create_chat_result"),
        ({"_create_chat_result": ["answer"], "_agenerate": []}, "_agenerate"),
    ],
)
def test_what_does_not_fit_is_told_in_plain_words(methods, odd):
    with pytest.raises(PackageUnfit, match=rf"does not fit: Changed has other methods \({odd}\)") as caught:
        require_fit(Changed, "langchain-core", methods)
    assert re.match(r"Install langchain-core>=1\.0,<\d", caught.value.fix)
