"""Files that commands and nodes leave, read as other programs would."""

import csv
import json
from pathlib import Path


def csv_rows(file: Path) -> list[dict[str, str]]:
    """The rows of a CSV file, by column."""
    with file.open(encoding="utf-8", newline="") as stream:
        return list(csv.DictReader(stream))


def ended_lines(file: Path) -> list[dict]:
    """The lines of a journal that begin and end runs and calls."""
    return [line for line in json_lines(file) if line["kind"] in {"start", "call", "end"}]


def json_lines(file: Path) -> list[dict]:
    """The lines of a journal."""
    return [json.loads(line) for line in file.read_text("utf-8").splitlines()]
