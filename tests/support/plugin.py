"""What the tests of every root share, as a plugin of pytest that `pyproject.toml` names.

One KNIME host, the stand-in or (KNIME_PYTHON_ROOT) KNIME's own sources; nothing of whoever runs the tests.
"""

import gc
import os

import hypothesis
import keyring
import pytest

# Speed is no property of the code under test; and what CI tries must not change from run to run.
WHOLE = hypothesis.settings(
    deadline=None,
    suppress_health_check=[hypothesis.HealthCheck.too_slow],
    derandomize="CI" in os.environ,
)
hypothesis.settings.register_profile("whole", WHOLE, max_examples=40)
hypothesis.settings.register_profile("sample", WHOLE, max_examples=10)

# Whoever runs the tests may sign journals of their own.
os.environ["KNIME_MCP_AUDIT_KEYS"] = os.devnull + "/none"
# Nor do tests know the servers to which they gave names.
os.environ["KNIME_MCP_SERVERS"] = os.devnull + "/none"

# Dask's workers are forks of a process that has imported it; nobody looks at what it measures of itself.
os.environ["DASK_DISTRIBUTED__WORKER__MULTIPROCESSING_METHOD"] = "forkserver"
os.environ["DASK_DISTRIBUTED__WORKER__PROFILE__ENABLED"] = "False"
os.environ["DASK_DISTRIBUTED__ADMIN__SYSTEM_MONITOR__INTERVAL"] = "1h"

# keyring chooses among all classes that are known when it is first asked: not among those of the tests.
keyring.get_keyring()

REAL_KNIME = bool(os.environ.get("KNIME_PYTHON_ROOT"))


def use_host():
    """Makes `knime.extension` importable, before any module of nodes is: KNIME loads the extension first."""
    if REAL_KNIME:
        from tests.support.host import get_host

        get_host()
    else:
        from tests.support.knime_host import use_standin

        use_standin()


def pytest_load_initial_conftests():
    use_host()  # here, as coverage is measured by now


def pytest_configure(config):
    """Random values: some where what is long is left out, all of them otherwise."""
    hypothesis.settings.load_profile("sample" if "not long" in config.option.markexpr else "whole")


def pytest_ignore_collect(collection_path, config):
    """With ``-m quick``, modules without that mark are not imported: it takes longer than the tests."""
    if not config.option.markexpr.startswith("quick") or not collection_path.name.startswith("test_"):
        return None
    return True if "pytest.mark.quick" not in collection_path.read_text(encoding="utf-8") else None


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config, items):
    """Selects what the host of this run can do; `make real-knime` runs what needs KNIME's own sources.

    All random values are tried among the long tests.
    """
    for item in items if "not long" not in config.option.markexpr else ():
        if hypothesis.is_hypothesis_test(getattr(item, "obj", None)):
            item.add_marker(pytest.mark.long)
    others = "standin" if REAL_KNIME else "real_knime"
    chosen = [item for item in items if not item.get_closest_marker(others)]
    config.hook.pytest_deselected(items=list(set(items) - set(chosen)))
    items[:] = chosen


@pytest.hookimpl(wrapper=True)
def pytest_collection():
    """What is imported and collected stays to the end: Python need not look through it again and again."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.freeze()


@pytest.fixture(scope="session")
def host():
    """The extension, loaded as KNIME loads it; see tests/support/host.py."""
    from tests.support.host import get_host

    return get_host()


@pytest.fixture
def journal_files(tmp_path):
    """The journals of the test's workflow, in the folder "workflow" of `tmp_path`, oldest first."""
    return lambda: sorted((tmp_path / "workflow" / "data" / "mcp-audit").glob("*.jsonl"))


@pytest.fixture
def journals(journal_files):
    """Reads them, each as a list of lines, those of starts, calls and ends."""
    from tests.support.files import ended_lines

    return lambda: [ended_lines(file) for file in journal_files()]


@pytest.fixture(autouse=True)
def _own_extension_is_current(request):
    """Other tests load other extensions, and the stand-in's port types are those of the last one."""
    from tests.support.host import StandInHost

    made = request.getfixturevalue("host") if "host" in request.fixturenames else None
    if isinstance(made, StandInHost):
        made.host.make_current()
