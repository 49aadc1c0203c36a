"""Every call goes one way: runs are made, journals opened and calls put on record in the engine alone."""

import ast

import pytest

from tests.house.sources import FILES, nodes, place


@pytest.mark.parametrize("name", ["Run", "Journal", "SessionPool", "CallInProgress"])
def test_only_the_engine_makes(name):
    makers = {
        place(file)
        for file in FILES
        for node in nodes(file)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == name
    }
    # In a worker, the half of a call that stands behind the check is made by its own name.
    assert makers - ({"runs/dask_calls.py"} if name == "CallInProgress" else set()) == {"runs/engine.py"}
