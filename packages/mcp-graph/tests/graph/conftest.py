"""What the tests of graphs share."""

from tests.cli.conftest import cli  # noqa: F401 - a fixture
