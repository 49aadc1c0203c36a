"""Writes the lists of fields in docs/audit.md from src/audit/record.py and src/audit/journal_lines.py."""

from pathlib import Path

from knime_mcp.audit.journal_lines import LINES
from knime_mcp.audit.record import FIELDS

TARGET = Path(__file__).parent / "audit.md"
BEGIN, END = "<!-- by docs/record_fields.py -->\n", "<!-- end -->\n"
LINES_BEGIN, LINES_END = "<!-- lines by docs/record_fields.py -->\n", "<!-- end of lines -->\n"


def listed(page: str) -> str:
    """The page with the list as it has to be."""
    rows = [
        f"| `{name}` | {field.column or ''} | {'yes' if field.is_hashed else ''} | {field.meaning} |\n"
        for name, field in FIELDS.items()
    ]
    table = "".join(("| in a journal | in a table | hashed | meaning |\n", "|---|---|---|---|\n", *rows))
    lines = [
        f"| `{kind}` | `{name}` | {meaning} |\n"
        for kind, fields in LINES.items()
        for name, meaning in fields.items()
    ]
    lines = ["| kind of line | member | meaning |\n", "|---|---|---|\n", *lines]
    start, rest = page.split(LINES_BEGIN)[0], page.split(LINES_END)[1]
    page = "".join((start, LINES_BEGIN, *lines, LINES_END, rest))
    before, after = page.split(BEGIN)[0], page.split(END)[1]
    return f"{before}{BEGIN}{table}{END}{after}"


if __name__ == "__main__":
    TARGET.write_text(listed(TARGET.read_text(encoding="utf-8")), encoding="utf-8")
