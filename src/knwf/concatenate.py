"""KNIME's Concatenate node: makes one from its settings, and reads them. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

from .nodes import KNIME_VENDOR, object_class
from .settings import Config, KnwfError, boolean, string
from .workflow import ORIGIN, NativeNode, PortGroup, Position, model_of, node_label

CONCATENATE_FACTORY: Final = "org.knime.base.node.preproc.append.row.AppendedRowsNodeFactory"
#: The inputs of every Concatenate node; a user can add more to the group.
CONCATENATE_INPUTS: Final = 2
_INPUT_GROUP: Final = "input"
_BUNDLE: Final = ("KNIME Base Nodes", "org.knime.base", KNIME_VENDOR)

RowIds = Literal["new", "fail", "suffix", "skip"]


@dataclass(frozen=True, slots=True)
class Concatenation:
    """The settings of a Concatenate node.

    Attributes:
        intersection: True keeps only the columns that all tables have; False keeps all columns, with missing
            cells.
        row_ids: ``new`` makes new RowIDs. The others keep the tables' RowIDs; for a duplicate they fail, add
            the suffix until it is unique, or skip the row.
        suffix: The suffix.
    """

    intersection: bool = False
    row_ids: RowIds = "new"
    suffix: str = "_dup"


def concatenate_node(
    node_id: int,
    settings: Concatenation | None = None,
    *,
    inputs: int = CONCATENATE_INPUTS,
    position: Position = ORIGIN,
    annotation: str = "",
) -> NativeNode:
    """Makes a Concatenate node with a number of inputs; without settings it has KNIME's defaults.

    Raises:
        KnwfError: There are fewer than two inputs.
    """
    settings = settings or Concatenation()
    if inputs < CONCATENATE_INPUTS:
        raise KnwfError(f"a Concatenate node has at least {CONCATENATE_INPUTS} inputs, not {inputs}")
    added = (object_class("PortType.TABLE"),) * (inputs - CONCATENATE_INPUTS)
    model = (
        boolean("intersection_of_columns", settings.intersection),
        boolean("create_new_rowids", settings.row_ids == "new"),
        boolean("fail_on_duplicates", settings.row_ids == "fail"),
        boolean("append_suffix", settings.row_ids == "suffix"),
        string("suffix", settings.suffix),
        boolean("enable_hiliting", value=False),
    )
    return NativeNode(
        id=node_id,
        name="Concatenate",
        factory=CONCATENATE_FACTORY,
        model=Config("model", model),
        inputs=inputs,
        outputs=1,
        port_groups=(PortGroup(_INPUT_GROUP, added), PortGroup("Concatenated tables")),
        position=position,
        annotation=annotation,
        bundle=_BUNDLE,
    )


def read_concatenation(node: NativeNode) -> Concatenation:
    """Reads the settings of a Concatenate node.

    Raises:
        KnwfError: The node is of another kind, or its settings are incomplete.
    """
    model = model_of(node, CONCATENATE_FACTORY, "Concatenate node")
    if node.model is None:
        return Concatenation()
    suffix = model.text("suffix")
    if model.value("create_new_rowids") is True:
        row_ids: RowIds = "new"
    elif model.value("fail_on_duplicates") is True:
        row_ids = "fail"
    else:
        row_ids = "suffix" if model.value("append_suffix") is True else "skip"
    if row_ids == "suffix" and not suffix:
        raise KnwfError(f"{node_label(node)}: the suffix for RowIDs that are there already is empty")
    return Concatenation(model.value("intersection_of_columns") is True, row_ids, suffix)


def concatenate_inputs(groups: tuple[PortGroup, ...]) -> int:
    """The number of inputs of a Concatenate node with these port groups."""
    return CONCATENATE_INPUTS + sum(group.count for group in groups if group.id == _INPUT_GROUP)
