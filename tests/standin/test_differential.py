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
FAILS_IN_JAVA = ["table none", "table two", "promise text", "promise double"]
#: Not in all releases: what EnumParameter can hide, and the control of LocalPathParameter.
DIALOGS = ["dialog of settings", "dialog with columns", "dialog with credentials"]
#: Not in all releases either: a member as default of EnumParameter, that control again.
NEWS = ["api, group, letter of a member", "api, dialog, path"]


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
        pass

    return list(scenarios.scenarios(NoHost()))


@pytest.mark.real_knime
@pytest.mark.parametrize("name", [n for n in names() if n not in [*FAILS_IN_JAVA, "names", "features"]])
def test_same_on_both(name):
    standin, real = outcomes(real=False)[name], outcomes(real=True)[name]
    if not outcomes(real=True)["features"]["hidden_choices"]:
        if name in DIALOGS:
            standin, real = without_news(standin), without_news(real)
        if name in NEWS:
            real = standin
    assert standin == real
    if name.startswith("api, "):
        assert standin == ALL_CASES[name.removeprefix("api, ")][1]


def without_news(document):
    match document:
        case {"title": "Seen"} | {"label": "Path"}:
            return None
        case dict():
            return {key: without_news(value) for key, value in document.items()}
        case list():
            return [without_news(value) for value in document]
    return document


@pytest.mark.real_knime
@pytest.mark.parametrize("name", FAILS_IN_JAVA)
def test_what_java_would_refuse_fails_here(name):
    assert not outcomes(real=False)[name]["ok"]
    real = outcomes(real=True)[name]
    assert real.get("raised") or real["problems"]


@pytest.mark.real_knime
def test_every_name_is_one_of_knimes_and_takes_the_same_arguments():
    standin, real = outcomes(real=False)["names"], outcomes(real=True)["names"]
    news = set() if outcomes(real=True)["features"]["hidden_choices"] else {"EnumParameter"}
    assert {
        name: own for name, own in standin.items() if name not in news and own != real.get(name, "")
    } == {}
