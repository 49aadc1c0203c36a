"""Writes the list of a record's fields in docs/audit.md from the one table in src/audit/record.py."""

from pathlib import Path

from knime_mcp.audit.record import FIELDS

TARGET = Path(__file__).parent / "audit.md"
BEGIN, END = "<!-- by docs/record_fields.py -->\n", "<!-- end -->\n"


def listed(page: str) -> str:
    """The page with the list as it has to be."""
    rows = [
        f"| `{name}` | {field.column or ''} | {'yes' if field.is_hashed else ''} | {field.meaning} |\n"
        for name, field in FIELDS.items()
    ]
    table = "".join(("| in a journal | in a table | hashed | meaning |\n", "|---|---|---|---|\n", *rows))
    before, after = page.split(BEGIN)[0], page.split(END)[1]
    return f"{before}{BEGIN}{table}{END}{after}"


if __name__ == "__main__":
    TARGET.write_text(listed(TARGET.read_text(encoding="utf-8")), encoding="utf-8")
