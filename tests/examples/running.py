"""Runs the workflows of ``examples/``, and its scripts in processes of their own."""

import os
import subprocess
import sys
from pathlib import Path

import pyarrow as pa

from tests.support.archives import read_workflow
from tests.support.linear_run import LinearRun, programs, tools_of

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"
DEADLINE = 100
ENVIRONMENT = os.environ | {
    "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)]),
    "PYTHONWARNINGS": "error",
    "PYTHON_KEYRING_BACKEND": "keyring.backends.null.Keyring",
}


def without_nulls(settings):
    """Settings as KNIME 5.8 and later saves them; older ones keep null for a column that is not chosen."""
    return {name: "" if value is None else value for name, value in settings.items()}


def needs_a_look(table):
    """What the settings of *Row Filter* in the report say."""
    missing, outliers = (table[name].to_numpy() for name in ("missing", "outliers"))
    return [table.filter(pa.array((missing > 0) | (outliers > 0)))]


def run(name, folder, **settings):
    """Runs a workflow; `word-count-tool` is the one that *Workflow to Tool* finds."""
    does = {
        "report": {5: needs_a_look, 7: lambda table: [table.rename_columns({"Image": "picture"})]},
        "agent": {6: lambda table: [table], 7: lambda _: [tools_of(EXAMPLES / "word-count-tool.knwf")]},
    }
    workflow = read_workflow(EXAMPLES / f"{name}.knwf")
    return LinearRun(folder / "workflow", settings, does.get(name, {})).run(workflow)


def command(*arguments, folder, code=0):
    done = programs.run(
        [sys.executable, *map(str, arguments)],
        cwd=folder,
        env=ENVIRONMENT,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=DEADLINE,
        check=False,
    )
    assert done.returncode == code, done.stdout + done.stderr
    return done
