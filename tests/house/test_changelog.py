"""The changelog says what users have to know before they update."""

import re
from pathlib import Path

import pytest

pytestmark = pytest.mark.quick


ROOT = Path(__file__).parents[2]


@pytest.mark.requirement("T41")
def test_it_says_in_which_version_the_old_value_factories_go():
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    deprecated = re.split(r"^#+ ", text.partition("### Deprecated\n")[2], flags=re.MULTILINE)[0]
    assert {"`WorkflowToolValueFactory`", "`MCPToolValueFactory`"} <= set(deprecated.split())
    assert "version 2.0" in deprecated
