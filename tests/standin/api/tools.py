"""What the cases share: each is a function and what it gives, a value or the class of its error.

Both hosts run them: the stand-in against what is written here, KNIME's own sources against the stand-in.
"""

import json
from dataclasses import dataclass
from typing import Any


def raises(error):
    return {"raised": error.__name__}


def outcome(case, given):
    """What a case gives for the API and something else: a table, or a node's context and input."""
    import knime.extension as knext

    try:
        return case(knext, given)
    except Exception as error:
        return raises(type(error))


def abc(knext, metadata=None):
    kinds = {"a": knext.int64(), "b": knext.string(), "c": knext.double()}
    return knext.Schema.from_columns([knext.Column(kind, name, metadata) for name, kind in kinds.items()])


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

    def get_credential_names(self):
        return ["me", "you"]


def dialog(owner, specs=(None,), version="1.0.0"):
    """The documents of an object's dialog: values, their schema, and the elements of the layout."""
    from knime.extension import parameter as kp

    context = Dialog(list(specs))
    schema = kp.extract_schema(owner, version, context)
    return {
        "data": kp.extract_parameters(owner)["model"],
        "schema": schema["properties"]["model"]["properties"],
        "layout": kp.extract_ui_schema(owner, context)["elements"],
    }


def loaded(owner, values, version=None):
    """An object into whose settings a saved document was loaded."""
    from knime.extension import parameter as kp

    kp.validate_parameters(owner, {"model": values}, version)
    kp.inject_parameters(owner, {"model": values}, version)
    return owner


def stored(owner):
    """What is stored of an object's settings."""
    from knime.extension import parameter as kp

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
