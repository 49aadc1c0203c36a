"""The stand-in's API gives what KNIME's does, and refuses what KNIME's refuses."""

import pytest

from tests.headless.api_cases import CASES, outcome


@pytest.fixture(scope="module")
def table(trial):
    import pyarrow as pa

    return trial.table(pa.table({"a": [1, 2, 3], "b": ["x", "y", "z"], "c": [0.5, 1.5, None]}))


@pytest.mark.parametrize("name", CASES)
def test_api(table, name):
    case, expected = CASES[name]
    assert outcome(case, table) == expected
