"""What people have stored, such as journals, tool cells and workflows, is written as before, to the byte."""

import re
from difflib import unified_diff

import pytest

from tests.house.stored.corpus import FILE, corpus, read, written

pytestmark = pytest.mark.quick


MOST_SHOWN = 12


@pytest.mark.standin
def test_what_is_stored_is_written_as_before(host):  # makes our extension the current one
    before, now = read(FILE.read_text(encoding="utf-8")), read(written(corpus()))
    differences = [
        f"{name}\n{difference(before.get(name), now.get(name))}"
        for name in before | now
        if before.get(name) != now.get(name)
    ]
    what_to_do = "If that is meant: python -m tests.house.stored.corpus, and a line in the changelog."
    assert not differences, "\n".join(["", *differences, "", what_to_do])


def difference(before, now):
    if before is None or now is None:
        return "    is new" if before is None else "    is not written any more"
    # By lines and members: most texts are JSON in one line.
    old, new = (re.split(r"(?<=[,\n])", said) for said in (before, now))
    changed = [line for line in unified_diff(old, new, n=0) if not line.startswith(("---", "+++", "@@"))]
    return "\n".join(f"    {line.rstrip():.200}" for line in changed[:MOST_SHOWN])
