"""Dates and times with pictures: each value was compared with npm's jsonata 2.2."""

import pytest

from knime_mcp_graph.expressions import UNDEFINED, ExpressionError, check_jsonata, evaluate

pytestmark = pytest.mark.quick


def test_reading(subtests):
    for text, picture, wanted in [
        ("2026-04-08T19:05:04.5Z", "[Y]-[M]-[D]T[H]:[m]:[s].[f001]Z", "2026-04-08T19:05:04.500Z"),
        ("2026-04-08T19:05:04.01987", "[Y]-[M]-[D]T[H]:[m]:[s].[f1]", "2026-04-08T19:05:04.019Z"),
        ("2026-13-45", "[Y0001]-[M01]-[D01]", "2027-02-14T00:00:00.000Z"),
        ("2026-02-31", "[Y]-[M]-[D]", "2026-03-03T00:00:00.000Z"),
        ("2026-04-08 25:61:61", "[Y]-[M]-[D] [H]:[m]:[s]", "2026-04-09T02:02:01.000Z"),
        ("99-1-1", "[Y]-[M]-[D]", "1999-01-01T00:00:00.000Z"),
        ("20260408", "[Y0001][M01][D01]", "2026-04-08T00:00:00.000Z"),
        ("2026", "[Y0001][M01][D01]", UNDEFINED),
        ("8th April 2026", "[D1o] [MNn] [Y]", "2026-04-08T00:00:00.000Z"),
        ("2026-098", "[Y]-[d]", "2026-04-08T00:00:00.000Z"),
        ("8 Apr 2026 12:30 am", "[D] [MNn,3-3] [Y] [h]:[m] [P]", "2026-04-08T00:30:00.000Z"),
        ("8 Apr 2026 4:30 PM", "[D] [MNn,3-3] [Y] [h]:[m] [P]", "2026-04-08T16:30:00.000Z"),
        ("2026-04-08T19:05+02:00", "[Y]-[M]-[D]T[H]:[m][Z]", "2026-04-08T17:05:00.000Z"),
        ("MMXXVI", "[YI]", "2026-01-01T00:00:00.000Z"),
        ("April 2026", "[MNn] [Y]", "2026-04-01T00:00:00.000Z"),
        ("nothing", "[Y]", UNDEFINED),
        ("2026 am", "[Y] [P]", "2026-01-01T00:00:00.000Z"),
        ("April 2026", "[MNn,2] [Y]", "2026-04-01T00:00:00.000Z"),
        ("x", "x", UNDEFINED),
    ]:
        with subtests.test(text=text, picture=picture, wanted=wanted):
            assert evaluate(f"$toMillis('{text}', '{picture}') ~> $fromMillis()", {}) == wanted


def test_what_a_picture_leaves_out_is_now():
    found = evaluate(
        "[$fromMillis($toMillis('12:30', '[H]:[m]')), $now('[Y0001]-[M01]-[D01]T12:30:00.000Z')]", {}
    )
    assert found[0] == found[1]


@pytest.mark.parametrize(("said", "picture"), [("4", "[F0]"), ("MONDAY", "[FN]")])
def test_what_says_nothing_of_a_moment_is_now(said, picture):
    assert evaluate(f"$toMillis('{said}', '{picture}') = $millis()", {}) is True


def test_names_with_only_a_least_width_are_whole():
    assert (
        evaluate("$fromMillis(0, '[FNn,2] [MNn,9] [YN]' ~> $replace(' [YN]', ''))", {}) == "Thursday January"
    )


@pytest.mark.parametrize(
    ("expression", "said"),
    [
        ("$toMillis('2026-098', '[Y]-[D]')", "missing specifiers"),
        ("$toMillis('2026-W2', '[X]-W[W]')", "missing specifiers"),
        ("$toMillis('2026', '[q]')", 'Unknown component specifier "q"'),
        ("$fromMillis(0, '[q]')", 'Unknown component specifier "q"'),
        ("$fromMillis(0, '[YN]')", 'not "Y"'),
        ("$fromMillis(0, '[Y#]')", 'starting with "#" is not supported'),
        ("$toMillis('1', '[Y#]')", "is not supported by this implementation"),
        ("$parseInteger('50', '#')", 'starting with "#"'),
    ],
)
def test_errors(expression, said):
    with pytest.raises(ExpressionError, match=said):
        evaluate(expression, {})


@pytest.mark.parametrize("picture", ["w", "I"])
def test_an_integer_that_is_not_written_as_the_picture_is_none(picture):
    assert evaluate(f"$parseInteger('?', '{picture}')", {}) is None


@pytest.mark.parametrize(
    ("expression", "said"),
    [
        ("a /* b", "Comment has no closing tag (position 2)"),
        ("1 /*", "Comment has no closing tag (position 2)"),
        ("a /", "Unexpected end of expression (position 3)"),
        ("(a /* c */", 'Expected ")" before end of expression (position 10)'),
    ],
)
def test_ends_that_come_too_soon(expression, said):
    assert check_jsonata(expression) == said
