"""The scripts and workflows of ``examples/`` in processes of their own."""

import os
import subprocess
import sys
from pathlib import Path

from tests.support import commands

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"
DEADLINE = 100
ENVIRONMENT = os.environ | {
    "PYTHONPATH": str(ROOT / "src"),
    "PYTHONWARNINGS": "error",
    "PYTHON_KEYRING_BACKEND": "keyring.backends.null.Keyring",
}


def without_nulls(settings):
    """Settings as KNIME 5.8 and later saves them; older ones keep null for a column that is not chosen."""
    return {name: "" if value is None else value for name, value in settings.items()}


def command(*arguments, folder, code=0):
    done = commands.run(
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
