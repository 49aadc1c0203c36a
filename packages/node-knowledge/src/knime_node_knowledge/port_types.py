"""Which output may lead to which input, by the classes of what goes through them, as KNIME decides it.

KNIME asks two things (``WorkflowManager.canAddConnection``): a table goes to tables only, and of other
classes one has to be above the other. A port may promise less than it gives: a reader of any model may lead
to the port of one kind of model, as what it has read is looked at when it runs. Classes come from the first
line of the shipped facts.
"""

from __future__ import annotations

import json
from functools import cache
from itertools import product
from typing import TYPE_CHECKING, Final

from .packs import FACTS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from .node_model import Port

TABLE: Final = "org.knime.core.node.BufferedDataTable"
ANYTHING: Final = "org.knime.core.node.port.PortObject"


@cache
def _above() -> Mapping[str, frozenset[str] | None]:
    """The classes above each; None where the source of one of them is not public."""
    with FACTS.open(encoding="utf-8") as file:
        entries = json.loads(file.readline())["types"]
    found: dict[str, frozenset[str] | None] = {}

    def above(number: int) -> frozenset[str] | None:
        entry = entries[number]
        if entry["id"] not in found:
            inner = [(entries[other]["id"], above(other)) for other in entry.get("is", ())]
            known = "unknown" not in entry and all(classes is not None for _, classes in inner)
            found[entry["id"]] = (
                frozenset(name for own, classes in inner for name in (own, *(classes or ())))
                if known
                else None
            )
        return found[entry["id"]]

    for number in range(len(entries)):
        above(number)
    return found


def is_connectable(source: str, target: str) -> bool | None:
    """Whether an output with objects of the class `source` may lead to an input for `target`.

    None if it cannot be told, as it is not known what one of the classes extends.
    """
    if source == target:
        return True
    if TABLE in (source, target):
        # Facts do not say which ports of the class of all objects may be given another one, as those of a
        # CASE Switch.
        return None if ANYTHING in (source, target) else False
    if ANYTHING in (source, target):
        return True
    over_source, over_target = _above().get(source), _above().get(target)
    # Both ways: an output may give more than it promises.
    if target in (over_source or ()) or source in (over_target or ()):
        return True
    return None if over_source is None or over_target is None else False


def is_connectable_port(output: Port, into: Port) -> bool | None:
    """The same for two ports with known classes, each of which may have further ones to choose from."""
    if ANYTHING in (*output.accepts, *into.accepts):
        return True
    pairs = product((output.type_id, *output.accepts), (into.type_id, *into.accepts))
    found = [is_connectable(one or ANYTHING, other or ANYTHING) for one, other in pairs]
    return True if True in found else None if None in found else False
