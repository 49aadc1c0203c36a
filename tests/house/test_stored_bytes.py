"""What people have stored, such as journals, tool cells and workflows, is written as before, to the byte."""

from itertools import takewhile

import pytest

from tests.house.stored.corpus import FILE, corpus, read, written

#: Characters of a text that are shown before and behind a difference.
BEFORE, BEHIND = 60, 120


@pytest.mark.standin
def test_what_is_stored_is_written_as_before():
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
    # The first line has length and hash, which say little where the texts are there.
    old, new = (said.partition("\n")[2] or said for said in (before, now))
    place = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(old, new, strict=False)))
    around = slice(max(0, place - BEFORE), place + BEHIND)
    return f"    before: {old[around]!r}\n    now:    {new[around]!r}"
