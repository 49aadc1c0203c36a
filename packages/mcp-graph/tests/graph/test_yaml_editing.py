"""Changed values in texts of YAML: the text holds what was wanted, and nothing else in it is different."""

import copy
import difflib
import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from knime_mcp.yaml_text import Rules, read
from knime_mcp_graph.yaml_editing import EditError, edited

RULES = Rules(merge_keys=True, most_values=10_000, deepest=50)

DESK = """\
version: "1.0"   # the format
server: {name: desk, version: 1.0.0}
tools:
  # all of them
  - name: longest  # in lines
    description: 'Says which'
    nodes:
      - {id: start, type: entry, next: list}
      - {id: list, type: mcp, args: {}, next: some} # asks

      # chooses
      - id: some   # a name
        # of a switch
        type: switch
        conditions:
          - rule: {">": [{var: n}, 0]}
            next: longest   # the way
        next: none
      - id: text
        expr: |  # in lines
          a
          b
        next: end
"""


def data_of(text):
    return read(text, RULES).data


def changed(text, change):
    """The lines that go and those that come, and the text, which holds what was wanted."""
    data = copy.deepcopy(data_of(text))
    change(data)
    new = edited(text, data, RULES)
    assert data_of(new) == data
    lines = [line for line in difflib.ndiff(text.splitlines(), new.splitlines()) if line[0] in "+-"]
    return lines, new


def nodes(data):
    return data["tools"][0]["nodes"]


def test_a_text_keeps_its_quotes_and_its_comment():
    lines, _ = changed(DESK, lambda data: data["tools"][0].update(description="It's #1: all"))
    assert lines == ["-     description: 'Says which'", "+     description: 'It''s #1: all'"]


def test_an_entry_is_written_like_the_one_before_it():
    def change(data):
        nodes(data).insert(1, {"id": "new", "type": "transform", "next": "list"})
        nodes(data)[0]["next"] = "new"
        nodes(data).append({"id": "end", "type": "exit"})

    lines, _ = changed(DESK, change)
    assert lines == [
        "-       - {id: start, type: entry, next: list}",
        "+       - {id: start, type: entry, next: new}",
        "+       - {id: new, type: transform, next: list}",
        "+       - id: end",
        "+         type: exit",
    ]


def test_a_removed_entry_leaves_the_comments_around_it():
    lines, new = changed(DESK, lambda data: nodes(data).pop(2))
    assert [line[0] for line in lines] == ["-"] * 7
    assert "# chooses" in new
    assert "# asks" in new


def test_the_key_after_a_dash_leaves_its_comment():
    lines, _ = changed(DESK, lambda data: nodes(data)[2].pop("id"))
    assert lines == ["-       - id: some   # a name", "+       -    # a name"]


def test_a_key_is_renamed_in_its_place():
    def change(data):
        data["server"] = {"title": "desk", "version": "1.0.0"}

    lines, _ = changed(DESK, change)
    assert lines[1] == "+ server: {title: desk, version: 1.0.0}"


def test_a_block_of_text_stays_one():
    lines, _ = changed(DESK, lambda data: nodes(data)[3].update(expr="a\nc\n\nd\n"))
    assert lines == ["-           b", "+           c", "+ ", "+           d"]


def test_a_long_value_becomes_a_block():
    args = {"first": "a" * 50, "second": ["b" * 30, {"expr": "c"}]}
    lines, _ = changed(DESK, lambda data: nodes(data)[3].update(args=args))
    assert lines == [
        "+         args:",
        f"+           first: {'a' * 50}",
        f"+           second: [{'b' * 30}, {{expr: c}}]",
    ]


def test_windows_line_ends_stay():
    _, new = changed(DESK.replace("\n", "\r\n"), lambda data: nodes(data).append({"id": "a\nb"}))
    assert "\n" not in new.replace("\r\n", "")


def test_small_texts(subtests):
    for text, change, wanted in [
        ("a: &x {b: 1}\nc: *x\n", lambda data: data.update(c={"b": 2}), "a: &x {b: 1}\nc: {b: 2}\n"),
        ("a: &x {b: 1}\nc:\n  <<: *x\n  d: 1\n", lambda data: data["c"].update(b=2), None),
        ("a:\nb: 1\n", lambda data: data.update(a="x"), "a: x\nb: 1\n"),
        ("a: # why\n  b: 1\n", lambda data: data.update(a=[]), "a: [] # why\n"),
        ("a: [1, # one\n  2]\n", lambda data: data["a"].pop(0), None),
        ("", lambda data: None, ""),
        ("a: 1", lambda data: data.update(b="no"), 'a: 1\nb: "no"'),
        ("a: 1 # c\n", lambda data: data.update(a="x\ny"), "a: |- # c\n  x\n  y\n"),
        # A comment on a line of its own would be a line of the text.
        (
            "a: # c\n  # d\n  - '' # e\nb: 1\n",
            lambda data: data.update(a="x\n"),
            "a: # c\n  # d\n  | # e\n  x\nb: 1\n",
        ),
        ("- '' # c\n", lambda data: data.__setitem__(0, {"a": "b" * 80}), f"- # c\n  a: {'b' * 80}\n"),
        ("- a: 1\n  b: 2\n", lambda data: data[0].pop("a"), "- b: 2\n"),
        ("a: {b: 1}\n", lambda data: data["a"].clear(), "a: {}\n"),
    ]:
        with subtests.test(text=text, change=change, wanted=wanted):
            _, new = changed(text, change)
            assert wanted is None or new == wanted
            assert new.count("#") == text.count("#")


@pytest.mark.parametrize(
    ("text", "change"),
    [
        ("a: &x {b: 1}\nc: *x\n", lambda data: data["a"].update(b=2)),
        ("a: &x {b: 1}\nc: {<<: *x, d: 1}\n", lambda data: data["c"].pop("b")),
        ("a: [1\n", lambda data: None),
    ],
)
def test_what_cannot_be_changed_alone_is_refused(text, change):
    data = {"a": {"b": 1}, "c": {"b": 1}} if text.endswith("[1\n") else copy.deepcopy(data_of(text))
    change(data)
    with pytest.raises(EditError):
        edited(text, data, RULES)


# Any text, any change: values, quotes, blocks and comments in any order.

_NAMES = st.text("abcxyz", min_size=1, max_size=3)
_TEXTS = st.text("ab :#-?,'\"\\[]{}&*!|>%@`~\n\té\u2028😀01.$", max_size=12)
_SCALARS = st.one_of(_TEXTS, st.integers(-99, 99), st.booleans(), st.none(), st.just(1.5), st.just("yes"))
_VALUES = st.recursive(
    _SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(_NAMES, inner, max_size=4),
    max_leaves=12,
)
_DOCUMENTS = st.dictionaries(_NAMES, _VALUES, min_size=1, max_size=4) | st.lists(
    _VALUES, min_size=1, max_size=4
)


class Writer:
    """Writes values in any style, with comments that have numbers."""

    def __init__(self, draw):
        self.draw = draw
        self.comments = 0

    def some(self, *choices):
        return self.draw(st.sampled_from(choices))

    def comment(self):
        self.comments += 1
        return f"# c{self.comments}."

    def after(self):
        return f"  {self.comment()}" if self.some(True, False, False) else ""

    def before(self, indent):
        return f"{' ' * indent}{self.comment()}\n" if self.some(True, False, False, False) else ""

    def scalar(self, value):
        if not isinstance(value, str):
            return json.dumps(value)
        plain = re.fullmatch(r"[ab01.$]*[ab][ab01.$]*", value)
        if plain and self.some(True, False):
            return value
        if value.isprintable() and self.some(True, False):
            return "'" + value.replace("'", "''") + "'"
        return '"' + "".join(c if c.isalnum() or c == " " else f"\\U{ord(c):08x}" for c in value) + '"'

    def flow(self, value):
        if isinstance(value, dict):
            return "{" + ", ".join(f"{k}: {self.flow(v)}" for k, v in value.items()) + "}"
        if isinstance(value, list):
            return "[" + ", ".join(map(self.flow, value)) + "]"
        return self.scalar(value)

    def block(self, value, indent):
        """Lines of a collection."""
        space = " " * indent
        heads = [f"{space}{k}:" for k in value] if isinstance(value, dict) else [f"{space}-"] * len(value)
        members = value.values() if isinstance(value, dict) else value
        return "".join(
            self.before(indent) + head + self.member(member, indent + 2, head)
            for head, member in zip(heads, members, strict=True)
        )

    def member(self, value, indent, head):
        if isinstance(value, dict | list) and value and self.some(True, True, False):
            lines = self.block(value, indent)
            compact = head.endswith("-") and not lines.lstrip(" ").startswith("#") and self.some(True, False)
            return f" {lines.lstrip(' ')}" if compact else f"{self.after()}\n{lines}"
        simple = isinstance(value, str) and value.strip() and all(c in "ab01.$\n" for c in value)
        if simple and value[0] != "\n" and value.endswith("b\n") and self.some(True, False):
            lines = "".join(f"{' ' * indent}{line}".rstrip() + "\n" for line in value[:-1].split("\n"))
            return f" |{self.after()}\n{lines}"
        return f" {self.flow(value)}{self.after()}\n"


def paths_of(value, path=()):
    yield path
    members = (
        value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    )
    for key, member in members:
        yield from paths_of(member, (*path, key))


@st.composite
def changes(draw):
    """A text, and the data after one change of it."""
    before = draw(_DOCUMENTS)
    writer = Writer(draw)
    text = writer.block(before, 0)
    after = copy.deepcopy(before)
    path = draw(st.sampled_from(list(paths_of(before))))
    outer, value = None, after
    for key in path:
        outer, value = value, value[key]
    kinds = ["add"] if isinstance(value, dict | list) else []
    kinds += ["set", "remove"] if path else []
    kind = draw(st.sampled_from(kinds))
    lines = 1 + value.count("\n") if isinstance(value, str) else 1
    if kind == "add" and isinstance(value, list):
        value.insert(draw(st.integers(0, len(value))), draw(_VALUES))
    elif kind == "add":
        value.setdefault(draw(_NAMES), draw(_VALUES))
    elif kind == "set":
        outer[path[-1]] = draw(_VALUES)
    else:
        del outer[path[-1]]
    whole = kind != "add" and isinstance(value, dict | list) and value
    whole = whole or (kind == "remove" and not outer)
    return text, before, after, None if whole else lines + (kind == "remove")


@given(changes())
def test_any_change_of_any_text(change):
    """`most`: how many lines it may take; None where whole blocks go, and what is said in them."""
    text, before, after, most = change
    assert data_of(text) == before
    new = edited(text, after, RULES)
    assert data_of(new) == after
    if most is not None:
        gone = [line for line in difflib.ndiff(text.splitlines(), new.splitlines()) if line[0] == "-"]
        assert len(gone) <= most, gone
        lost = [number for number in range(text.count("# c")) if f"# c{number + 1}." not in new]
        assert len(lost) <= 1
