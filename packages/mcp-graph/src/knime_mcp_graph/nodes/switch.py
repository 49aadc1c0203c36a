"""A node that chooses the way by rules of JSON Logic."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Final, Self, cast

from knime_mcp.types.texts import compact_json, shortened
from knime_mcp.yaml_text import as_list, as_mapping

from ..expressions import holds
from ..expressions.javascript import json_value, scalar_text
from ..graph_model import Dialect, Rule
from ..run_control import RunError
from .node import Form, Node, NodeField, Opening, Raw, Shape, Way

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from knime_mcp.yaml_text import Fields

    from ..document_checks import GraphChecks
    from ..document_reading import NodeReading
    from ..executor import NodeRun
    from ..graph_model import Part

_LONGEST_LABEL: Final = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """A condition of a switch and its target; without a rule it always holds."""

    rule: Rule | None
    next: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SwitchNode(Node):
    """Continues at the target of the first rule that holds, or at `next`; its output is that node's id."""

    kind: ClassVar[str] = "switch"
    shape: ClassVar[Shape] = Shape.SWITCH
    fields: ClassVar[tuple[NodeField, ...]] = (
        NodeField(key="conditions", label="Rule", form=Form.RULES),
        NodeField(key="jsonLogic", label="jsonLogic"),
    )
    new: ClassVar[Raw] = {"conditions": []}
    computes_only: ClassVar[bool] = True

    conditions: tuple[Condition, ...]  # the conditions, in the order in which they are tried

    @classmethod
    def read(cls, fields: Fields, reading: NodeReading) -> Self:
        name, default = fields.text("id"), fields.optional_text("next")
        logic = fields.optional_text("jsonLogic")
        if logic not in {None, "standard"}:
            fix = "Leave it out for mcpgraph's rules, in which a var is JSONata"
            reading.findings.error(f"'jsonLogic' must be 'standard', not '{logic}'", fields.path, fix)
        ways = [_condition(one, reading, logic == "standard") for one in fields.mappings("conditions")]
        if reading.dialect is Dialect.NEXT and default is None and fields.fit:
            fix = "Write next: and the id of the node that follows if no condition holds"
            reading.findings.error(f"the switch '{name}' has no 'next'", fields.path, fix)
        if reading.dialect is Dialect.TARGET and default is not None:
            message = "'next' of a switch has no effect in the dialect 'target' and is ignored"
            fix = "Add a condition with only a 'target' at the end, or choose the dialect 'next'"
            reading.findings.warn(message, (*fields.path, "next"), fix)
            default = None
        conditions = tuple(way for way in ways if way is not None)
        return cls(id=name, next=default, conditions=conditions, written=reading.written(fields))

    @classmethod
    def opened(cls, dialect: Dialect) -> tuple[Opening, ...]:
        called = "target" if dialect is Dialect.TARGET else "next node"
        conditions = Opening(key="conditions", words="if a new condition holds", called=called)
        default = Opening(key="next", label="otherwise", words="otherwise", called="default next node")
        return (conditions,) if dialect is Dialect.TARGET else (conditions, default)

    @classmethod
    def ways_of(cls, raw: Mapping[str, Any], dialect: Dialect) -> Iterator[Way]:
        conditions, *default = cls.opened(dialect)
        for index, condition in enumerate(map(as_mapping, as_list(raw.get("conditions")))):
            key = dialect.value if dialect.value in condition else dialect.other.value
            label = _label(condition.get("rule"), dialect)
            if isinstance(target := condition.get(key), str):
                yield conditions.way(raw, target, ("conditions", index, key), label)
        for opening in default:
            yield from opening.ways(raw)

    @property
    def parts(self) -> tuple[tuple[str, Part], ...]:
        return tuple(
            (f"condition {number}", condition.rule)
            for number, condition in enumerate(self.conditions, 1)
            if condition.rule is not None
        )

    def check(self, checks: GraphChecks, tool: str) -> None:
        del tool
        always = next((i for i, condition in enumerate(self.conditions) if condition.rule is None), None)
        # In the other dialect a switch without `next` cannot be read.
        if always is None and self.next is None and self.written.dialect is Dialect.TARGET:
            message = f'the switch "{self.id}" has no default: a run fails here if no condition holds'
            checks.findings.warn(message, self.written.path, "Add a condition without 'rule' at the end")
        elif always is not None and always + 1 < len(self.conditions):
            message = "this condition is never tried: the one before has no rule and always holds"
            checks.findings.warn(message, (*self.written.path, "conditions", always + 1))

    def run(self, run: NodeRun) -> str:
        line = run.line
        for condition in self.conditions:
            rule = condition.rule
            if rule is None or holds(
                rule.value,
                line.view.context,
                standard=rule.standard,
                bounds=line.bounds(),
                answers=line.view.answer,
            ):
                return condition.next
        if self.next is None:
            raise RunError(
                f"Switch node {self.id}: No conditions matched and no default case provided",
                kind="graph",
                fix="Add a condition without a rule",
            )
        return self.next

    def following(self, output: Any) -> str | None:
        return output


def _condition(fields: Fields, reading: NodeReading, standard: bool) -> Condition | None:
    wanted, other = reading.dialect.value, reading.dialect.other.value
    way, there = fields.optional_text(wanted), fields.optional_text(other)
    written = fields.get("rule", default=None)
    if not fields.end():
        return None
    if way is None:
        fix = f"Write {wanted}: and the id of the node that follows if the rule holds"
        if there:
            fix = f"Write '{wanted}' instead of '{other}', or choose the dialect '{other}'"
        reading.findings.error(f"'{wanted}' is missing", fields.path, fix)
        return None
    if written is None and reading.dialect is Dialect.TARGET:
        return Condition(rule=None, next=way)
    if written is None:
        # The reference accepts null as a rule that never holds.
        fix = "Write the rule, or remove the condition"
        reading.findings.warn("a condition without 'rule' never holds", fields.path, fix)
    position = reading.findings.source.at((*fields.path, "rule"))
    return Condition(rule=Rule(value=written, standard=standard, position=position), next=way)


def _label(rule: Any, dialect: Dialect) -> str:
    if rule is None:
        return "otherwise" if dialect is Dialect.TARGET else "never"
    return shortened(_words(rule), _LONGEST_LABEL)


def _words(rule: Any) -> str:
    """A rule as people write it: ``n > 3 and not ok``."""
    if not isinstance(rule, dict) or len(cast("Raw", rule)) != 1:
        return scalar_text(rule) if isinstance(rule, float) else compact_json(json_value(rule))
    ((operator, operands),) = cast("Raw", rule).items()
    values = [_words(value) for value in as_list(operands)] or [_words(operands)]
    if operator == "var":
        return str(operands)
    if operator in {"!", "!!"}:
        return f"{'not ' * (operator == '!')}{values[0]}"
    return f" {operator} ".join(values) if len(values) > 1 else f"{operator} {values[0]}"
