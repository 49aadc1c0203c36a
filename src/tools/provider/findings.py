"""A scan of tool definitions for suspicious texts that people should see before a model reads them.

A model reads a tool's description, and every text in its schemas, as if the person had written them. The scan
therefore checks every string of a definition, names of properties included, and reports suspicious strings
with their places, hidden characters made visible. It never edits a definition, which would then differ from
the server's and from its digest. A finding is a reason to look, not a verdict, and a tool without findings is
not proven harmless.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, cast

from ...client.limits import Limits
from ...client.protocol.messages import as_object
from ...client.validation.schemas import compile_schema
from ...types.errors import ProtocolError
from ...types.texts import (
    canonical_json,
    compact_json,
    hidden_characters,
    name_of,
    pointer_step,
    smuggled,
    visible,
    without_hidden,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

_MAX_FINDINGS: Final = 50
_MAX_STRINGS: Final = 20_000
_MAX_SCANNED: Final = 200_000
_EXCERPT: Final = 60
_SHORT: Final = 200
_OUT_OF_SIGHT: Final = re.compile(r"(?:[ \t\r\u00a0\u3000]{60}|(?:[ \t\r]*\n){12})\s*")

_INSTRUCTIONS: Final = re.compile(
    r"""
    \b(?:ignore|disregard|forget|override|bypass)\b.{0,30}
        \b(?:previous|prior|above|earlier|other|all|any|system|safety)\b.{0,30}
        \b(?:instruction|prompt|rule|message|guideline|tool|restriction)s?\b
    | \b(?:do\s+not|don't|never|without)\s+(?:ever\s+)?
        (?:tell|inform|mention|reveal|notify|show|alert|ask)(?:ing)?\b.{0,30}\b(?:user|human|person|anyone)s?\b
    | \b(?:hide|conceal|keep)\b.{0,30}\bfrom\s+(?:the\s+)?(?:user|human)s?\b
    | </?\s*(?:important|system|instructions?|critical|assistant|secret|hidden|admin)\s*/?>
    | \[/?(?:INST|SYSTEM)\]|<\|(?:im_start|im_end|system|user|assistant)\|>
    | \bsystem\s+prompt\b
    | \b(?:before|prior\s+to|instead\s+of|after)\s+(?:using|calling|invoking|running)\s+
        (?:any|this|the|other|another)\b.{0,40}\byou\s+(?:must|have\s+to|need\s+to|should|shall)\b
    | \byou\s+(?:must|have\s+to|should)\s+(?:also\s+)?(?:secretly|silently)\b
    | \bwhen(?:ever)?\s+(?:this|the|any|another)\b.{0,30}\btool\b.{0,60}\byou\s+(?:must|have\s+to)\b
    | \bexfiltrat(?:e|ing)\b
    | \b(?:send|post|upload|forward|transmit|pass|include|append)\b.{0,60}
        \b(?:conversation|chat\s+history|credential|password|private\s+key|api\s*key|access\s+token|ssh\s+key)s?\b
        .{0,60}\b(?:to|as|in|with)\b
    """,
    re.IGNORECASE | re.VERBOSE | re.DOTALL,
)
_PRIVATE_FILES: Final = re.compile(
    r"""
    (?:~|\$HOME|%USERPROFILE%|/home/[^\s/]{1,40}|/root)[/\\]
        \.(?:ssh|aws|azure|gnupg|kube|docker|netrc|npmrc|pypirc|cursor|claude|git-credentials|\w{2,10}_history)\b
    | \.ssh[/\\]|\bid_(?:rsa|ed25519|ecdsa)\b|/etc/(?:passwd|shadow)\b|\.aws[/\\]credentials|\.kube[/\\]config
    | \bmcp\.json\b|\bclaude_desktop_config|(?:^|[\s"'`/\\])\.env\b|\.netrc\b|\.git-credentials\b
    """,
    re.IGNORECASE | re.VERBOSE,
)
_MARKUP: Final = re.compile(
    r"<!--|<\s*(?:script|iframe|img|style)\b|display\s*:\s*none|font-size\s*:\s*0"
    r"|!\[[^\]]{0,200}\]\(\s*https?:",
    re.IGNORECASE,
)
_PATTERNS: Final = (
    ("instruction", _INSTRUCTIONS, "It gives orders to the model instead of saying what the tool does"),
    ("private file", _PRIVATE_FILES, "It names a file that usually holds secrets"),
    ("hidden markup", _MARKUP, "It holds markup that viewers do not show, or that fetches something"),
)
_REFERENCE: Final = re.compile(r"/\$(?:schema|ref|dynamicRef|recursiveRef)$")
_HARMLESS: Final = ("#", "$", "http://json-schema.org/draft-07/", "https://json-schema.org/draft/2020-12/")
_WORD: Final = re.compile(r"[^\s\"'`(),;:!?<>\[\]{}|*]{3,200}")
_IDENTIFIER: Final = re.compile(r"[a-z0-9][A-Z]|[_./-]|[A-Za-z][0-9]")


@dataclass(frozen=True, slots=True)
class SecurityFinding:
    """A suspicious part of a tool's definition.

    Its kind is ``hidden characters``, ``instruction``, ``private file``, ``hidden markup``, ``out of sight``,
    ``names another server's tool``, ``look-alike name``, ``contradiction`` or ``unusable schema``.
    """

    kind: str
    where: str  # JSON pointer into the definition as sent; for the name of a property, that of its value
    what: str  # a sentence, hidden characters made visible


def scan(
    definition: Mapping[str, Any], *, foreign_names: Mapping[str, str] | None = None
) -> tuple[SecurityFinding, ...]:
    """Scans one tool's definition as the server sent it; the findings are in its order, and at most 50.

    ``foreign_names`` are tools of *other* servers in the same table, with the server of each.
    """
    findings: dict[SecurityFinding, None] = {}
    leads_elsewhere = False
    for number, (where, text) in enumerate(_strings(definition)):
        if number >= _MAX_STRINGS or len(findings) >= _MAX_FINDINGS:
            what = "The definition holds more than was looked at"
            findings[SecurityFinding("out of sight", where, what)] = None
            break
        findings.update(dict.fromkeys(_in_text(where, text, foreign_names or {})))
        if not text.startswith(_HARMLESS) and _REFERENCE.search(where):
            leads_elsewhere = True
    findings.update(dict.fromkeys(_in_names(definition)))
    if leads_elsewhere:
        findings.update(dict.fromkeys(_in_schema(definition)))
    return tuple(findings)


def findings_json(findings: Iterable[SecurityFinding]) -> str | None:
    """The value of the column *Security findings*: canonical JSON, None if there are none."""
    entries = [{"kind": each.kind, "what": each.what, "where": each.where} for each in findings]
    return canonical_json(entries) if entries else None


def foreign_identifiers(names: Mapping[str, Iterable[str]]) -> dict[str, dict[str, str]]:
    """For each server the tool names of other servers, which it should not mention, with their server.

    Ordinary words (``search``, ``add``) are left out; only names that look like identifiers count.
    """
    identifiers = {
        # A name such as `add` or `search` is a word of many descriptions.
        server: {name for name in of_server if len(name) >= 4 and _IDENTIFIER.search(name)}
        for server, of_server in names.items()
    }
    owners: dict[str, list[str]] = {}
    for server, of_server in identifiers.items():
        for name in of_server:
            owners.setdefault(name, []).append(server)
    foreign = {name: of_name[0] for name, of_name in owners.items()}
    return {
        server: {name: owner for name, owner in foreign.items() if server not in owners[name]}
        for server in names
    }


def _strings(definition: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    waiting: list[tuple[str, Any]] = [("", definition)]
    while waiting:
        where, value = waiting.pop()
        if isinstance(value, str):
            yield where, value
        elif isinstance(value, dict):
            parts = cast("dict[str, Any]", value)
            inner = [(where + _step(key), key, each) for key, each in parts.items()]
            # Plain names hold nothing that is hidden, and are most of the texts.
            yield from ((path, key) for path, key, _ in inner if not (key.isascii() and key.isidentifier()))
            waiting.extend((path, each) for path, _, each in reversed(inner))
        elif isinstance(value, list):
            items = cast("list[Any]", value)
            waiting.extend((f"{where}/{i}", items[i]) for i in reversed(range(len(items))))


@lru_cache(maxsize=1024)  # most definitions have the same keys
def _step(key: str) -> str:
    return visible(pointer_step(key))


def _in_text(where: str, text: str, foreign_names: Mapping[str, str]) -> Iterator[SecurityFinding]:
    text = text[:_MAX_SCANNED].rstrip()
    look = _suspicious_in_short if len(text) <= _SHORT else _suspicious_in
    yield from (SecurityFinding(kind, where, what) for kind, what in look(text))
    for word in _mentions(text, foreign_names):
        server = foreign_names[word]
        yield SecurityFinding(
            "names another server's tool", where, f"It names “{visible(word)}”, a tool of {server}"
        )


def _suspicious_in(text: str) -> list[tuple[str, str]]:
    """Kind and sentence of each suspicious part of a text that can be found in the text alone."""
    suspicions: list[tuple[str, str]] = []
    hidden = "".join(character for _, character in hidden_characters(text))
    spelled = smuggled(hidden)
    if hidden:
        suspicions.append(("hidden characters", _hidden(text, hidden, spelled)))
    # Both what is left without the hidden characters, and what these spell.
    for candidate in filter(None, (without_hidden(text), spelled)):
        plain = re.sub(r"\s+", " ", candidate)
        for kind, pattern, words in _PATTERNS:
            if match := pattern.search(plain):
                suspicions.append((kind, f"{words}: “{_excerpt(plain, match)}”"))
    if match := _OUT_OF_SIGHT.search(text):
        what = f"After a long blank stretch it goes on: “{_cut(text[match.end() :])}”"
        suspicions.append(("out of sight", what))
    return suspicions


# Cached, as definitions repeat short texts, such as the names of types, hundreds of times.
_suspicious_in_short = lru_cache(maxsize=4096)(_suspicious_in)


def _in_names(definition: Mapping[str, Any]) -> Iterator[SecurityFinding]:
    for key in ("name", "title"):
        name = definition.get(key)
        scripts = _scripts(name) if isinstance(name, str) else set[str]()
        if len(scripts) > 1:
            what = f"It mixes letters that look alike from several scripts: {', '.join(sorted(scripts))}"
            yield SecurityFinding("look-alike name", f"/{key}", what)
    hints = as_object(definition.get("annotations"))
    if hints.get("readOnlyHint") is True and hints.get("destructiveHint") is True:
        yield SecurityFinding(
            "contradiction", "/annotations", "It claims to be both read-only and destructive"
        )


def _in_schema(definition: Mapping[str, Any]) -> Iterator[SecurityFinding]:
    schema = definition.get("inputSchema")
    if not isinstance(schema, dict):
        return
    try:
        compile_schema(compact_json(cast("dict[str, Any]", schema)), Limits())
    except ProtocolError as error:
        yield SecurityFinding(
            "unusable schema", "/inputSchema", f"No call can be made. {visible(error.what)}"
        )


def _scripts(name: str) -> set[str]:
    # Only Latin, Cyrillic and Greek have letters that look the same.
    if name.isascii():
        return set()
    families = ("LATIN", "CYRILLIC", "GREEK")
    names = (unicodedata.name(character, "") for character in name if character.isalpha())
    return {family.title() for each in names for family in families if each.startswith(family)}


def _hidden(text: str, hidden: str, spelled: str) -> str:
    kinds = [name_of(character) for character in dict.fromkeys(hidden)]
    position = next(iter(hidden_characters(text)))[0]
    around = _cut(text[max(0, position - _EXCERPT // 2) :])
    more = f" and {len(kinds) - 3} other kinds" if len(kinds) > 3 else ""
    says = f" They spell “{_cut(spelled)}”." if spelled.strip() else ""
    return f"{len(hidden)} hidden: {', '.join(kinds[:3])}{more}, in “{around}”.{says}"


def _mentions(text: str, foreign_names: Mapping[str, str]) -> list[str]:
    if not foreign_names:
        return []
    words = (match.group().strip("./-") for match in _WORD.finditer(text))
    return list(dict.fromkeys(word for word in words if word in foreign_names))


def _excerpt(text: str, match: re.Match[str]) -> str:
    start = max(0, match.start() - 20)
    return ("…" if start else "") + _cut(text[start:], max(_EXCERPT, match.end() - start + 20))


def _cut(text: str, length: int = _EXCERPT) -> str:
    short = re.sub(r"\s+", " ", text[: min(length, 200)]).strip()
    return visible(short) + ("…" if len(text) > length else "")
