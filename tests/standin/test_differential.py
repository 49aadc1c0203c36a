"""The same nodes on the stand-in and on KNIME's own Python sources give the same outcomes."""

import functools
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.standin import scenarios
from tests.standin.api.cases import CASES, RUNNING

ROOT = Path(__file__).parents[2]

ALL_CASES = CASES | RUNNING
#: Here the stand-in says more than the rig: these nodes fail in KNIME, on its Java side.
FAILS_IN_JAVA = ["table no batches", "table none", "table two", "promise text", "promise double"]


@functools.cache
def outcomes(real):
    environment = dict(os.environ, PYTHONPATH=os.pathsep.join([str(ROOT / "src"), str(ROOT)]))
    if not real:
        del environment["KNIME_PYTHON_ROOT"]
    done = subprocess.run(
        [sys.executable, "-m", "tests.standin.scenarios"],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def names():
    class NoHost:
        def credential_port(self, *_, **__):
            pass

    return list(scenarios.scenarios(NoHost()))


@pytest.mark.real_knime
@pytest.mark.parametrize("name", [n for n in names() if n not in [*FAILS_IN_JAVA, "names"]])
def test_same_on_both(name):
    standin = outcomes(real=False)[name]
    assert standin == outcomes(real=True)[name]
    if name.startswith("api, "):
        assert standin == ALL_CASES[name.removeprefix("api, ")][1]


@pytest.mark.real_knime
@pytest.mark.parametrize("name", FAILS_IN_JAVA)
def test_what_java_would_refuse_fails_here(name):
    assert not outcomes(real=False)[name]["ok"]
    real = outcomes(real=True)[name]
    assert real.get("raised") or real["problems"]


@pytest.mark.real_knime
def test_every_name_is_one_of_knimes_and_takes_no_other_arguments():
    """Those by position are KNIME's first ones, in its order; the others have KNIME's names."""
    standin, real = outcomes(real=False)["names"], outcomes(real=True)["names"]
    news = {"hidden_choices"}  # not in all releases
    for name, (by_position, by_name) in standin.items():
        known, known_by_name = real[name]
        assert by_position == known[: len(by_position)], name
        assert set(by_name) <= {*known, *known_by_name, *news}, name
