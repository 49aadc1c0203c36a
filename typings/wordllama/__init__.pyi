# The part that is used here: an extra, which not everybody who checks types has installed.
from pathlib import Path
from typing import Any

class WordLlama:
    @classmethod
    def load(cls, *, cache_dir: Path, disable_download: bool) -> Any: ...
