"""Secrets in arguments, and wherever a server repeats them."""

import json
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given
from hypothesis import strategies as st

from knime_mcp.audit.secrets import SecretMarker, without_digests

SECRET = 'hunter2-ünïque-"quoted"'


def schema(inner, **more):
    return json.dumps({"type": "object", "properties": {"a": inner}, **more})


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"a": SECRET}, schema({"type": "string", "format": "password"})),
        ({"a": SECRET}, schema({"type": "string", "writeOnly": True})),
        ({"a": {"b": [SECRET]}}, schema({"writeOnly": True})),
        ({"a": [SECRET]}, schema({"items": {"format": "password"}})),
        ({"a": [1, SECRET]}, schema({"prefixItems": [{}, {"format": "password"}]})),
        ({"a": {"x": SECRET}}, schema({"additionalProperties": {"format": "password"}})),
        ({"a": {"key_1": SECRET}}, schema({"patternProperties": {"^key": {"format": "password"}}})),
        ({"a": SECRET}, schema({"$ref": "#/$defs/s"}, **{"$defs": {"s": {"format": "password"}}})),
        (
            {"a": SECRET},
            schema({"$ref": "#/$defs/Key%3CA~1B%3E"}, **{"$defs": {"Key<A/B>": {"writeOnly": True}}}),
        ),
        (
            {"a": SECRET},
            schema({"$ref": "#/allOf/1"}, allOf=[{"type": "object"}, {"format": "password"}]),
        ),
        (
            {"a": SECRET},
            schema({"$ref": "#key"}, **{"$defs": {"k": {"$anchor": "key", "format": "password"}}}),
        ),
        ({"a": SECRET}, schema({"anyOf": [{"type": "null"}, {"format": "password"}]})),
        ({"a": SECRET}, schema({"anyOf": [*({"const": n} for n in range(2000)), {"format": "password"}]})),
        (
            {"a": SECRET},
            json.dumps({"allOf": [*({"title": str(n)} for n in range(2000)), {"writeOnly": True}]}),
        ),
        ({"a": SECRET}, json.dumps({"allOf": [{"properties": {"a": {"format": "password"}}}]})),
        (
            {"a": {"a": {"a": SECRET, "s": SECRET}}},
            json.dumps(
                {"properties": {"a": {"$ref": "#"}, "s": {"writeOnly": True}}, "x": "format password"}
            ),
        ),
    ],
)
def test_the_schema_says_what_is_secret(arguments, text):
    marker = SecretMarker().for_call(arguments, text)
    marked = marker.mark(arguments, text)
    assert SECRET not in json.dumps(marked, ensure_ascii=False)
    assert "⟨secret " in json.dumps(marked, ensure_ascii=False)
    as_json = json.dumps({"x": SECRET}) + json.dumps([SECRET], ensure_ascii=False)
    answer = f"you sent {SECRET} and as JSON {as_json}"
    assert "hunter2" not in marker.scrub(answer)
    assert "hunter2" not in json.dumps(marker.scrub({"echo": [answer], SECRET: SECRET}))


def test_credentials_in_use_are_marked_wherever_they_stand():
    marker = SecretMarker(["tok-12345678", ""])
    assert marker.mark({"auth": "Bearer tok-12345678", "n": 5}) == {
        "auth": f"Bearer {marker.scrub('tok-12345678')}",
        "n": 5,
    }
    assert "tok-12345678" not in repr(marker)


def test_short_secrets_are_marked_as_whole_values_only():
    marker = SecretMarker(["abc"])
    assert marker.scrub("abc") != "abc"
    assert marker.scrub("abcdef") == "abcdef"


def test_numbers_and_nothing():
    text = schema({"type": "integer", "format": "password"})
    marker = SecretMarker()
    assert marker.mark({"a": 48151623}, text)["a"].startswith("⟨secret ")
    assert "48151623" not in marker.for_call({"a": 48151623}, text).scrub("pin 48151623 is wrong")
    assert marker.mark({"a": None}, text) == {"a": None}


def test_marks_show_where_the_same_secret_was_used_but_only_within_a_run():
    one, two = SecretMarker(["secret-one", "secret-two"]), SecretMarker(["secret-one"])
    assert one.scrub("secret-one") == one.scrub("secret-one") != one.scrub("secret-two")
    assert one.scrub("secret-one") != two.scrub("secret-one")
    assert without_digests(one.scrub("x secret-one y")) == without_digests(two.scrub("x secret-one y"))


def test_a_secret_within_another_one():
    marker = SecretMarker(["secret", "secret-long"])
    assert "long" not in marker.scrub("my secret-long token")


@pytest.mark.parametrize(
    "text", ["", "not json password", "[] password", '"password"', "[" * 100_000 + "password"]
)
def test_a_schema_that_cannot_be_read_calls_nothing_secret(text):
    assert SecretMarker().mark({"a": 1}, text) == {"a": 1}


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=10,
)


@given(st.dictionaries(st.text(), JSON, max_size=4))
def test_without_secrets_arguments_stay_as_they_are(arguments):
    before = json.dumps(arguments)
    assert SecretMarker(["a secret that is not in there"]).mark(arguments, schema({})) == arguments
    assert json.dumps(arguments) == before


@given(st.text(st.characters(exclude_categories=["Cs"]), min_size=4), JSON)
def test_a_credential_never_survives(secret, other):
    marker = SecretMarker([secret])
    marked = marker.scrub({"x": [f"a{secret}b", secret, other]})

    def strings(value):
        if isinstance(value, str):
            yield value
        for inner in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
            yield from strings(inner)

    mark = marker.scrub(secret)
    if secret not in mark:
        assert not [text for text in strings(marked) if secret in text.replace(mark, "")]


def test_a_secret_as_it_stands_in_a_url():
    marker = SecretMarker(["käse/4711 x"])
    assert "4711" not in marker.scrub("https://h/mcp?key=k%C3%A4se%2F4711%20x&b=1")


def test_what_many_threads_learn_is_all_known():
    marker = SecretMarker()
    secrets = [f"canary-{number:04}" for number in range(400)]
    with ThreadPoolExecutor(8) as threads:
        list(threads.map(lambda secret: marker.learn([secret]), secrets))
    assert "canary" not in marker.scrub(" ".join(secrets))


@pytest.mark.timeout(20)
def test_a_pattern_that_backtracks_for_ever_holds_nobody_up():
    described = json.dumps({"patternProperties": {"^(a+)+$": {"format": "password"}}})
    arguments = {"a" * 60 + "!": "seen", "aaa": "hidden"}
    marked = SecretMarker().mark(arguments, described)
    assert marked["a" * 60 + "!"] == "seen"
    assert marked["aaa"] != "hidden"


@pytest.mark.parametrize("value", [{"x": ["pins", {"spin": 1}]}, [[], {}], {"when": {1, 2}}])
def test_what_holds_no_secret_is_not_copied(value):
    assert SecretMarker(["pin", SECRET]).scrub(value) is value


@pytest.mark.parametrize("value", [["pin"], {"pin": 1}, [{"x": f"say {SECRET}!"}], [json.dumps([SECRET])]])
def test_secrets_are_found_however_deep(value):
    assert SecretMarker(["pin", SECRET]).scrub(value) != value
