"""The packs that come with this program, as files."""

from pathlib import Path
from typing import Final

_FOLDER: Final = Path(__file__).parent

BASICS: Final = _FOLDER / "knime-basics.yaml"
"""Our summaries of well-known nodes. An installed KNIME has its own, so these are not in `own_packs`."""

FACTS: Final = _FOLDER / "knime-nodes.jsonl"
"""Facts about KNIME's nodes, read from its public sources; see `sources.shipped_nodes`."""

OWN_NODES: Final = _FOLDER / "own-nodes.jsonl"
"""This extension's nodes, a line each, as ``python -m node_facts.own_nodes`` writes them."""

WORDS: Final = _FOLDER / "knime-words.toml"
"""What KNIME's nodes do and what people ask for, in our words; see `sources.phrase_tables`."""


def own_packs() -> tuple[Path, ...]:
    """The packs that are in every catalogue, in order."""
    return tuple(sorted((_FOLDER / "included").glob("*.yaml")))
