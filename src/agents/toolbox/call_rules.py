"""Rules for an agent's calls, one per line, of which the first that fits decides; and limits of their number.

::

    allow get_* @ https://crm.example/*
    deny  delete_*
    deny  * if destructive
    deny  * @ *.partner.example if not read-only
    deny  * if not read-only, after-untrusted
    ask   transfer_* if amount > 100
    allow *

A rule is ``allow``, ``deny`` or ``ask`` (the verbs of `VERDICTS`; with ``ask`` a person decides about each
call, and where there is none it is denied), a pattern for the tool's name (``*`` any text,
``?`` one character; upper and lower case do not matter; a name with blanks stands in quotes),
then optionally ``@`` and a pattern for the server (its URL, or its host alone), then optionally ``if`` and
conditions separated by commas, all of which must hold: ``read-only``, ``destructive``, ``idempotent``,
``open-world``, ``workflow``, ``mcp``, ``after-untrusted``, or a comparison of an argument (``amount > 100``,
``order.to = *@example.com``, ``text != "a, b"``; ``=``, ``!=``, ``<``, ``<=``, ``>``, ``>=``), each also with
``not``. A rule without a name
applies to all tools. Empty lines and lines that begin with ``#`` are ignored. A call that no rule fits is
allowed.

An argument that is missing fulfils no comparison. A value that cannot be compared, such as a list with a
number, counts against the call: a rule that denies or asks then fits, and one that allows does not.

The first four conditions are annotations, which servers write about their own tools
(https://modelcontextprotocol.io/specification/2025-11-25/schema#toolannotations). Annotations of a server
that is not trusted are ignored: its tools have the protocol's defaults, which are the worst case (not
read-only, destructive, not idempotent, open-world). A rule with one of these conditions, with or without
``not``, fits no workflow, as workflows have no annotations.

What servers ask (``elicitation/create``, ``sampling/createMessage``) has these names in rules, and no
annotations either. Rules can deny it; allowing it is always up to a person.

``after-untrusted`` holds as soon as the model has read a text from a server that is not trusted, as its next
calls may follow instructions in that text. Errors that a server writes are such texts, and results of
workflows are not. Tool results in the history of the conversation count, too, unless a trusted server, a
workflow or the agent itself stands in the column *Origin*. What the text of a result says of its origin does
not count.
"""

from __future__ import annotations

import json
import operator
import re
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, Self, assert_never, cast
from urllib.parse import urlsplit

from ...runs.call_values import Allow, Ask, Deny
from ...types.errors import CallDenied, SettingInvalid
from ...types.tool import MCPTool, WorkflowTool

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from ...runs.call_values import Verdict
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
    r"""(?P<verb>\w+)(?:\s+(?:"(?P<quoted>[^"]*)"|(?P<name>(?!(?:if|@)\s)\S+)))?
        (?:\s+@\s+(?P<server>\S+))?(?:\s+if\s+(?P<conditions>.+))?""",
    re.VERBOSE | re.IGNORECASE,
)
_SETTING: Final = "rules"
_COMMA: Final = re.compile(r',(?=(?:[^"]*"[^"]*")*[^"]*$)')  # none within quotes
_COMPARISON: Final = re.compile(
    r"(?P<not>not\s+)?(?P<name>[^\s<>=!]+)\s*(?P<operator><=|>=|!=|==|=|<|>)\s*(?P<value>\S.*)"
)
_ORDER: Final[Mapping[str, Callable[[Any, Any], bool]]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_MISSING: Final = object()
_PARAMETERS: Final = "configuration"


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleCondition:
    """A word, or with an operator the comparison of the argument that the word names."""

    word: str
    negated: bool = False
    operator: str = ""
    value: Any = None

    def __str__(self) -> str:
        said = f"{self.word} {self.operator} {json.dumps(self.value)}" if self.operator else self.word
        return f"not {said}" if self.negated else said


@dataclass(frozen=True, slots=True, kw_only=True)
class CallRule:
    """One line. `name` is a pattern for the shown name or the server's; with `server` None any place fits."""

    verb: str  # a key of `VERDICTS`
    name: str = "*"
    server: str | None = None
    conditions: tuple[RuleCondition, ...] = ()

    def __str__(self) -> str:
        place = f" @ {self.server}" if self.server is not None else ""
        conditions = f" if {', '.join(map(str, self.conditions))}" if self.conditions else ""
        name = f'"{self.name}"' if " " in self.name or self.name.lower() in {"if", "@"} else self.name
        return f"{self.verb} {name}{place}{conditions}"


@dataclass(frozen=True, slots=True, kw_only=True)
class CallRules:
    """The rules in order, and patterns of the URLs or hosts of trusted servers."""

    rules: tuple[CallRule, ...] = ()
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

    def known_of(self, tool: Tool) -> str:
        """What is known of a tool, for whoever decides about a call of it."""
        _, server, known = _facts(tool, self)
        if server is None:
            return "nothing says what the workflow does"
        if not self.trusts(server):
            return "the server is not trusted, so what it says of its tools does not count"
        if known["read-only"]:
            return "its trusted server says that the tool only reads"
        if known["destructive"]:
            return "the tool is destructive, or its trusted server does not say that it is not"
        return "its trusted server says that the tool changes something and destroys nothing"

    def deciding(
        self,
        tool: Tool,
        shown_name: str | None = None,
        *,
        after_untrusted: bool = False,
        arguments: Mapping[str, Any] | None = None,
        has_hints: bool = True,
    ) -> CallRule | None:
        """The rule that decides about calls of a tool, which is the first that fits; None if there is none.

        `shown_name` is the name that people see, if it differs from the tool's name; `after_untrusted` says
        whether the model has read a text from a server that is not trusted. Where it is no tool but a
        question of a server, it has no hints.
        """
        names, server, known = _facts(tool, self)
        if not has_hints:
            known = {word: value for word, value in known.items() if word not in _HINTS}
        facts = {**known, _AFTER_UNTRUSTED: after_untrusted}
        if shown_name is not None:
            names = (*names, shown_name)
        for rule in self.rules:
            if _fits(rule, names, server) and _holds(rule, facts, arguments or {}):
                return rule
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class CallLimits:
    """How often an agent may call tools in one run; None for no limit.

    Attributes:
        calls: All calls.
        per_tool: Those of tools by pattern, such as ``{"search_*": 5}``; each tool is counted for itself.
    """

    calls: int | None = None
    per_tool: tuple[tuple[str, int], ...] = ()

    @classmethod
    def parse(cls, text: str) -> Self:
        """Reads limits of all calls and of tools, such as ``20, search_*: 5``; else `SettingInvalid`."""
        calls: int | None = None
        per_tool: list[tuple[str, int]] = []
        for part in filter(None, (part.strip() for part in text.replace("\n", ",").split(","))):
            name, colon, number = (piece.strip() for piece in part.rpartition(":"))
            if not number.isdecimal() or bool(name) is not bool(colon):
                raise SettingInvalid(
                    f"The limit of calls cannot be read: {part[:100]!r}",
                    setting="call_limit",
                    fix="Write a number, or a name, a colon and a number, such as search_*: 5",
                )
            if name:
                per_tool.append((name, int(number)))
            else:
                calls = int(number)
        return cls(calls=calls, per_tool=tuple(per_tool))


def _denied(rule: CallRule) -> Verdict:
    return Deny(
        CallDenied(
            f"Calls of this tool are not allowed here (rule: {rule})",
            fix="Go on without it, and say in your answer what could not be done",
        ),
        f"rule: {rule}",
    )


VERDICTS: Final[Mapping[str, Callable[[CallRule], Verdict]]] = {
    "allow": lambda rule: Allow(f"rule: {rule}"),
    "deny": _denied,
    "ask": lambda rule: Ask(f"rule: {rule}"),
}
"""What a rule that decides says of a call, by the verb it begins with."""


def _rule(line: str, number: int) -> CallRule:
    match = _RULE.fullmatch(line)
    # What is incomplete, or says a condition in other words (`unless …`), must not be read as a rule about a
    # tool with an odd name, which no tool has.
    if match is None or match["verb"].lower() not in VERDICTS or (match["name"] or "").lower() in {"if", "@"}:
        raise SettingInvalid(
            f"Line {number} of the rules for calls cannot be read: {line[:100]!r}",
            setting=_SETTING,
            fix=f"Write {' or '.join(map(repr, VERDICTS))}, a tool's name, and if you like '@' with a server"
            " and 'if' with conditions, such as: deny delete_* @ *.example.com if destructive; quotes around"
            " a name with blanks; 'if not' says unless",
        )
    parts = [] if match["conditions"] is None else _COMMA.split(match["conditions"])
    conditions = tuple(_condition(part, number) for part in parts)
    return CallRule(
        verb=match["verb"].lower(),
        name=match["quoted"] if match["quoted"] is not None else match["name"] or "*",
        server=match["server"],
        conditions=conditions,
    )


def _condition(text: str, number: int) -> RuleCondition:
    if comparison := _COMPARISON.fullmatch(text.strip()):
        name, operator, written = comparison["name"], comparison["operator"], comparison["value"]
        try:
            value = json.loads(written)
        except ValueError:
            value = written  # bare text, which may hold * and ?
        is_negated = comparison["not"] is not None
        return RuleCondition(word=name, negated=is_negated, operator=operator.replace("==", "="), value=value)
    words = text.lower().split()
    negated = words[:1] == ["not"]
    word = "-".join(words[negated:]).replace("_", "-")
    if word not in _HINTS and word not in _KINDS:
        raise SettingInvalid(
            f"Line {number} of the rules for calls has an unknown condition: {text.strip()[:100]!r}",
            setting=_SETTING,
            fix=f"Use {', '.join([*_HINTS, *sorted(_KINDS)])}, or one of them with 'not', or compare an"
            " argument, such as: amount > 100",
        )
    return RuleCondition(word=word, negated=negated)


def _facts(
    tool: Tool, policy: CallRules
) -> tuple[tuple[str, ...], str | None, Mapping[str, bool]]:  # @ToolTypeDispatch
    """The names of a tool, its server, and the values of its conditions; workflows have no hints."""
    match tool:
        case MCPTool():
            server = tool.route.url
            annotations = (tool.annotations or {}) if policy.trusts(server) else {}
            # https://modelcontextprotocol.io/specification/2025-11-25/schema#toolannotations: hints of an
            # untrusted server must not count; the defaults there are the careful ones.
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


def _fits(rule: CallRule, names: Sequence[str], server: str | None) -> bool:
    if not any(_fits_text(rule.name, name) for name in names):
        return False
    return rule.server is None or (server is not None and _is_server(rule.server, server))


def _holds(rule: CallRule, facts: Mapping[str, bool], arguments: Mapping[str, Any]) -> bool:
    for condition in rule.conditions:
        if condition.operator:
            known = _compared(condition, arguments)
            if known is None:  # it counts against the call
                holds = not isinstance(VERDICTS[rule.verb](rule), Allow)
            else:
                holds = known is not condition.negated
        else:
            holds = condition.word in facts and facts[condition.word] is not condition.negated
        if not holds:
            return False
    return True


def _compared(condition: RuleCondition, arguments: Mapping[str, Any]) -> bool | None:
    """Whether an argument fulfils a comparison; None if it cannot be compared."""
    value = _argument(condition.word, arguments)
    if value is _MISSING:
        return False
    wanted, operator = condition.value, condition.operator
    if isinstance(value, list):
        equal = [_is_equal(item, wanted) for item in cast("list[Any]", value)]
        return {"=": any(equal), "!=": not any(equal)}.get(operator)
    if operator in ("=", "!="):
        return _is_equal(value, wanted) is (operator == "=")
    if isinstance(wanted, str) and isinstance(value, str):
        return _ORDER[operator](value, wanted)  # such as dates
    # As decimals, so that 1 and 1.0 are equal, and amounts are compared exactly.
    left, right = _number(value), _number(wanted)
    return None if left is None or right is None else _ORDER[operator](left, right)


def _argument(name: str, arguments: Mapping[str, Any]) -> Any:
    """The argument of a name, in which dots lead into objects; `_MISSING` if there is none."""
    if name in arguments:
        return arguments[name]
    value: Any = arguments
    for step in name.split("."):
        # What will be read as an object before it is sent is one here, too.
        value = parsed_text(value) if isinstance(value, str) else value
        if isinstance(value, dict) and step in value:
            value = cast("dict[str, Any]", value)[step]
        elif isinstance(value, list) and step.isdecimal() and int(step) < len(cast("list[Any]", value)):
            value = cast("list[Any]", value)[int(step)]
        else:
            inner = arguments.get(_PARAMETERS)  # of a workflow
            return _argument(name, cast("dict[str, Any]", inner)) if isinstance(inner, dict) else _MISSING
    return value


def parsed_text(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def _is_equal(value: Any, wanted: Any) -> bool:
    if isinstance(wanted, str):
        return _fits_text(wanted, value if isinstance(value, str) else json.dumps(value))
    left, right = _number(value), _number(wanted)
    if left is not None and right is not None:
        return left == right
    meant = parsed_text(value) if isinstance(value, str) else value
    # `True == 1` for Python.
    return meant == wanted and isinstance(meant, bool) is isinstance(wanted, bool)


def _number(value: Any) -> Decimal | None:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        number = Decimal(str(value).strip())
    except InvalidOperation:
        return None
    return number if number.is_finite() else None


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
    # A pattern of a host alone means all of its paths; one with a scheme is a whole URL.
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
