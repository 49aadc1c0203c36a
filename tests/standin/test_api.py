"""The stand-in's API gives what KNIME's does, and refuses what KNIME's refuses."""

import pytest

from tests.standin.api.cases import CASES, RUNNING
from tests.standin.api.tools import outcome, script
from tests.standin.scenarios import KNIME_YML
from tests.support.host import StandInHost


def test_the_api_alone_or_of_a_table(subtests, trial):
    import pyarrow as pa

    columns = pa.table({"a": [1, 2, 3], "b": ["x", "y", "z"], "c": [0.5, 1.5, None]})
    for name, (case, expected) in CASES.items():
        with subtests.test(name=name):
            assert outcome(case, trial.table(columns)) == expected


@pytest.mark.parametrize("name", RUNNING)
def test_while_a_node_runs(name):
    _, expected = RUNNING[name]
    assert script(StandInHost(KNIME_YML), name) == expected
