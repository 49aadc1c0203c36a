"""The library for JSONata: it is used as it is, and a version that does not fit is told in plain words."""

import subprocess
import sys

import pytest

UNCHANGED = """
import sys
import jsonata
from jsonata import constants, datetimeutils, functions, jexception, parser, signature, tokenizer, utils

def names():
    modules = {name: module for name, module in sys.modules.items() if name.split(".")[0] == "jsonata"}
    kept = {}
    for module in modules.values():
        kept |= {(module.__name__, name): value for name, value in vars(module).items()}
        for holder in [value for value in vars(module).values() if isinstance(value, type)]:
            kept |= {(holder, name): value for name, value in vars(holder).items()}
    return {key: id(value) for key, value in kept.items() if key[1] not in ("__warningregistry__",)}

def state():
    Jsonata = jsonata.Jsonata
    return vars(Jsonata.CURRENT), {name: type(value) for name, value in vars(Jsonata.PARSER).items()}

before, theirs = names(), jsonata.Jsonata("$fromMillis(0, '[Y]')").evaluate(None)
outer = [dict(part) for part in state()]
from knime_mcp.graph.expressions import check_jsonata, evaluate
assert evaluate("$map([1, 2], function($v, $i) { $v + $i })", None) == [1, 3]
assert evaluate("$ ~> |$|{'b': 1}|", {"a": None}) == {"a": None, "b": 1}
assert evaluate("$eval('a')", {"a": 2}) == 2
assert evaluate("$fromMillis(0, '[MNn,3]')", None) == "January"
assert check_jsonata("function($a)<s<n>:s>{$a}") is not None
assert names() == before
assert [dict(part) for part in state()] == outer
assert jsonata.Jsonata("$fromMillis(0, '[Y]')").evaluate(None) == theirs == "1970"
"""

OTHER_VERSION = """
from jsonata import utils
del utils.Utils.create_sequence
import knime_mcp.graph.expressions
"""


def ran(program):
    return subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False
    )


def test_the_library_stays_as_it_is_for_others():
    done = ran(UNCHANGED)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("program", [OTHER_VERSION])
def test_a_version_that_does_not_fit_is_told(program):
    done = ran(program)
    assert done.stderr.splitlines()[-1] == (
        "ImportError: The installed jsonata-python has no Utils.create_sequence, which graphs need."
        " Install a version that fits: pip install 'jsonata-python>=0.7,<0.8'."
    )
