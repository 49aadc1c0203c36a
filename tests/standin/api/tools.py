"""What the cases share: each is a function and what it gives, a value or the class of its error.

Both hosts run them: the stand-in against what is written here, KNIME's own sources against the stand-in.
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

#: What cases give that is too long to stand beside them.
DOCUMENTS = json.loads((Path(__file__).parent / "documents.json").read_text(encoding="utf-8"))


def raises(error):
    return {"raised": error.__name__}


def outcome(case, given):
    """What a case gives for the API and something else: a table, or a node's context and input."""
    import knime.extension as knext

    try:
        return case(knext, given)
    except Exception as error:
        return raises(type(error))


def abc(knext):
    kinds = [knext.int64(), knext.string(), knext.double()]
    return knext.Schema.from_types(kinds, ["a", "b", "c"])


def names(columnar):
    return columnar.get().column_names


def made(base, **members):
    """A class with some members."""
    return type("Made", (base,), members)


def holder(**members):
    """An object of a class with some members."""
    return made(object, **members)()


class Dialog:
    """What a dialog knows."""

    def __init__(self, specs):
        self._specs = specs

    def get_input_specs(self):
        return self._specs

    def get_flow_variables(self):
        return {"v": 1}

    def get_credential_names(self):
        return ["me", "you"]


def dialog(knext, owner, specs=(None,), version="1.0.0"):
    """The documents of an object's dialog: values, their schema, and the elements of the layout."""
    from knime.extension import parameter as kp

    context = Dialog(list(specs))
    schema = kp.extract_schema(owner, version, context)
    return {
        "data": kp.extract_parameters(owner, for_dialog=True)["model"],
        "schema": schema["properties"]["model"]["properties"],
        "layout": kp.extract_ui_schema(owner, context)["elements"],
    }


def stored(owner, **values):
    """What is stored of an object's settings, after some were set."""
    from knime.extension import parameter as kp

    for name, value in values.items():
        setattr(owner, name, value)
    return kp.extract_parameters(owner)["model"]


@dataclass(frozen=True)
class Given:
    """What a node gets when it executes."""

    context: Any
    input: Any


def script(host, name):
    """The outcome of a case in a running node, given a table with three rows."""
    import pyarrow as pa

    result = host.run(
        "Script",
        (pa.table({"a": [1, 2, 3], "b": ["x", "y", "z"], "c": [0.5, 1.5, None]}),),
        {"case": name},
        credentials={"me": ("user", "word")},
        flow_variables={"given": 1},
    )
    assert result.ok, result.failure
    return json.loads(result.outputs[0].to_pylist()[0]["value"])


def key(knext, name="INT"):
    """How the keys of a dictionary are stored."""
    return knext.DictEncodingKeyType[name]
