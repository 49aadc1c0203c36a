"""The packs that come with this program, as files."""

from pathlib import Path
from typing import Final

_FOLDER: Final = Path(__file__).parent

BASICS: Final = _FOLDER / "knime-basics.yaml"
"""The pack of well-known nodes. It is not in `own_packs`: an installed KNIME has these nodes itself."""


def own_packs() -> tuple[Path, ...]:
    """The packs that are in every catalogue, in order."""
    return tuple(sorted((_FOLDER / "included").glob("*.yaml")))
