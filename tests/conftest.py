"""What all tests share: one KNIME host, the stand-in or (KNIME_PYTHON_ROOT) KNIME's own sources."""

import os
from pathlib import Path

import hypothesis
import keyring
import pytest

# Speed is no property of the code under test; and what CI tries must not change from run to run.
hypothesis.settings.register_profile(
    "default",
    deadline=None,
    suppress_health_check=[hypothesis.HealthCheck.too_slow],
    derandomize="CI" in os.environ,
)
hypothesis.settings.load_profile("default")

# Whoever runs the tests may sign journals of their own.
os.environ["KNIME_MCP_AUDIT_KEYS"] = os.devnull + "/none"
# Nor do tests know the servers to which they gave names.
os.environ["KNIME_MCP_SERVERS"] = os.devnull + "/none"

# keyring chooses among all classes that are known when it is first asked: not among those of the tests.
keyring.get_keyring()

#: Names by which a module can start processes.
STARTING = {"subprocess", "multiprocessing", "peers", "local_cluster", "CommandLine"}
#: Places of tests with servers in threads, with clocks that run out, with very many cases, or with limits of
#: processes, which Windows has not.
SLOW = (
    "tests/audit/test_kept_safely.py/",
    "tests/agents/test_agent_loop_trouble.py/",
    "tests/cli/",
    "tests/examples/",
    "tests/faults/",
    "tests/fuzz/",
    "tests/graph/test_live",
    "tests/graph/test_sdk_server.py/",
    "tests/knowledge/gateway/",
    "tests/peers/",
)
#: The tests whose coverage is measured, as the source documents ask.
KNOWLEDGE = Path(__file__).parent / "knowledge"
REAL_KNIME = bool(os.environ.get("KNIME_PYTHON_ROOT"))

if REAL_KNIME:
    from tests.support.host import get_host

    get_host()  # before any test module imports a node module: KNIME loads the extension first
else:
    from knime_mcp.headless import use_standin

    use_standin()


def pytest_addoption(parser):
    parser.addoption("--quick", action="store_true", help="no tests that start processes or wait")


def pytest_ignore_collect(collection_path, config):
    place = collection_path.relative_to(config.rootpath).as_posix()
    return True if config.getoption("quick") and f"{place}/".startswith(SLOW) else None


def pytest_collection_modifyitems(config, items):
    """Selects what the host of this run can do; `make real-knime` runs what needs KNIME's own sources."""
    others = "standin" if REAL_KNIME else "real_knime"
    quick = config.getoption("quick")
    chosen = [
        item
        for item in items
        if not item.get_closest_marker(others) and not (quick and starts_processes(item))
    ]
    config.hook.pytest_deselected(items=list(set(items) - set(chosen)))
    items[:] = chosen
    # With --cov, one run of all tests measures what the tests of the node knowledge reach; tracing the others
    # as well would take twice their time, and count what they reach by chance.
    for item in items:
        if not item.path.is_relative_to(KNOWLEDGE):
            item.add_marker(pytest.mark.no_cover)


def starts_processes(item):
    """Whether a test, or a fixture that it uses, stands in a module that can start a process."""
    modules = [item.module.__dict__]
    for fixtures in item._fixtureinfo.name2fixturedefs.values():
        modules += [fixture.func.__globals__ for fixture in fixtures]
    return any(name in module for module in modules for name in STARTING)


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
