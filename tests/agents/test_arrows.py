"""The folders below the agent nodes import one way only, as the parts of the whole house do."""

import re
from pathlib import Path

import pytest

AGENTS = Path(__file__).parents[2] / "src" / "agents"
MAY_IMPORT = {
    "toolbox": set(),
    "model": set(),
    "run": {"toolbox", "model"},
    "timeline": {"run"},
    "prompter": {"toolbox", "model", "run", "timeline"},
    "replay": set(),
}


@pytest.mark.parametrize("folder", MAY_IMPORT)
def test_folders_import_one_way(folder):
    text = "".join(path.read_text("utf-8") for path in (AGENTS / folder).glob("*.py"))
    others = set(re.findall(r"^ *from \.\.([a-z]\w*)", text, re.MULTILINE))
    assert others <= MAY_IMPORT[folder]
