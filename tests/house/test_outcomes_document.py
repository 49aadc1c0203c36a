"""docs/errors.md shows the table by which calls are sent again or not."""

from pathlib import Path

from knime_mcp.client.protocol.outcomes import OUTCOMES

ERRORS = Path(__file__).parents[2] / "docs" / "errors.md"


def test_the_document_shows_the_table():
    rows = [
        f"| {row.happened} | {': '.join(filter(None, (row.ran, row.why)))} | {row.again} | {row.said} |"
        for row in OUTCOMES
    ]
    table = "\n".join(rows)
    assert table in ERRORS.read_text("utf-8"), f"docs/errors.md should have:\n{table}"
