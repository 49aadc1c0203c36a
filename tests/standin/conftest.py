"""What the tests of the node host share.

The stand-in steps back where KNIME's own sources are in the process. So under KNIME_PYTHON_ROOT only the
comparison runs here, which starts a process for each of the two.
"""

import itertools
from pathlib import Path

import pytest

from tests.standin.scenarios import KNIME_YML

HERE = Path(__file__).parent


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    for item in items:
        if HERE in item.path.parents and not item.get_closest_marker("real_knime"):
            item.add_marker("standin")


@pytest.fixture
def trial():
    """The trial extension on the project's own host; what the API alone is asked, it answers for this one."""
    from tests.support.knime_host import load_extension

    host = load_extension(KNIME_YML)
    host.make_current()
    return host


@pytest.fixture
def make_extension(tmp_path):
    """Writes an extension of one module; gives its knime.yml."""

    def make(module, body, yml='name: {name}\ngroup_id: org.example\nversion: "1.0.0"\n', icons=True):
        (tmp_path / "icon.png").write_bytes(b"\x89PNG\r\n\x1a\n") if icons else None
        (tmp_path / f"{module}.py").write_text("import knime.extension as knext\n" + body, encoding="utf-8")
        path = tmp_path / "knime.yml"
        path.write_text(yml.format(name=module) + f"extension_module: {module}\n", encoding="utf-8")
        return path

    return make


SOURCE = '''
{before}
@knext.node("Source", knext.NodeType.SOURCE, "icon.png", "/community")
class Source:
    """Tries something.

    In one of its methods.
    """

    {body}

    def configure(self, ctx): {configure}
    def execute(self, ctx): {execute}
'''
NUMBERS = itertools.count()


@pytest.fixture
def make_source(make_extension):
    """Loads an extension with one node, Source, which has no inputs and outputs; of its parts, as text."""
    from tests.support.knime_host import load_extension

    def make(configure="return None", execute="return None", body="", before=""):
        text = SOURCE.format(before=before, body=body, configure=configure, execute=execute)
        return load_extension(make_extension(f"source_{next(NUMBERS)}", text))

    return make


@pytest.fixture
def run_source(make_source):
    """Runs the node of `make_source`."""
    return lambda *parts, **named: make_source(*parts, **named).run_node("Source")
