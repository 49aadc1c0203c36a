"""KNIME's Concatenate node: makes one from its settings, and reads them. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

from .nodes import KNIME_VENDOR, object_class
from .settings import Config, KnwfError, boolean, string
from .workflow import ORIGIN, NativeNode, PortGroup, Position, model_of, node_label

CONCATENATE_FACTORY: Final = "org.knime.base.node.preproc.append.row.AppendedRowsNodeFactory"
#: Nodes of this factory have two inputs, and more that were added to the group.
CONCATENATE_INPUTS: Final = 2
_INPUT_GROUP: Final = "input"
_BUNDLE: Final = ("KNIME Base Nodes", "org.knime.base", KNIME_VENDOR)

RowIds = Literal["new", "fail", "suffix", "skip"]


@dataclass(frozen=True, slots=True)
class Concatenation:
    """The settings of a Concatenate node.

    Attributes:
        intersection: Only the columns that all tables have; otherwise all columns, missing cells filled in.
        row_ids: New RowIDs; or the tables' own, and what to do with one that is there already: fail, add the
            suffix until it is new, or leave the row out.
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
    """A Concatenate node with a number of inputs; it has KNIME's defaults unless settings are given.

    Raises:
        KnwfError: fewer than two inputs.
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
        KnwfError: it is none, or its settings are not whole.
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
    """The number of inputs of a Concatenate node with these groups."""
    return CONCATENATE_INPUTS + sum(group.count for group in groups if group.id == _INPUT_GROUP)
