"""The rules of docs/secrets.md: what is a secret, in which spellings, and where it is hidden."""

import base64
import html
import json
import random
import re
import string
from urllib.parse import quote, quote_plus

import pytest

from knime_mcp.types.secret_rules import (
    KnownSecrets,
    is_secret_member,
    is_secret_name,
    looks_secret,
    stands_out,
)
from knime_mcp.types.texts import foreign, ours

SECRET = "c4n4ry/5ecret+v4lue ü"


def words(*lines):
    return " ".join(lines).split()


def gone(_):
    return "⊘"


def test_names_of_secrets(subtests):
    for name in words(
        "password passwd pwd secret token api_key apiKey apikey API-KEY X-Api-Key authorization",
        "access_key accessKey private_key privateKey passphrase db_password dbPassword userpassword",
        "Benutzerpasswort Passwort kennwort mot_de_passe motDePasse mdp contraseña Contraseña contrasena",
        "senha wachtwoord hasło haslo lösenord пароль 密码 パスワード 비밀번호 password2 new_password",
        "password_confirm github_token access_token refreshToken accesstoken client_secret clientSecret",
        "AWS_SECRET_ACCESS_KEY GITHUB_TOKEN token_value secrets credentials auth access_tokens api_keys",
        "jwt secret_id şifre jelszó salasana كلمة_المرور mật_khẩu cookie passcode signing.key",
        "password[0] userPassword_old",
    ):
        with subtests.test(name=name):
            assert is_secret_name(name)


def test_names_that_only_look_like_it(subtests):
    for name in words(
        "max_tokens token_count next_page_token nextPageToken pageToken page_token cursor tokenizer",
        "secretary password_policy tokens primary_key public_key key sort_key token_address token_symbol",
        "token_type token_url password_length passport passenger bypass compass author authority",
        "authentication_method auth_type continuation_token idempotency_key secret_name access_key_id",
        "tokenize cookie_policy input_tokens pwd_path title LOG_LEVEL progressToken id name keyboard",
        "monkey parola pin",
    ):
        with subtests.test(name=name):
            assert not is_secret_name(name)


@pytest.mark.parametrize("name", ["", "_", "1", "\0", "p" * 100_000, "🔑", "\ud800"])
def test_odd_names(name):
    assert not is_secret_name(name)
    assert not looks_secret(name, "value")


@pytest.mark.parametrize(
    ("value", "secret"), [("1", True), (1, True), (True, False), (None, False), ("", False)]
)
def test_flags_and_what_is_missing_are_no_secrets(value, secret):
    assert is_secret_member("password", value) is secret


def test_a_pin_is_text():
    assert is_secret_member("PIN", "1234")
    assert not is_secret_member("pin", 13)  # of a board


def test_words_never_stand_out(subtests):
    for word in words(
        "test 1234 wrong error password latest text list hunter2 Summer2026 2026 20260131 test-server-1",
        "development production-eu-1 application/json /home/anna/projects",
        "https://api.example.com/v1/items anna@example.com 4929123456781234567 aaaaaaaaaaaaaaaaaaaaaaaaa",
        "2026-01-31 true null",
    ):
        with subtests.test(word=word):
            assert not stands_out(word)
            for text in (word, f"a {word} b", json.dumps([{word: word}]), json.dumps({"a": [word, 1234]})):
                assert KnownSecrets([word]).in_data(text, gone) is text


def test_long_or_random_secrets_stand_out(subtests):
    for secret in [
        *("x7Gk29Qp", "P@ssw0rd", "correct-horse-battery-staple", "c4n4ry-5ecret-v4lue", "tok-4f9d2c71ab"),
        *(
            "ghp_16C7e42F292c6912E7710c838347Ae178B4a",
            "550e8400-e29b-41d4-a716-446655440000",
            "two  blanks and 'x'",
        ),
        *("postgres://anna:hunter2@db.example.com/x", "kX9#mP2$vL5n", "eyJhbGciOiJIUzI1NiJ9.e30.abc"),
    ]:
        with subtests.test(secret=secret):
            assert stands_out(secret)


def small(quoted):
    """With small hexadecimal digits, also behind %25."""
    return re.sub("%(25)*[0-9A-F]{2}", lambda found: found[0].lower(), quoted)


def spellings(secret):
    urls = {
        "URL": quote(secret, safe=""),
        "URL, slashes kept": quote(secret),
        "URL as JavaScript writes it": quote(secret, safe="!'()*"),
        "form": quote_plus(secret),
    }
    signs = {c for c in secret if not (c.isascii() and c.isalnum())}
    sets = {"what all escape": "&<>'\"", "signs": signs, "signs but blanks": signs - {" "}}
    forms = ("&#{};", "&#{:03};", "&#x{:x};", "&#x{:X};")
    return {
        "plain": secret,
        **urls,
        **{f"{name}, small letters": small(text) for name, text in urls.items()},
        **{
            f"{name} in a URL, {case}": text
            for name, url in urls.items()
            for case, text in [
                ("capital letters", quote(url, safe="")),
                ("small letters within", quote(small(url), safe="")),
                ("small letters", small(quote(small(url), safe=""))),
            ]
        },
        "JSON": json.dumps(secret)[1:-1],
        "JSON within JSON": json.dumps(json.dumps(secret))[3:-3],
        "PHP's JSON": json.dumps(secret)[1:-1].replace("/", "\\/"),
        "base64": base64.b64encode(secret.encode()).decode(),
        "base64 without padding": base64.b64encode(secret.encode()).decode().rstrip("="),
        "base64 for URLs": base64.urlsafe_b64encode(secret.encode()).decode(),
        "hex": secret.encode().hex(),
        "HEX": secret.encode().hex().upper(),
        "HTML": html.escape(secret),
        "XML": html.escape(secret).replace("&#x27;", "&apos;"),
        "HTML as Go writes it": html.escape(secret).replace("&#x27;", "&#39;").replace("+", "&#43;"),
        "HTML as PHP writes it": html.escape(secret).replace("&#x27;", "&#039;"),
        "HTML as .NET writes it": html.escape(secret).replace("+", "&#x2B;").replace("ü", "&#xFC;"),
        **{
            f"HTML, {which}, {form}": "".join(form.format(ord(c)) if c in chars else c for c in secret)
            for form in forms
            for which, chars in sets.items()
        },
        "Python": repr(secret)[1:-1],
    }


@pytest.mark.parametrize("secret", [SECRET, "p&ss<w0rd>'1\"+!x/Y ü", "x7Gk29Qp"])
def test_known_spellings_count_as_the_secret(secret):
    known = KnownSecrets([secret])
    shown = {
        name: around
        for name, text in spellings(secret).items()
        for around in (text, f"you sent {text}!", f"<{text}>")
        if text in known.in_data(around, gone)
        or "⊘" not in known.in_data(around, gone)
        or text in known.in_text(around, gone)
        or known.in_data({"a": [text]}, gone) == {"a": [text]}
    }
    assert shown == {}


def test_base64_of_something_with_the_secret(subtests):
    for before in ["", "x", "anna:", "any name:"]:
        for after in ["", "y", "zz"]:
            with subtests.test(before=before, after=after):
                encoded = base64.b64encode(f"{before}{SECRET}{after}".encode()).decode()
                left = KnownSecrets([SECRET]).in_data(encoded, gone)
                assert "⊘" in left
                assert len(left) <= len(encoded) - len(SECRET)


def test_json_text_stays_json_and_only_its_texts_change():
    token = "tok-4f9d2c71ab"
    text = f'{{ "id":1.0, "{token}" : 1e5,"say":"I am {token}\\n", "in": "{{\\"t\\":\\"{token}\\"}}" }}'
    known = KnownSecrets([token])
    assert known.in_data(text, gone) == (
        f'{{ "id":1.0, "{token}" : 1e5,"say":"I am ⊘\\n", "in": "{{\\"t\\":\\"⊘\\"}}" }}'
    )
    assert known.in_data({token: token, "n": 1}, gone) == {token: "⊘", "n": 1}


def test_a_secret_of_digits_is_in_no_number():
    known = KnownSecrets(["4815162342", "1234"])
    assert known.in_data({"id": 4815162342, "t": "4815162342"}, gone) == {"id": 4815162342, "t": "4815162342"}


def test_our_own_sentences_lose_no_word_of_theirs():
    known = KnownSecrets(["wrong", "test", "tok-4f9d2c71ab"])
    said = f"401 ({foreign('wrong token test, latest: tok-4f9d2c71ab')}). It may be wrong: test it"
    assert ours(known.in_text(said, gone)) == "401 (⊘ token ⊘, latest: ⊘). It may be wrong: test it"


def test_the_beginning_of_a_secret_that_was_cut_off():
    known = KnownSecrets(["tok-4f9d2c71ab"])
    assert ours(known.in_text(foreign("you are tok-4f9d…"), gone)) == "you are ⊘…"


def test_a_secret_within_another_one():
    known = KnownSecrets(["s3cret-s3cret", "s3cret-s3cret-l0ng"])
    assert known.in_data("my s3cret-s3cret-l0ng token", gone) == "my ⊘ token"


def values(chance, depth=0):
    kinds = 5 if depth > 3 else 7
    match chance.randrange(kinds):
        case 0:
            return chance.choice([None, True, False])
        case 1:
            return chance.randrange(-(10**6), 10**6)
        case 2:
            return chance.random() * 10 ** chance.randrange(-5, 9)
        case 3 | 4:
            words = [
                "test",
                "latest",
                "1234",
                "error",
                "text",
                "a",
                "⟨secret 0123456789ab⟩",
                '"',
                "\\",
                "ü",
                "=1+1",
            ]
            return "".join(
                chance.choice([*words, " ", "-", chance.choice(string.printable)]) for _ in range(6)
            )
        case 5:
            return [values(chance, depth + 1) for _ in range(chance.randrange(4))]
        case _:
            return {str(values(chance, 4)): values(chance, depth + 1) for _ in range(chance.randrange(4))}


@pytest.mark.long
def test_ten_thousand_values_with_short_credentials_arrive_as_they_were():
    chance = random.Random(23)
    for number in range(10_000):
        words = chance.sample(
            ["test", "1234", "error", "wrong", "text", "list", "transform", "admin", "a", "0"], 3
        )
        letters = "".join(chance.choices(string.ascii_lowercase + string.digits, k=chance.randrange(1, 5)))
        known = KnownSecrets([*words, letters])
        value = values(chance)
        text = json.dumps(value, ensure_ascii=number % 2 == 0)
        assert known.in_data(value, gone) is value
        assert known.in_data(text, gone) is text
