"""Few bytes that are 60 MB or more in memory are refused in every way that a server is reached."""

import pytest

from tests.faults.bombs import measured


@pytest.mark.long
def test_bombs_are_refused_in_every_way(tmp_path):
    lines = measured(tmp_path)
    assert len(lines) == 26
    for line in lines:
        refused = "500 Internal Server Error" if line["bomb"] == "status 500" else "KNIME_MCP_LIMITS='"
        assert refused in line["said"], line
        # 60 MB as text and what is made of it to count; as values they would be gigabytes.
        assert line["more"] < 150, line
