"""What is written, to the byte, in one readable file: of each piece its SHA-256, and the text of short ones.

``python -m tests.house.stored.corpus`` writes the file anew. A change there is a change of what people have
stored: journals that are verified, tables of tools, workflows that KNIME opens.
"""

import os
import re
import tempfile
from hashlib import sha256
from itertools import chain
from pathlib import Path

FILE = Path(__file__).with_name("bytes.txt")
_MOST_SHOWN = 2_500


def corpus() -> dict[str, str]:
    """What the file says of each piece, by its name."""
    from tests.house.stored import archives, records, tools

    with tempfile.TemporaryDirectory() as name:
        pieces = list(chain.from_iterable(part.stored(Path(name)) for part in (records, archives, tools)))
    said = {name: _said(data) for name, data in pieces}
    assert len(said) == len(pieces), "two pieces have one name"
    return said


def _said(data: bytes) -> str:
    return "\n".join([f"{len(data)} bytes, sha256 {sha256(data).hexdigest()}", *_shown(data)])


def _shown(data: bytes) -> list[str]:
    if len(data) > _MOST_SHOWN:
        return []
    try:
        lines = data.decode().split("\n")
    except UnicodeDecodeError:
        return [repr(data)]
    return [line.rstrip() for line in lines] if all(map(str.isprintable, lines)) else [repr(data)]


def written(said: dict[str, str]) -> str:
    pieces = (f"{name}\n{text}".replace("\n", "\n    ") for name, text in said.items())
    return re.sub("(?m) +$", "", "\n".join(pieces)) + "\n"


def read(text: str) -> dict[str, str]:
    """What `written` wrote: names stand at the beginning of a line, all else is indented."""
    pieces = re.split(r"\n(?=\S)", text.removesuffix("\n"))
    return {name: re.sub("(?m)^    ", "", said) for name, _, said in (own.partition("\n") for own in pieces)}


if __name__ == "__main__":
    from tests.support.knime_host import use_standin

    use_standin()
    os.environ["KNIME_MCP_SERVERS"] = os.devnull + "/none"  # not those of whoever runs it
    FILE.write_text(written(corpus()), encoding="utf-8", newline="\n")
