"""The packs that come with this program."""

from __future__ import annotations

from dataclasses import replace
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..model import NodeSpec


def own_packs() -> tuple[Path, ...]:
    """The packs that are in every catalogue, in order."""
    return tuple(sorted((_folder() / "included").glob("*.yaml")))


def basics_file() -> Path:
    """The pack of well-known nodes. It is not in `own_packs`: an installed KNIME has these nodes itself."""
    return _folder() / "knime-basics.yaml"


def basic_nodes() -> tuple[NodeSpec, ...]:
    """Well-known nodes of KNIME, for users without a catalogue of an installed KNIME.

    The nodes have the labels of dialogs, not the keys of settings, so configurations cannot be checked.

    Raises:
        PackError: The included file is damaged.
    """
    from .reading import read_pack  # not needed once a catalogue is built

    pack = read_pack(basics_file(), shown_as=basics_file().name)
    return tuple(replace(node, settings_known=False) for node in pack.nodes)


def _folder() -> Path:
    return Path(str(files(__package__ or __name__)))
