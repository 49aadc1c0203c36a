"""What users and other programs can rely on changes only together with docs/surface.txt."""

import difflib

import pytest

from docs.surface import TARGET, surface


@pytest.mark.standin
def test_what_others_rely_on_is_what_is_written_down(host):
    written = TARGET.read_text(encoding="utf-8").splitlines()
    changes = difflib.unified_diff(written, surface().splitlines(), "written", "found", n=0, lineterm="")
    assert not (shown := "\n".join(changes)), f"if it is meant, run: python docs/surface.py\n{shown}"
