"""Values and their places; what is wrong with single places, and texts that cannot be read at all."""

import pytest

from knime_mcp.yaml_text import Rules, YamlError, read

pytestmark = pytest.mark.quick


RULES = Rules(merge_keys=True, most_values=100_000, deepest=200)


def place(position):
    return position.line, position.column


def test_quotes_tags_anchors_and_merges():
    text = """\
a: '010'
b: !!str 5
c: &c {x: 1, y: 2}
d: {<<: *c, y: 3}
10: ten
'<<': text
"""
    found = read(text, RULES)
    assert found.data == {
        "a": "010",
        "b": "5",
        "c": {"x": 1, "y": 2},
        "d": {"x": 1, "y": 3},
        "10": "ten",
        "<<": "text",
    }
    assert found.problems == ()
    assert place(found.at(("d", "y"))) == (4, 13)
    assert place(found.at(("d", "x"))) == (3, 8)
    assert place(found.value_at(("b",))) == (2, 4)
    assert place(found.at(("nothing", 0))) == (1, 1)


def test_merges_of_several_mappings_and_of_merges():
    text = "a: &a {k: {l: [1]}}\nb: &b {<<: *a, m: 2}\nc: {<<: [*b, {m: 3, n: 4}], o: 5}\nd: {<<: 6}\n"
    found = read(text, RULES)
    assert found.data["c"] == {"o": 5, "k": {"l": [1]}, "m": 2, "n": 4}
    assert list(found.data["c"]) == ["k", "m", "n", "o"]
    assert place(found.at(("c", "k", "l", 0))) == (1, 16)
    assert place(found.value_at(("c", "n"))) == (3, 24)
    assert [(problem.position.line, problem.message) for problem in found.problems] == [
        (4, "'<<' takes a mapping or a list of mappings")
    ]


def test_merged_keys_stand_where_they_are_merged_and_give_way_once():
    found = read("a: &a {k: {l: 1}, m: 2}\nb: {z: 0, <<: *a, k: 3}\nc: {<<: *a, k: 4, k: 5}\n", RULES)
    assert list(found.data["b"].items()) == [("z", 0), ("k", 3), ("m", 2)]
    assert place(found.at(("b", "k"))) == (2, 19)
    assert [(problem.position.line, problem.message) for problem in found.problems] == [
        (3, "the key 'k' is given twice; the other one is on line 3")
    ]


def test_texts_may_begin_with_a_question_mark():
    text = 'a: {b: ?x=1, ?c: [?d, ?e f], g: "why? [?h]", ? i : j}\nk: ?l\nm: |\n  {?n}\n'
    assert read(text, RULES).data == {
        "a": {"b": "?x=1", "?c": ["?d", "?e f"], "g": "why? [?h]", "i": "j"},
        "k": "?l",
        "m": "{?n}\n",
    }


def test_only_what_aliases_repeat_is_counted():
    rules = Rules(merge_keys=True, most_values=3, deepest=10)
    assert read("[1, 2, 3, 4, 5, 6]", rules).data == [1, 2, 3, 4, 5, 6]
    assert read("[&a [1, 2], *a]", rules).data == [[1, 2], [1, 2]]
    with pytest.raises(YamlError, match="aliases repeat more than 3 values"):
        read("[&a [1, 2], *a, *a]", rules)


def test_an_anchor_may_be_set_anew():
    assert read("- &a 1\n- *a\n- &a 2\n- *a\n", RULES).data == [1, 1, 2, 2]


def test_texts_that_are_yaml(subtests):
    for text, data in [
        ("{a: why?, b: 1}", {"a": "why?", "b": 1}),
        ("a:\t1\t# one", {"a": 1}),
        ('{\n\t"a": "\\/",\n\t"b": [\n\t\t1\n\t]\n}\n', {"a": "/", "b": [1]}),
        ("", None),
        ("# nothing\n", None),
        ("---\n...\n", None),
        ("%YAML 1.2\n---\na: 1\n", {"a": 1}),
        ("text: |\n  two\n  lines\n", {"text": "two\nlines\n"}),
    ]:
        with subtests.test(text=text, data=data):
            found = read(text, RULES)
            assert (found.data, found.problems) == (data, ())


def test_mistakes_that_leave_the_rest_readable():
    found = read("a: 1\na: 2\nb: !what x\nc: !!int many\n? [k]\n: v\nd: 4\ne: !!bool 1\n", RULES)
    assert found.data == {"a": 1, "b": "x", "c": None, "d": 4, "e": None}
    assert [problem.position.line for problem in found.problems] == [2, 3, 4, 5, 8]


def test_a_key_that_says_that_it_is_text_merges_nothing():
    assert read("{!!str <<: {a: 1}}", RULES).data == {"<<": {"a": 1}}


def test_merge_keys_that_are_not_wanted_are_a_mistake():
    found = read("a: {<<: {b: 1}, c: 2}", Rules(merge_keys=False, most_values=100, deepest=10))
    assert found.data == {"a": {"c": 2}}
    assert [problem.message for problem in found.problems] == ["merge keys (<<) are not supported"]


def test_texts_that_cannot_be_read(subtests):
    for text, line, column, said in [
        ("a: b: c", 1, 5, "this is not valid YAML"),
        ("a:\n\tb: 1", 2, 1, "this is not valid YAML"),
        ("a: [1,\n", 1, 7, "this is not valid YAML"),
        ("a: 1\n---\nb: 2\n", 2, 1, "must hold one document"),
        ("a: \x01", 1, 4, "YAML does not allow this character"),
        ("a: 1\nb: é\ud83d", 2, 5, "YAML does not allow this character"),
        ("a: &a [*a]", 1, 4, "contains the alias"),
        ("a: *b", 1, 4, "'&b'"),
        ("a: 1\n\t\nb: 2", 2, 1, "this is not valid YAML"),
        ("-\ta", 1, 2, "this is not valid YAML"),
        ("a: &b.c 1", 1, 6, "this is not valid YAML"),
        ('a: "\\ud83d\\ude00"', 1, 7, "this is not valid YAML"),
        ("a: *anchor-b", 1, 4, "'&anchor-b'"),
        ("[" * 900, 1, 202, "levels deep"),
        ("{a: " * 300 + "1" + "}" * 300, 1, 802, "levels deep"),
    ]:
        with subtests.test(text=text, line=line, column=column, said=said):
            with pytest.raises(YamlError) as caught:
                read(text, RULES)
            (problem,) = caught.value.problems
            assert said in problem.message
            assert place(problem.position) == (line, column)


@pytest.mark.parametrize("text", ["[" * 5000, "{a: " * 5000, "- " * 5000])
def test_no_text_nests_deeper_than_the_parsers_own_bound(text):
    with pytest.raises(YamlError, match="nested more than 200 levels deep"):
        read(text, RULES)


def test_tabs_are_named():
    with pytest.raises(YamlError) as caught:
        read("a:\n\tb: 1", RULES)
    assert "no tabs" in caught.value.problems[0].fix


def test_aliases_cannot_blow_up():
    lines = ["a: 1", "a: 2", "a0: &a0 [1, 2, 3, 4, 5, 6, 7, 8, 9]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 12)]
    with pytest.raises(YamlError) as caught:
        read("\n".join(lines), RULES)
    twice, many = caught.value.problems
    assert twice.position.line == 2
    assert "more than 100000 values" in many.message


def test_aliases_cannot_nest_beyond_the_bound():
    lines = ["a0: &a0 [1]", *(f"a{n}: &a{n} [*a{n - 1}]" for n in range(1, 300))]
    with pytest.raises(YamlError, match="nested more than 200 levels deep"):
        read("\n".join(lines), RULES)


def test_what_ends_lines_in_yaml_1_1_alone_is_text(subtests):
    for character in ["\x85", "\u2028", "\u2029"]:
        for form in ["a: x{}y", 'a: "x{}y"', "a: 'x{}y'", "a: |-\n  x{}y", "{{a: x{}y}}"]:
            with subtests.test(character=character, form=form):
                found = read(form.format(character) + "\nb: 1\n" * form.startswith("a"), RULES)
                assert found.data["a"] == f"x{character}y"
                if "b" in found.data:
                    assert found.at(("b",)).line == form.count("\n") + 2
