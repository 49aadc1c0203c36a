import pytest
from hypothesis import given
from hypothesis import strategies as st

from knime_mcp.tools.provider.provide import NameFilter, shown_names
from knime_mcp.types.routing import server_labels

A, B = "https://a.example/mcp", "https://b.example/mcp"


def names(*servers):
    return shown_names([s for s, *_ in servers], [[p + name for name in n] for _, p, n in servers])


def test_names_of_one_server_are_kept():
    shown = names((A, "", ["search", "get"]))
    assert shown.per_server == (("search", "get"),)
    assert (shown.ambiguous, shown.repeated) == ((), ())


def test_a_prefix_is_put_in_front_as_it_is():
    assert names((A, "crm_", ["search"])).per_server == (("crm_search",),)


def test_names_that_two_servers_have_are_shown_with_their_server():
    shown = names((A, "", ["search", "get"]), (B, "", ["search"]))
    assert shown.per_server == (("search @ a.example", "get"), ("search @ b.example",))
    assert shown.ambiguous == ("search",)


def test_the_order_of_the_servers_does_not_matter():
    first = names((A, "", ["search"]), (B, "", ["search"])).per_server
    second = names((B, "", ["search"]), (A, "", ["search"])).per_server
    assert first == second[::-1]


def test_a_prefix_tells_servers_apart():
    shown = names((A, "", ["search"]), (B, "b_", ["search"]))
    assert shown.per_server == (("search",), ("b_search",))


def test_a_prefix_can_make_names_clash():
    shown = names((A, "b_", ["search"]), (B, "", ["b_search"]))
    assert shown.per_server == (("b_search @ a.example",), ("b_search @ b.example",))


def test_a_name_that_one_server_lists_twice_is_numbered():
    shown = names((A, "", ["a", "a", "a (2)", "a"]))
    assert shown.per_server == (("a", "a (3)", "a (2)", "a (4)"),)
    assert shown.repeated == ((A, "a"),)


def test_the_same_server_twice_is_numbered():
    shown = names((A, "", ["a"]), (A, "", ["a"]))
    assert shown.per_server == (("a @ a.example",), ("a @ a.example (2)",))


def test_servers_on_one_host_are_told_apart_by_their_path():
    assert server_labels(["http://h:1/a", "http://h:1/b", "http://x/a", "stdio:files"]) == [
        "h:1/a",
        "h:1/b",
        "x",
        "stdio:files",
    ]


def test_unusual_names_are_kept():
    long, odd = "n" * 200, "größe 日本 🔧\n"
    assert names((A, "", [long, odd, "\ud83d"])).per_server == ((long, odd, "\ufffd"),)


small_names = st.sampled_from(["a", "b", "a (2)", "a @ a.example", "", "\ud83d", "\ufffd"])


@given(
    st.lists(st.tuples(st.sampled_from([A, B, A + "/2"]), st.sampled_from(["", "p_"]), st.lists(small_names)))
)
def test_all_names_are_different_and_none_is_empty(servers):
    shown = names(*servers).per_server
    assert [len(of_server) for of_server in shown] == [len(n) for _, _, n in servers]
    every = [name for of_server in shown for name in of_server]
    assert len(set(every)) == len(every)
    assert all(every)


@pytest.mark.parametrize(
    ("patterns", "kept"),
    [
        ("", ["get_issue", "search", "delete.all"]),
        ("get_*", ["get_issue"]),
        ("SEARCH, delete*", ["search", "delete.all"]),
        ("!*all", ["get_issue", "search"]),
        ("*, !get_issue\n!search", ["delete.all"]),
        ("s?arch", ["search"]),
        ("delete?all", ["delete.all"]),
        ("e", []),
        (" , ;\n", ["get_issue", "search", "delete.all"]),
    ],
)
def test_patterns_choose_tools_by_name(patterns, kept):
    chosen = NameFilter(patterns)
    assert [name for name in ["get_issue", "search", "delete.all"] if chosen.keeps(name)] == kept


def test_patterns_are_no_regular_expressions():
    assert not NameFilter("a.c").keeps("abc")
    assert NameFilter("[x]").keeps("[x]")


def test_patterns_that_match_nothing_are_found():
    assert NameFilter("get_*, serch, !drop_*").useless(["get_a", "search"]) == ["serch", "!drop_*"]


def test_a_pattern_of_many_stars_is_quick():
    assert not NameFilter("*" * 500 + "x").keeps("a" * 200)


def test_a_server_that_lists_one_name_very_often_is_named_soon():
    (names,) = shown_names(["http://h/mcp"], [["a"] * 40_000]).per_server
    assert names[-1] == "a (40000)"
    assert len(set(names)) == 40_000
