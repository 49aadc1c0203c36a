"""Where the stand-in is found, and that it never meets KNIME's own package."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
STANDIN = ROOT / "tests" / "support" / "knime_host" / "standin"


def python(code, *path):
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={"PYTHONPATH": ":".join(str(folder) for folder in (ROOT / "src", ROOT, *path))},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_no_package_named_knime():
    """A regular package of this name would hide KNIME's namespace package, wherever on the path it is."""
    assert not (STANDIN / "knime" / "__init__.py").exists()


def test_importing_it_changes_nothing():
    code = (
        "import sys; before = list(sys.path); import tests.support.knime_host;"
        "print(before == sys.path, 'knime' in sys.modules)"
    )
    assert python(code) == "True False"


def test_standin_comes_last_and_once():
    code = (
        "import sys; from tests.support.knime_host import use_standin; use_standin(); use_standin();"
        "import knime.extension as k; print(sys.path[-1], sys.path.count(sys.path[-1]), k.__file__)"
    )
    last, count, file = python(code).split()
    assert (Path(last), count) == (STANDIN, "1")
    assert STANDIN in Path(file).parents


def test_steps_back_for_knimes_own_package(tmp_path):
    own = tmp_path / "knime" / "extension"
    own.mkdir(parents=True)
    (own / "__init__.py").write_text("REAL = True\n")
    code = (
        "import sys; from tests.support import knime_host as own; own.use_standin()\n"
        "import knime.extension as k\n"
        "print(k.REAL, any(p.endswith('knime_host/standin') for p in sys.path))\n"
        "try: own.load_extension('knime.yml')\n"
        "except own.HostError as error: print(error)"
    )
    first, second = python(code, tmp_path).splitlines()
    assert first == "True False"
    assert "KNIME's own" in second


def test_knime_without_extension_is_no_knime(tmp_path):
    """A namespace folder `knime` of somebody else is not KNIME's API."""
    (tmp_path / "knime" / "other").mkdir(parents=True)
    code = (
        "import knime.other; from tests.support.knime_host import use_standin; use_standin();"
        "import knime.extension; print(knime.extension.Schema.__name__)"
    )
    assert python(code, tmp_path) == "Schema"


def test_broken_knime_is_not_replaced(tmp_path):
    """KNIME's package imports other packages; one that is missing must not select the stand-in."""
    own = tmp_path / "knime" / "extension"
    own.mkdir(parents=True)
    (own / "__init__.py").write_text("import nowhere_to_be_found\n")
    code = (
        "from tests.support.knime_host import use_standin; use_standin()\n"
        "try: import knime.extension\n"
        "except ModuleNotFoundError as error: print(error.name)"
    )
    assert python(code, tmp_path) == "nowhere_to_be_found"


def test_importing_the_api_needs_no_pyarrow():
    code = (
        "import sys; from tests.support.knime_host import use_standin; use_standin(); import knime.extension;"
        "print([name for name in ('pyarrow', 'pandas', 'yaml') if name in sys.modules])"
    )
    assert python(code) == "[]"


def test_a_name_that_knime_has_not_either_is_an_ordinary_mistake():
    import knime.extension as knext

    with pytest.raises(AttributeError, match="nonsense"):
        knext.nonsense  # noqa: B018


@pytest.mark.parametrize(
    "use",
    [
        lambda knext, table: table[:, :1],
        lambda knext, table: table[0],
        lambda knext, table: table.schema[0],
        lambda knext, table: list(table),
        lambda knext, table: knext.Schema.deserialize({}),
        lambda knext, table: knext.BatchOutputTable.create("generate"),
        lambda knext, table: knext.parameter_group(label="G")(object)().__set_name__(object, "group"),
    ],
)
def test_what_no_node_of_ours_uses_says_that_it_is_not_here(trial, use):
    import knime.extension as knext
    import pyarrow as pa

    table = trial.table(pa.table({"a": [1]}))
    with pytest.raises(NotImplementedError, match="not part of the stand-in"), trial.tables_usable():
        use(knext, table)
