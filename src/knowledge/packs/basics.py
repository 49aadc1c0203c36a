"""Well-known nodes of KNIME in short, for whoever has built no catalogue of an installed KNIME yet."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from .included_files import basics_file
from .reading import read_pack

if TYPE_CHECKING:
    from ..model import NodeSpec


def basic_nodes() -> tuple[NodeSpec, ...]:
    """Its nodes. They name what dialogs show and not the keys of settings, so nothing is judged by them.

    Raises:
        PackError: The file that comes along is broken.
    """
    pack = read_pack(basics_file(), shown_as=basics_file().name)
    return tuple(replace(node, settings_known=False) for node in pack.nodes)
