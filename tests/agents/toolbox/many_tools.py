"""Five hundred tools of typical companies, and questions of people, each with the tool that fits.

Fifty systems with the six usual operations and four special ones each. The questions are worded as by people
who do not know the names of the tools.
"""

from pathlib import Path
from typing import Any

OPERATIONS = (
    ("list_{many}", "Lists {things}, newest first.", ("limit", "cursor")),
    ("get_{one}", "Gets one {thing} by its id.", ("id",)),
    ("create_{one}", "Creates a new {thing}.", ("title", "{field}", "labels")),
    ("update_{one}", "Changes fields of a {thing}, such as its {field}.", ("id", "{field}", "labels")),
    ("delete_{one}", "Deletes a {thing} for good.", ("id",)),
    ("search_{many}", "Searches {things} by text and {field}.", ("query", "{field}", "limit")),
)


def tools() -> list[dict[str, Any]]:
    """The tools as functions for a model."""
    found: list[dict[str, Any]] = []
    system = one = ""
    for line in _lines("many_tools.txt"):
        if line.startswith(" "):
            name, _, description = (part.strip() for part in line.partition(":"))
            found.append(_function(f"{system}_{name}", f"{description}.", [f"{_key(one)}_id", "options"]))
            continue
        system, things, field = (part.strip() for part in line.split("|"))
        one, many = (part.strip() for part in things.split(","))
        words = {"one": _key(one), "many": _key(many), "thing": one, "things": many, "field": field}
        for name, description, parameters in OPERATIONS:
            names = [_key(parameter.format(**words)) for parameter in parameters]
            found.append(_function(f"{system}_{name.format(**words)}", description.format(**words), names))
    return found


def questions() -> list[tuple[str, str]]:
    """Questions, and the name of the tool that fits."""
    split = [line.rpartition("|") for line in _lines("many_questions.txt")]
    return [(question.strip(), name.strip()) for question, _, name in split]


def paraphrases() -> list[tuple[str, str, str]]:
    """What is wanted in English and in German, in other words than the tool has, and the tool's name."""
    split = [line.split("|") for line in _lines("paraphrases.txt")]
    return [(english.strip(), german.strip(), name.strip()) for english, german, name in split]


def _lines(name: str) -> list[str]:
    text = (Path(__file__).parent / name).read_text("utf-8")
    return [line for line in text.splitlines() if line and not line.startswith("#")]


def _key(words: str) -> str:
    return words.replace(" ", "_").replace("-", "_")


def _function(name: str, description: str, parameters: list[str]) -> dict[str, Any]:
    known = {
        "limit": {"type": "integer", "minimum": 1, "maximum": 100, "description": "How many at most"},
        "labels": {"type": "array", "items": {"type": "string"}, "description": "Labels to set"},
        "options": {
            "type": "object",
            "properties": {
                "dry_run": {"type": "boolean", "description": "Only say what would happen"},
                "locale": {"type": "string", "description": "Language of texts, such as de-CH"},
            },
        },
    }
    properties = {
        parameter: known.get(
            parameter, {"type": "string", "description": f"The {parameter.replace('_', ' ')}"}
        )
        for parameter in parameters
    }
    schema = {"type": "object", "properties": properties, "required": parameters[:1]}
    return {
        "type": "function",
        "function": {"name": name, "description": description, "parameters": schema},
    }
