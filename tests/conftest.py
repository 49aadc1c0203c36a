"""What all tests share: one KNIME host, the stand-in or (KNIME_PYTHON_ROOT) KNIME's own sources."""

import os

import hypothesis
import pytest

# Speed is no property of the code under test; and what CI tries must not change from run to run.
hypothesis.settings.register_profile(
    "default",
    deadline=None,
    suppress_health_check=[hypothesis.HealthCheck.too_slow],
    derandomize="CI" in os.environ,
)
hypothesis.settings.load_profile("default")

REAL_KNIME = bool(os.environ.get("KNIME_PYTHON_ROOT"))

if REAL_KNIME:
    from tests.support.host import get_host

    get_host()  # before any test module imports a node module: KNIME loads the extension first
else:
    from knime_mcp.headless import use_standin

    use_standin()


def pytest_collection_modifyitems(config, items):
    if REAL_KNIME:
        standin = [item for item in items if item.get_closest_marker("standin")]
        config.hook.pytest_deselected(items=standin)
        items[:] = [item for item in items if item not in standin]
        return
    reason = "needs KNIME's own Python sources: set KNIME_PYTHON_ROOT (see CONTRIBUTING.md)"
    for item in items:
        if item.get_closest_marker("real_knime"):
            item.add_marker(pytest.mark.skip(reason=reason))


@pytest.fixture(scope="session")
def host():
    """The extension, loaded as KNIME loads it; see tests/support/host.py."""
    from tests.support.host import get_host

    return get_host()
