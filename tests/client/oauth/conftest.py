"""A world of servers per test."""

from collections.abc import Iterator

import pytest

from tests.client.oauth.world import Person, World, open_world


@pytest.fixture
def world() -> Iterator[World]:
    with open_world() as opened:
        yield opened


@pytest.fixture
def person() -> Person:
    return Person()
