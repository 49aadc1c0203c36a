"""Secrets in arguments, and wherever a server repeats them."""

import json
import re
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from knime_mcp.audit.secrets import HiddenSecrets, SecretMarker, _Arguments, mark_of, with_secrets
from knime_mcp.types.secret_rules import is_secret_name

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
    marker, unmarked = SecretMarker().for_call(arguments, text)
    assert unmarked is None
    marked = marker.mark(arguments, text)
    assert SECRET not in json.dumps(marked, ensure_ascii=False)
    assert "⟨secret " in json.dumps(marked, ensure_ascii=False)
    as_json = json.dumps({"x": SECRET}) + json.dumps([SECRET], ensure_ascii=False)
    answer = f"you sent {SECRET} and as JSON {as_json}"
    assert "hunter2" not in marker.data(answer)
    assert "hunter2" not in json.dumps(marker.data({"echo": [answer], "x": SECRET}))


def test_credentials_in_use_are_marked_in_texts():
    marker = SecretMarker(["tok-1a2b3c4d", ""])
    assert marker.marked({"auth_by": "Bearer tok-1a2b3c4d", "n": 5}) == (
        {"auth_by": f"Bearer {marker.data('tok-1a2b3c4d')}", "n": 5},
        {"/auth_by": (marker.data("tok-1a2b3c4d")[8:-1],)},
    )
    assert "tok-1a2b3c4d" not in repr(marker)


def test_arguments_with_the_name_of_a_secret_are_hidden_whole():
    marker = SecretMarker()
    given = {
        "password": "x",
        "login": {"apiKey": "y", "user": "anna", "token": 5},
        "headers": [{"name": "Authorization", "value": "Bearer z"}, {"name": "Accept", "value": "text"}],
        "max_tokens": 100,
        "secret": None,
        "password_required": "yes",
    }
    marked, hidden = marker.marked(given)
    assert marked == {
        **given,
        "password": marker._mark("x"),
        "login": {"apiKey": marker._mark("y"), "user": "anna", "token": marker._mark(5)},
        "headers": [
            {"name": "Authorization", "value": marker._mark("Bearer z")},
            {"name": "Accept", "value": "text"},
        ],
    }
    assert list(hidden) == ["/password", "/login/apiKey", "/login/token", "/headers/0/value"]


IN_TEXTS = [
    {"env": [{"Name": "DB_PASSWORD", "Value": "pw1"}]},
    {"Parameters": [{"ParameterKey": "DBPassword", "ParameterValue": "pw1"}]},
    {"headers": [{"header": "Authorization", "value": "Bearer pw1"}]},
    {"headers": ["Accept: text/plain", "Authorization: Bearer pw1"]},
    {"body": '{ "rows" : 1.50, "password":"pw1", "again": ["pw1"] }'},
    {"body": json.dumps({"data": json.dumps({"login": {"Passwort": "pw1"}})})},
    {"login": json.dumps({"Kennung": "pw1"})},
    {"url": "https://anna:pw1@host.example/a"},
    {"url": "https://host.example/a?q=1&api_key=pw1#top"},
    {"dsn": "postgresql://anna:pw1@db/x?sslmode=require"},
    {"body": "grant_type=password&password=pw1"},
    {"connection": "Server=db;Initial Catalog=my db;User Id=a;Password=pw1;Encrypt=True"},
    {"args": ["-v", "--password", "pw1", "--token", "--next"]},
    {"args": ["--password=pw1"]},
    {"body": json.dumps({"password": "pw1", "again": json.dumps({"x": ["pw1"]})})},
    {"body": json.dumps({"url": "https://host.example?api_key=pw1"})},
    {"body": json.dumps({"url": "https://anna:pw1@host.example/x"})},
    {"body": json.dumps({"headers": ["Authorization: Bearer pw1"]})},
    {"body": json.dumps([["x", "--password", "pw1"], "Kontrase\u00f1a=1"])},
    {"body": json.dumps(["contrase\u00f1a=pw1"], ensure_ascii=False)},
    {"body": json.dumps([{"name": "api_key", "value": "pw1"}])},
    {"body": json.dumps({"data": "\n" + json.dumps(["token=pw1"])})},
]
EXACT = {
    "xtoken=abcdef&token=abc": ("xtoken=abcdef&token=", "abc", ""),
    "https://anna:p@ss@host.example/p@th": ("https://anna:", "p@ss", "@host.example/p@th"),
    "https://a@b.example:pw1@host.example/": ("https://a@b.example:", "pw1", "@host.example/"),
    "x-token://host?api_key=abc": ("x-token:", "//host?api_key=abc", ""),
    json.dumps({"password": "pw1", "command": 'grep "\\d+" pw1.txt'}): (
        '{"password": "',
        "pw1",
        '", "command": "grep \\"\\\\d+\\" pw1.txt"}',
    ),
    '{"password": 48291734}': ("", '{"password": 48291734}', ""),
    json.dumps({"a": '{"password": 48291734}', "b": 5}): (
        '{"a": "',
        '{"password": 48291734}',
        '", "b": 5}',
    ),
}


def test_what_a_text_itself_names_as_a_secret_is_hidden_in_it(subtests):
    for sent in IN_TEXTS:
        with subtests.test(sent=sent):
            marker, unmarked = SecretMarker(named=["Kennung"]).for_call(sent, "{}")
            marked, found = marker.marked(sent, "{}")
            assert unmarked is None
            digests = [digest for digests in found.values() for digest in digests]
            values = dict.fromkeys(digests, "pw1")
            if "Bearer" in str(sent):
                values = dict.fromkeys(digests, "Bearer pw1")
            assert "pw1" not in str(marked)
            assert with_secrets(marked, found, values) == sent


def test_a_text_loses_its_secret_where_it_stands(subtests):
    for text, (before, secret, after) in EXACT.items():
        with subtests.test(text=text):
            marker = SecretMarker()
            assert marker.mark({"x": text}, "{}") == {"x": f"{before}{marker._mark(secret)}{after}"}


def test_a_member_too_deep_in_json_text_is_hidden_with_the_text():
    text = "[" * 300 + '{"password": "pw1"}' + "]" * 300
    assert "pw1" not in str(SecretMarker().mark({"x": text}, "{}"))


def test_only_text_that_may_name_a_secret_is_looked_into(monkeypatch):
    rows = [{"name": "x", "n": 1, "text": 'say "hi": it\'s a=b, 3:4', "\u00fc": "\u00fc"}]
    monkeypatch.setattr(_Arguments, "_copy", lambda *_: pytest.fail("looked into it"))
    for text in (json.dumps(rows), json.dumps(rows, ensure_ascii=False)):
        assert _Arguments(frozenset(), str)._text(text, [], "", 0) == text


@pytest.mark.parametrize(
    "sent",
    [
        {"text": "The password: is forgotten, token=none"},
        {"sql": "select password from users where token = 'x'"},
        {"url": "https://host.example/?q=token&page_token=3#x", "mail": "mailto:a@b.c"},
        {"columns": ["id", "password", "email"]},
        {"filters": [{"name": "status", "value": "open"}, {"key": "primary_key", "value": "id"}]},
        {"body": '{ "a" : 1.50, "max_tokens":"5" }', "code": "{password: x}"},
        {"url": "https://a:@a/a", "path": "C:\\x=y;password=z"},
    ],
)
def test_texts_that_name_no_secret_stay(sent):
    marker = SecretMarker()
    assert marker.for_call(sent, "{}") == (marker, sent)


def test_arguments_that_the_user_names():
    marker = SecretMarker(named=["Code", "/at/1"])
    marked, hidden = marker.marked({"code": "x", "at": ["y", "z"], "codes": "w"})
    assert marked == {"code": marker._mark("x"), "at": ["y", marker._mark("z")], "codes": "w"}
    assert list(hidden) == ["/code", "/at/1"]


def test_arguments_without_secrets_are_looked_at_once():
    marker = SecretMarker(["tok-1a2b3c4d"], named=["code"])
    given = {"a": ["b", {"c": None}], "code": None}
    assert marker.for_call(given) == (marker, given)
    assert marker.for_call({"a": ["Bearer tok-1a2b3c4d"]})[1] is None
    assert marker.for_call({"code": "x"})[1] is None


def test_numbers_and_nothing():
    text = schema({"type": "integer", "format": "password"})
    marker = SecretMarker()
    assert marker.mark({"a": 48151623}, text)["a"].startswith("⟨secret ")
    assert "48151623" not in marker.for_call({"a": 48151623}, text)[0].foreign("pin 48151623 is wrong")
    assert marker.mark({"a": None}, text) == {"a": None}


def test_marks_show_where_the_same_secret_was_used_with_the_same_salt():
    one, two = SecretMarker(["s3cret-0ne-1", "s3cret-tw0-2"]), SecretMarker(["s3cret-0ne-1"])
    assert one.data("s3cret-0ne-1") == one.data("s3cret-0ne-1") != one.data("s3cret-tw0-2")
    assert one.data("s3cret-0ne-1") != two.data("s3cret-0ne-1")
    assert two.salted(one.salt).data("s3cret-0ne-1") == one.data("s3cret-0ne-1")
    assert one.is_same(one.data("s3cret-0ne-1")[8:-1], "s3cret-0ne-1")
    assert not one.is_same(one.data("s3cret-0ne-1")[8:-1], "another")


def test_only_marks_that_the_record_names_are_marks():
    hidden = HiddenSecrets(salt="00", arguments={"/a": ("0123456789ab",)}, answer={"0123456789ab": 2})
    assert HiddenSecrets.parse(hidden.to_json()) == hidden
    assert hidden.without_digests(f"{mark_of('0123456789ab')} {mark_of('ba9876543210')}") == (
        "⟨secret⟩ ⟨secret ba9876543210⟩"
    )
    assert HiddenSecrets().to_json() is None


@pytest.mark.parametrize(
    "text",
    [
        None,
        "",
        "x",
        "[]",
        "1",
        '{"salt": 5}',
        '{"salt": "x"}',
        '{"arguments": []}',
        '{"answer": {"a": "b"}}',
        "[" * 9999,
    ],
)
def test_a_field_that_somebody_edited_says_nothing(text):
    assert not HiddenSecrets.parse(text)


def test_a_secret_within_another_one():
    marker = SecretMarker(["s3cret-1a", "s3cret-1a-long"])
    assert "long" not in marker.data("my s3cret-1a-long token")


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
@example({"ÒTP": 0})
def test_without_secrets_arguments_stay_as_they_are(arguments):
    text = json.dumps(arguments, ensure_ascii=False)
    names = re.findall(r"\w+", text) + re.findall(r'"((?:[^"\\]|\\.)*)"', text)
    assume(not any(is_secret_name(name) for name in names))
    before = json.dumps(arguments)
    assert SecretMarker(["a secret that is not in there"]).mark(arguments, schema({})) == arguments
    assert json.dumps(arguments) == before


@given(st.text(st.characters(exclude_categories=["Cs"]), min_size=4), JSON)
def test_a_credential_that_stands_out_never_survives(tail, other):
    secret = f"x7Gk29Qp{tail}"
    marker = SecretMarker([secret])
    marked = marker.data({"x": [f"a{secret}b", secret, other]})

    def strings(value):
        if isinstance(value, str):
            yield value
        for inner in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
            yield from strings(inner)

    assert not [text for text in strings(marked["x"][:2]) if secret in text]


def test_a_secret_as_it_stands_in_a_url():
    marker = SecretMarker(["käse/4711 x1y2"])
    assert "4711" not in marker.data("https://h/mcp?key=k%C3%A4se%2F4711%20x1y2&b=1")


@pytest.mark.long
def test_what_many_threads_learn_is_all_known():
    marker = SecretMarker()
    secrets = [f"c4n4ry-5ecret-{number:04}" for number in range(400)]
    with ThreadPoolExecutor(8) as threads:
        list(threads.map(lambda secret: marker.learn([secret]), secrets))
    assert "c4n4ry" not in marker.data(" ".join(secrets))


@pytest.mark.timeout(20)
def test_a_pattern_that_backtracks_for_ever_holds_nobody_up():
    described = json.dumps({"patternProperties": {"^(a+)+$": {"format": "password"}}})
    arguments = {"a" * 60 + "!": "seen", "aaa": "hidden"}
    marked = SecretMarker().mark(arguments, described)
    assert marked["a" * 60 + "!"] == "seen"
    assert marked["aaa"] != "hidden"


@pytest.mark.parametrize("value", [{"x": ["pins", {"spin": 1}]}, [[], {}], {"when": {1, 2}}])
def test_what_holds_no_secret_is_not_copied(value):
    assert SecretMarker(["pin", SECRET]).data(value) is value


@pytest.mark.parametrize("levels", [3, 64, 200, 250, 5000])
@pytest.mark.parametrize("shape", [lambda inner: {"c": inner}, lambda inner: [inner]])
def test_secret_members_are_hidden_however_deep(levels, shape):
    value = {"password": SECRET}
    for _ in range(levels):
        value = shape(value)
    seen = [SecretMarker().mark({"a": value})]
    for part in seen:
        seen += part.values() if isinstance(part, dict) else part if isinstance(part, list) else []
    assert SECRET not in [part for part in seen if isinstance(part, str)]


@pytest.mark.parametrize("value", [[SECRET], [{"x": f"say {SECRET}!"}], [json.dumps([SECRET])]])
def test_secrets_are_found_however_deep(value):
    assert SecretMarker(["pin", SECRET]).data(value) != value
