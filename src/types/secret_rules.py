"""The one place that decides what is a secret, in which spellings, and where a text or value loses it.

``docs/secrets.md`` says the same as a table. Two kinds of text are told apart:

- *data*: what a person sent or a tool answered, wherever it is kept. It loses only whole occurrences of a
  secret that `stands_out`, in texts; names of members, numbers and the form of JSON text stay
  (`KnownSecrets.in_data`).
- text *about* a call, such as errors, progress and logs. Our own sentences lose secrets that stand out, which
  they cannot contain by chance; what they quote from elsewhere also loses all others, where these stand as
  words of their own (`KnownSecrets.in_text`).
"""

from __future__ import annotations

import base64
import itertools
import json
import re
import unicodedata
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any, Final, cast
from urllib.parse import quote, quote_plus

from .texts import CUT, FOREIGN

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

# ------------------------------------------------------------------------------------------------ names


def _all(*lines: str) -> frozenset[str]:
    return frozenset(" ".join(lines).split())


_WORDS: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+|[^\W\d_A-Za-z]+")
_UNDECOMPOSED: Final = str.maketrans("łŁøØđĐıİßæÆœŒ", "lLoOdDiIsaAoO")
_SECRET_WORDS: Final = _all(
    "authorization authorisation bearer cookie cookies credential credentials jwt passcode passphrase passwd",
    "password passwords pwd secret secrets token otp totp apikey apikeys",
    # German, French, Spanish, Catalan, Portuguese, Dutch, Polish, Czech, Slovak
    "passwort kennwort geheimnis zugangscode motdepasse mdp contrasena contrasenya senha palavrapasse",
    "wachtwoord haslo heslo",
    # Swedish, Danish, Norwegian, Finnish, Hungarian, Turkish, Croatian, Slovenian, Estonian, Lithuanian,
    # Indonesian, Vietnamese
    "losenord adgangskode kodeord passord salasana jelszo sifre lozinka geslo parool slaptazodis katasandi",
    "matkhau",
    # Russian, Ukrainian, Bulgarian, Greek, Hebrew, Arabic, Chinese, Japanese, Korean
    "пароль парола κωδικοςπροσβασης סיסמה كلمةالمرور كلمةالسر",
    "密码 密碼 口令 密钥 密鑰 パスワード 暗証番号 비밀번호",
)
_COMPOUND: Final = re.compile(
    r"(?:password|passwort|kennwort|passphrase|passwd|wachtwoord|losenord|passord|apikey"
    r"|(?:access|api|auth|bearer|id|refresh|session)token|clientsecret)$"
)
_SECRET_KEYS: Final = re.compile(
    r"(?:api|access|account|app|auth|client|encryption|function|functions|license|licence|master|private"
    r"|secret|service|shared|signing|subscription|user)keys?$|secretaccesskey"
)
_WHOLE_NAMES: Final = frozenset({"auth", "pass", "xauth"})
_ABOUT_SECRETS: Final = _all(
    "age algorithm arn at audience budget column count date disabled enabled encoding endpoint env expires",
    "expiration expiry field fields file format generator host id ids in issuer label len length limit",
    "limits link manager max method min mode name names path pattern policies policy prompt provider ref",
    "reference regex required reset rule rules scope scopes size state status store strength ttl type types",
    "uri url usage variable version",
)
"""Last words of names that describe a secret and do not hold it, such as ``password_policy``."""
_NO_CREDENTIAL: Final = _all(
    "after before bos change completion continuation cursor delta end eos first input last mask max min next",
    "num output pad page pagination per prev previous progress prompt resume sep skip special start stop",
    "sync total unk watch",
)
"""Words before ``token`` with which it is a place in a list, or a piece of text."""
_OF_TOKENS: Final = frozenset({"access", "api", "auth", "bearer", "refresh", "secret", "session"})
_TOKEN_TAILS: Final = frozenset({"string", "text", "value", "secret"})
_LONGEST_NAME: Final = 200

# The names of secrets in headers and queries of URLs, where more is one than among arguments.
_SENT_WORDS: Final = _all(
    "authorization bearer cookie credential credentials jwt passphrase passwd password pwd secret sig",
    "signature token",
)
_SENT_NAMES: Final = frozenset({"key", "auth", "pass", "xauth", "code"})
_SENT_KEYS: Final = re.compile(
    r"(?:api|access|account|app|auth|client|function|functions|license|private|secret|service|shared"
    r"|subscription|user)key"
)
_SENT_VALUES: Final = re.compile(
    r"(?<![\w-])(?:eyJ[\w-]{8}|sk-|gh[pousr]_|github_pat_|glpat-|xox[abprs]-|AKIA[0-9A-Z]{12})"
)
_TEMPLATE: Final = re.compile(r"\{credential\.(?:password|username)\}")
_PASSWORD_IN_URL: Final = re.compile(r"\A[A-Za-z][A-Za-z0-9+.-]*://[^/?#@:]*:([^/?#@]+)@")
_USUAL_VARIABLES: Final = re.compile(
    r"(?:HOME|USER|LOGNAME|USERNAME|USERPROFILE|PATH|PWD|OLDPWD|SHELL|TERM|LANG|LANGUAGE|LC_\w+|TZ|TMPDIR|TEMP|TMP"
    r"|HOSTNAME|APPDATA|LOCALAPPDATA|PROGRAMFILES|SYSTEMROOT|COMPUTERNAME|XDG_\w+|PYTHONPATH|NODE_PATH"
    r"|VIRTUAL_ENV|JAVA_HOME|DISPLAY|EDITOR)"
)


@lru_cache(maxsize=4096)
def is_secret_name(name: str) -> bool:
    """Returns whether the name of an argument or setting says that its value is a secret.

    Names are read word by word, in snake, kebab and camel case, without accents: ``db_password``, ``apiKey``
    and ``Contraseña`` are names of secrets, ``max_tokens``, ``nextPageToken``, ``password_policy``,
    ``tokenizer`` and ``primary_key`` are not.
    """
    words = _words(name)
    if not words:
        return False
    joined = "".join(words)
    if joined in _WHOLE_NAMES:
        return True
    if joined == "secretid":  # HashiCorp's AppRole; the ids of other secrets are names
        return True
    # `password2` and `token_value` are named after what they hold.
    while words and (words[-1].isdigit() or words[-1] in _TOKEN_TAILS - {"secret"}) and len(words) > 1:
        words = words[:-1]
    if words[-1] in _ABOUT_SECRETS:
        return False
    if "tokens" in words[-1:] and not _OF_TOKENS.isdisjoint(words[:-1]):
        return True
    joined = "".join(words)
    if _SECRET_KEYS.search(joined) or any(map(_COMPOUND.search, words)):
        return True
    # Up to three words together, as `pass_word` and `mot_de_passe` are written apart.
    runs = {"".join(words[i : i + n]) for n in (1, 2, 3) for i in range(len(words))}
    found = runs & _SECRET_WORDS
    if not found - {"token"}:  # `token_address` and `token_symbol` are of coins
        return words[-1] == "token" and _NO_CREDENTIAL.isdisjoint(words)
    return True


def _words(name: str) -> list[str]:
    # NFKD takes accents off, but leaves letters such as ł whole, which people type without their stroke.
    plain = unicodedata.normalize("NFKD", name[:_LONGEST_NAME].translate(_UNDECOMPOSED))
    bare = "".join(c for c in plain if not unicodedata.combining(c) or c > "\u0900")
    if not bare.isascii():  # other scripts are written back in the form that the list has
        bare = unicodedata.normalize("NFC", bare)
    return [word.casefold() for word in _WORDS.findall(bare)]


def is_secret_member(name: str, value: Any) -> bool:
    """Returns whether a member of an object is a secret by its name: no flag, nothing missing or empty."""
    if value is None or isinstance(value, bool) or value in ("", [], {}):
        return False
    return is_secret_name(name) or (isinstance(value, str) and name.casefold() == "pin")


def is_secret_variable(name: str) -> bool:
    """Returns whether what ``${NAME}`` held is a secret: not for variables that every process has."""
    return _USUAL_VARIABLES.fullmatch(name) is None


def secrets_in_environment(variables: Mapping[str, str], taken: Iterable[str]) -> Iterator[str]:
    """The secrets among the environment variables for a process.

    Args:
        variables: The variables. A plain value is a secret if the name or the value looks like one, or if it
            is an address with a password.
        taken: Values that were taken from our own environment, which are secrets.
    """
    yield from taken
    for name, value in variables.items():
        password = _PASSWORD_IN_URL.search(value)
        if password or looks_secret(name, value):
            yield value
        if password:
            yield password[1]


def looks_secret(name: str, value: str) -> bool:
    """Returns whether a query parameter, header or option seems to carry a secret in clear text.

    Args:
        name: Its name.
        value: Its value; an empty value, or one with a template for a credential, is no secret.

    Returns:
        Whether the name is a usual name of secrets, or the value starts like a well-known kind of key.
    """
    if not value or _TEMPLATE.search(value):
        return False
    words = _words(name)
    joined = "".join(words)
    if joined == "code":  # a country code, or a function key of Azure
        return len(value) >= 20
    return bool(
        joined in _SENT_NAMES
        or not _SENT_WORDS.isdisjoint(words)
        or _SENT_KEYS.search(joined)
        or re.search(r"(?:password|secret|token|apikey)$", joined)
        or is_secret_name(name)
        or _SENT_VALUES.search(value)
    )


# ----------------------------------------------------------------------------------------------- values

_SHORTEST: Final = 4  # characters; shorter secrets are nowhere looked for
_FEWEST, _FEWEST_DIFFERENT = 8, 6
_ENOUGH, _ENOUGH_OF_WORDS, _WORDS_OF_PHRASE = 16, 20, 3
_PER_CHANGE: Final = 3
_PLACE: Final = re.compile(
    r"(?:~?/|\.{1,2}/|[A-Za-z]:\\)[^?@]*|[a-z][a-z0-9+.-]*://[^?@]*|[\w.+-]+@[\w-]+(?:\.[\w-]+)+"
)
_FEW_CHANGES: Final = 4


@lru_cache(maxsize=1024)
def stands_out(secret: str) -> bool:
    """Returns whether a secret is so long or random that it stands in no data by chance.

    At least 8 characters, of which 6 are different and one is a letter; its length, plus 3 for each change
    between letters, digits and signs within a word (a capital after a small letter counts, too), is at least
    16, and if it has letters only, at least 20 in three or more words; and it is no path, web address or
    e-mail address. A key of a well-known kind, such as ``sk-…``, always does.

    So ``test``, ``1234``, ``Summer2026``, ``internationalization`` and ``/home/anna/projects`` do not stand
    out, ``x7Gk29Qp`` and ``correct-horse-battery`` do.
    """
    # Hiding `admin` or `12345678` in data would change values that only happen to be equal.
    if len(secret) < _FEWEST or len(set(secret)) < _FEWEST_DIFFERENT or not any(map(str.isalpha, secret)):
        return False
    if _SENT_VALUES.match(secret):
        return True
    changes = _changes(secret)
    # Paths, URLs and addresses of mails are long, and stand in results for good reasons.
    if changes < _FEW_CHANGES and _PLACE.fullmatch(secret):
        return False
    score = len(secret) + _PER_CHANGE * changes
    if changes or any(map(str.isdigit, secret)):
        return score >= _ENOUGH
    return score >= _ENOUGH_OF_WORDS and len(re.findall(r"[^\W_]+", secret)) >= _WORDS_OF_PHRASE


def _changes(text: str) -> int:
    kinds = [_kind(character) for character in text]
    pairs = itertools.pairwise(kinds)
    return sum(one != two and " " not in (one, two) and (one, two) != ("A", "a") for one, two in pairs)


def _kind(character: str) -> str:
    if character.isalpha():
        return "A" if character.isupper() else "a"
    return "0" if character.isdigit() else " " if character.isspace() or character in "-_./:,\\" else "#"


def _spellings(secret: str) -> Iterator[str]:
    """The known encodings of a secret, see ``docs/secrets.md``."""
    for text in (secret, " ".join(secret.split())):  # messages quote texts in one line
        yield text
        for quoted in (json.dumps(text), json.dumps(text, ensure_ascii=False)):
            yield quoted[1:-1]
            yield quoted[1:-1].replace("/", r"\/")
            yield json.dumps(quoted, ensure_ascii=False)[3:-3]  # JSON within JSON
    yield repr(secret)[1:-1]
    yield from _in_html(secret)
    data = secret.encode("utf-8", "surrogatepass")
    # As RFC 3986 says, with slashes kept, as JavaScript's encodeURIComponent says, and as in forms.
    for quoted in (*(quote(data, safe=kept) for kept in ("", "/", "!'()*")), quote_plus(data)):
        for once in _both_cases(quoted):
            yield once
            yield from _both_cases(quote(once, safe=""))
    yield data.hex()
    yield data.hex().upper()
    yield from _in_base64(data)


def _both_cases(quoted: str) -> tuple[str, str]:
    """A URL-encoded text with its hexadecimal digits as they are, and small."""
    return quoted, re.sub("%(?:25)*[0-9A-F]{2}", lambda found: found[0].lower(), quoted)


_HTML_NAMES: Final = {"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;"}
# What all programs escape; Go, and .NET with all beyond ASCII; Mustache.
_HTML_SETS: Final = ("&<>\"'", "&<>\"'+", "&<>\"'/`=")
_HTML_NUMBERS: Final = ("&#{};", "&#{:03};", "&#x{:x};", "&#x{:X};")


def _in_html(secret: str) -> Iterator[str]:
    """A text in HTML: programs differ in what they escape, in names and numbers, and in the numbers' form."""
    signs = {character for character in secret if not (character.isascii() and character.isalnum())}
    sets = {*(frozenset(signs.intersection(some)) for some in _HTML_SETS), frozenset(signs - set("-_. "))}
    beyond = frozenset(c for c in signs if c in _HTML_SETS[1] or not c.isascii())
    for some, form in itertools.product({*sets, beyond, frozenset(signs)} - {frozenset()}, _HTML_NUMBERS):
        numbers = {ord(character): form.format(ord(character)) for character in some}
        for names in ({}, _HTML_NAMES, _HTML_NAMES | {"'": "&apos;"}):
            yield secret.translate(numbers | {ord(character): name for character, name in names.items()})


def _in_base64(data: bytes) -> Iterator[str]:
    # Base64 takes three bytes at a time, so that the same bytes look different behind zero, one and two
    # others, such as behind a user name and a colon. Characters that hold bits of neighbours are left out.
    for before in range(3):
        whole = base64.b64encode(bytes(before) + data)
        inner = whole[(0, 2, 3)[before] :]
        cut = (before + len(data)) % 3
        inner = inner[: -(0, 3, 2)[cut] or None]
        for text in [whole] if before == 0 else []:
            yield from _both_alphabets(text)
            yield from _both_alphabets(text.rstrip(b"="))
        if len(inner) >= _FEWEST:
            yield from _both_alphabets(inner)


def _both_alphabets(data: bytes) -> tuple[str, str]:
    text = data.decode("ascii")
    return text, text.replace("+", "-").replace("/", "_")


# ---------------------------------------------------------------------------------------------- hiding

_DEEPEST: Final = 8
"""How often JSON text is read within a text of JSON text."""
_JSON_STRING: Final = re.compile(r'"(?:[^"\\]|\\.)*"', re.DOTALL)
_KEY_END: Final = re.compile(r"[ \t\r\n]*:")
_SHORTEST_BEGINNING: Final = 4


class KnownSecrets:
    """Secrets in all their spellings. Immutable.

    Args:
        secrets: The secrets; those shorter than four characters are nowhere looked for.
    """

    def __init__(self, secrets: Iterable[str]) -> None:
        self.all = frozenset(filter(None, secrets))

    # Made when a text is looked at: many secrets may be learned, one after another, before that.

    @cached_property
    def _clear(self) -> dict[str, str]:
        return _by_spelling(secret for secret in self._long if stands_out(secret))

    @cached_property
    def _plain(self) -> dict[str, str]:
        return _by_spelling(secret for secret in self._long if not stands_out(secret))

    @property
    def _long(self) -> Iterator[str]:
        return (secret for secret in self.all if len(secret) >= _SHORTEST)

    @cached_property
    def _in_json(self) -> list[str]:
        """The spellings as they stand in JSON text; one search in it finds whether a large value has any."""
        return [json.dumps(spelling, ensure_ascii=False)[1:-1] for spelling in self._clear]

    @cached_property
    def _clear_pattern(self) -> re.Pattern[str] | None:
        return _pattern(self._clear)

    @cached_property
    def _plain_pattern(self) -> re.Pattern[str] | None:
        words = _pattern(self._plain)
        return words and re.compile(rf"(?<!\w)(?:{words.pattern})(?!\w)")

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {len(self.all)} secrets>"

    def in_data(self, value: Any, replace: Callable[[str], str]) -> Any:
        """A text or JSON value without the secrets that stand out; the same object if it has none.

        In a value, and in text that is JSON, only texts change: no number, no name of a member.

        Args:
            value: The value.
            replace: Gives the text that takes the place of a secret; called for each occurrence.
        """
        if self._clear_pattern is None:
            return value
        match value:
            case str():
                return self._in_text_of_data(value, replace)
            case dict() | list():
                text = json.dumps(value, ensure_ascii=False, default=str)
                found = any(spelling in text for spelling in self._in_json)
                return self._in_value(value, replace) if found else cast("Any", value)
            case _:
                return value

    def in_text(self, text: str, replace: Callable[[str], str]) -> str:
        """A text about a call without secrets; see `foreign` for the parts of it that are not ours."""
        if self._clear_pattern is not None and self._has_clear(text):
            text = self._clear_pattern.sub(lambda found: replace(self._clear[found[0]]), text)
        begin, end = FOREIGN
        if begin not in text:
            return text
        parts = text.split(begin)
        foreign = (part.partition(end) for part in parts[1:])
        return parts[0] + "".join(
            f"{begin}{self.in_foreign(quoted, replace)}{end}{ours}" for quoted, _, ours in foreign
        )

    def in_foreign(self, text: str, replace: Callable[[str], str]) -> str:
        """A quoted text in a text about a call; it may have been cut off in the middle of a secret."""
        if self._clear_pattern is not None:
            text = self._clear_pattern.sub(lambda found: replace(self._clear[found[0]]), text)
            *cut, rest = text.split(CUT)
            text = CUT.join([*(self._without_beginning(part, replace) for part in cut), rest])
        if self._plain_pattern is not None:
            text = self._plain_pattern.sub(lambda found: replace(self._plain[found[0]]), text)
        return text

    def _has_clear(self, text: str) -> bool:
        return any(spelling in text for spelling in self._clear)

    def _in_value(self, value: Any, replace: Callable[[str], str]) -> Any:
        match value:
            case str():
                return self._in_text_of_data(value, replace)
            case dict():
                members = cast("dict[str, Any]", value)
                return {name: self._in_value(inner, replace) for name, inner in members.items()}
            case list():
                return [self._in_value(inner, replace) for inner in cast("list[Any]", value)]
            case _:
                return value

    def _in_text_of_data(self, text: str, replace: Callable[[str], str], depth: int = 0) -> str:
        if self._clear_pattern is None or not self._has_clear(text):
            return text
        if depth >= _DEEPEST or not _is_json(text):
            return self._clear_pattern.sub(lambda found: replace(self._clear[found[0]]), text)

        def string(found: re.Match[str]) -> str:
            if _KEY_END.match(text, found.end()):  # a string before a colon is the name of a member
                return found[0]
            before = cast("str", json.loads(found[0], strict=False))
            after = self._in_text_of_data(before, replace, depth + 1)
            return found[0] if after is before else json.dumps(after, ensure_ascii=False)

        return _JSON_STRING.sub(string, text)

    def _without_beginning(self, text: str, replace: Callable[[str], str]) -> str:
        """The text without the beginning of a secret at its end."""
        for secret in self._clear:
            for length in range(min(len(secret) - 1, len(text)), _SHORTEST_BEGINNING - 1, -1):
                if text.endswith(secret[:length]):
                    return text[:-length] + replace(self._clear[secret])
        return text


def _by_spelling(secrets: Iterable[str]) -> dict[str, str]:
    """The secret of each spelling, the longest spellings first, as a secret may be part of another one."""
    found = {
        spelling: secret
        for secret in sorted(secrets, key=len)
        for spelling in _spellings(secret)
        if len(spelling) >= _SHORTEST
    }
    return {spelling: found[spelling] for spelling in sorted(found, key=len, reverse=True)}


def _pattern(spellings: dict[str, str]) -> re.Pattern[str] | None:
    return re.compile("|".join(map(re.escape, spellings))) if spellings else None


def _is_json(text: str) -> bool:
    if text.lstrip()[:1] not in ("{", "[", '"'):
        return False
    try:
        json.loads(text, strict=False)
    except (ValueError, RecursionError):
        return False
    return True
