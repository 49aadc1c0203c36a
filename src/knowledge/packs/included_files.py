"""Where the packs lie that come with this program."""

from importlib.resources import files
from pathlib import Path


def own_packs() -> tuple[Path, ...]:
    """The packs of every catalogue, in their order."""
    return tuple(sorted((_folder() / "included").glob("*.yaml")))


def basics_file() -> Path:
    """The pack of well-known nodes; not of `own_packs`: beside an installed KNIME they were there twice."""
    return _folder() / "knime-basics.yaml"


def _folder() -> Path:
    return Path(str(files(__package__ or __name__)))
