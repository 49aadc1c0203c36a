"""Rules for an agent's calls, one per line; the first that fits decides.

::

    allow get_* @ https://crm.example/*
    deny  delete_*
    deny  * if destructive
    deny  * @ *.partner.example if not read-only
    deny  * if not read-only, after-untrusted
    allow *

A rule is ``allow`` or ``deny`` (the verbs of `VERDICTS`), a pattern for the tool's name (``*`` any text,
``?`` one character; upper and lower case do not matter; quotes around a name that holds `` @ `` or `` if ``),
then optionally ``@`` and a pattern for the server (its URL, or its host alone), then optionally ``if`` and
conditions separated by commas, all of which must hold: ``read-only``, ``destructive``, ``idempotent``,
``open-world``, ``workflow``, ``mcp``, ``after-untrusted``, each also with ``not``. A rule without a name
applies to all tools. Empty lines and lines that begin with ``#`` are ignored. A call that no rule fits is
allowed.

The first four conditions are annotations, which servers write about their own tools
(https://modelcontextprotocol.io/specification/2025-11-25/schema#toolannotations). Annotations of a server
that is not trusted are ignored: its tools have the protocol's defaults, which are the worst case (not
read-only, destructive, not idempotent, open-world). A rule with one of these conditions, with or without
``not``, fits no workflow, as workflows have no annotations.

``after-untrusted`` holds as soon as the model has read a text from a server that is not trusted, as its next
calls may follow instructions in that text. Errors that a server writes are such texts, and results of
workflows are not. Tool results in the history of the conversation count, too, unless a trusted server, a
workflow or the agent itself stands in the column *Origin*. What the text of a result says of its origin does
not count.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Final, Self, assert_never
from urllib.parse import urlsplit

from ...runs.call_values import Allow, Deny
from ...types.errors import MCPError, SettingInvalid
from ...types.tool import MCPTool, WorkflowTool

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from ...runs.call_values import GateAnswer
    from ...types.tool import Tool

_HINTS: Final = {
    "read-only": ("readOnlyHint", False),
    "destructive": ("destructiveHint", True),
    "idempotent": ("idempotentHint", False),
    "open-world": ("openWorldHint", True),
}
_AFTER_UNTRUSTED: Final = "after-untrusted"
_KINDS: Final = frozenset({"workflow", "mcp", _AFTER_UNTRUSTED})
_RULE: Final = re.compile(
    r"""(?P<verb>\w+)(?:\s+(?:"(?P<quoted>[^"]*)"|(?P<name>(?!(?:if|@)\s)\S.*?)))?
        (?:\s+@\s+(?P<server>\S+))?(?:\s+if\s+(?P<conditions>.+))?""",
    re.VERBOSE | re.IGNORECASE,
)
_SETTING: Final = "rules"


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    word: str
    negated: bool = False

    def __str__(self) -> str:
        return f"not {self.word}" if self.negated else self.word


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One line. `name` is a pattern for the shown name or the server's; with `server` None any place fits."""

    verb: str  # a key of `VERDICTS`
    name: str = "*"
    server: str | None = None
    conditions: tuple[Condition, ...] = ()

    def __str__(self) -> str:
        place = f" @ {self.server}" if self.server is not None else ""
        conditions = f" if {', '.join(map(str, self.conditions))}" if self.conditions else ""
        return f"{self.verb} {self.name}{place}{conditions}"


@dataclass(frozen=True, slots=True, kw_only=True)
class CallRules:
    """The rules in order, and patterns of the URLs or hosts of trusted servers."""

    rules: tuple[Rule, ...] = ()
    trusted: tuple[str, ...] = ()

    @classmethod
    def parse(cls, rules: str, trusted: str = "") -> Self:
        """Reads rules, one per line; trusted servers may be separated by spaces, commas or semicolons.

        Raises:
            SettingInvalid: A line cannot be read; the error names the line.
        """
        lines = [(number, line.strip()) for number, line in enumerate(rules.splitlines(), 1)]
        return cls(
            rules=tuple(_rule(line, number) for number, line in lines if line and not line.startswith("#")),
            trusted=tuple(part for part in re.split(r"[\s,;]+", trusted) if part),
        )

    def trusts(self, server: str) -> bool:
        """Whether the annotations and texts of a server are believed."""
        return any(_is_server(pattern, server) for pattern in self.trusted)

    def deciding(
        self, tool: Tool, shown_name: str | None = None, *, after_untrusted: bool = False
    ) -> Rule | None:
        """The rule that decides about calls of a tool, which is the first that fits; None if there is none.

        `shown_name` is the name that people see, if it differs from the tool's name; `after_untrusted` says
        whether the model has read a text from a server that is not trusted.
        """
        names, server, known = _facts(tool, self)
        facts = {**known, _AFTER_UNTRUSTED: after_untrusted}
        if shown_name is not None:
            names = (*names, shown_name)
        return next((rule for rule in self.rules if _fits(rule, names, server, facts)), None)


def _denied(rule: Rule) -> GateAnswer:
    return Deny(
        MCPError(
            f"Calls of this tool are not allowed here (rule: {rule})",
            fix="Go on without it, and say in your answer what could not be done",
        )
    )


VERDICTS: Final[Mapping[str, Callable[[Rule], GateAnswer]]] = {"allow": lambda _: Allow(), "deny": _denied}
"""What a rule that decides says of a call, by the verb it begins with."""


def _rule(line: str, number: int) -> Rule:
    match = _RULE.fullmatch(line)
    words = (match["name"] or "").lower().split() if match else []
    # An incomplete rule must not be read as a rule about a tool with an odd name.
    if match is None or match["verb"].lower() not in VERDICTS or {"if", "@"} & set(words):
        raise SettingInvalid(
            f"Line {number} of the rules for calls cannot be read: {line[:100]!r}",
            setting=_SETTING,
            fix=f"Write {' or '.join(map(repr, VERDICTS))}, a tool's name, and if you like '@' with a server"
            " and 'if' with conditions, such as: deny delete_* @ *.example.com if destructive",
        )
    parts = [] if match["conditions"] is None else match["conditions"].split(",")
    conditions = tuple(_condition(part, number) for part in parts)
    return Rule(
        verb=match["verb"].lower(),
        name=match["quoted"] if match["quoted"] is not None else match["name"] or "*",
        server=match["server"],
        conditions=conditions,
    )


def _condition(text: str, number: int) -> Condition:
    words = text.lower().split()
    negated = words[:1] == ["not"]
    word = "-".join(words[negated:]).replace("_", "-")
    if word not in _HINTS and word not in _KINDS:
        raise SettingInvalid(
            f"Line {number} of the rules for calls has an unknown condition: {text.strip()[:100]!r}",
            setting=_SETTING,
            fix=f"Use {', '.join([*_HINTS, *sorted(_KINDS)])}, or one of them with 'not'",
        )
    return Condition(word=word, negated=negated)


def _facts(
    tool: Tool, policy: CallRules
) -> tuple[tuple[str, ...], str | None, Mapping[str, bool]]:  # @ToolTypeDispatch
    """The names of a tool, its server, and the values of its conditions; workflows have no hints."""
    match tool:
        case MCPTool():
            server = tool.route.display
            annotations = (tool.annotations or {}) if policy.trusts(server) else {}
            hints = {word: _hint(annotations, key, default) for word, (key, default) in _HINTS.items()}
            if hints["read-only"]:
                hints["destructive"] = False  # only meaningful for tools that change something
            return (tool.name, tool.tool_name), server, {**hints, "mcp": True, "workflow": False}
        case WorkflowTool():
            return (tool.name,), None, {"mcp": False, "workflow": True}
        case _:
            assert_never(tool)


def _hint(annotations: Mapping[str, object], key: str, default: bool) -> bool:
    value = annotations.get(key)
    return value if isinstance(value, bool) else default


def _fits(rule: Rule, names: Sequence[str], server: str | None, facts: Mapping[str, bool]) -> bool:
    if not any(_fits_text(rule.name, name) for name in names):
        return False
    if rule.server is not None and (server is None or not _is_server(rule.server, server)):
        return False
    return all(c.word in facts and facts[c.word] is not c.negated for c in rule.conditions)


def _is_server(pattern: str, server: str) -> bool:
    """Compares scheme, host and path separately, so that a host in a path does not match."""
    url = urlsplit(server)
    if not url.netloc:  # such as "stdio:name"
        return _fits_text(pattern, server)
    wanted_scheme, scheme_mark, place = pattern.rpartition("://")
    wanted_host, path_mark, wanted_path = place.partition("/")
    if scheme_mark and not _fits_text(wanted_scheme, url.scheme):
        return False
    if not any(_fits_text(wanted_host, host) for host in (url.netloc, url.hostname or "")):
        return False
    path = server.partition("://")[2].removeprefix(url.netloc)
    if not path_mark:
        return not (scheme_mark and path) or wanted_host.endswith("*")
    return _fits_text(f"/{wanted_path}", path)


def _fits_text(pattern: str, text: str) -> bool:
    return _pattern(pattern).fullmatch(text) is not None


@lru_cache(maxsize=512)
def _pattern(text: str) -> re.Pattern[str]:
    # "**" means the same as "*", and would only make the search slow.
    plain = re.escape(re.sub(r"\*+", "*", text)).replace(r"\*", ".*").replace(r"\?", ".")
    return re.compile(plain, re.IGNORECASE | re.DOTALL)
