"""A short soak; `python -m tests.faults.soak` runs a long one."""

import threading

import pytest

from tests.faults.soak import Soak, count_sockets, growth, soak_apart

IN_FLIGHT = 16


@pytest.mark.parametrize("era", ["modern", "legacy"])
def test_every_row_is_accounted_for_once_and_nothing_grows(era, capsys):
    threads, sockets = threading.active_count(), count_sockets()
    soak = Soak(1_000, IN_FLIGHT, 0.05, era)
    soak_apart(soak)
    assert soak.outcomes["ok"] > 850
    assert len(soak.outcomes) > 3
    assert soak.most_threads <= threads + 2 * IN_FLIGHT  # on a busy machine those of connecting live longer
    assert soak.most_sockets <= sockets + 2 * IN_FLIGHT  # those in flight and those kept for the next calls
    assert growth(soak.memory) < 20_000
