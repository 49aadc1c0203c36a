"""Pauses Python's garbage collector while very many values are created at once.

The collector checks all young values after some hundred new ones, and all values whenever the old ones have
grown by a quarter. While a large JSON text or a column is read, it finds no garbage, but takes more than half
of the time: a column of 100,000 tools takes 60 ms without it and 150 ms with it (`benchmarks/columns.py`).
Reference counting goes on; only cycles are freed later.
"""

from __future__ import annotations

import gc
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Generator

_pause = threading.Lock()


@contextmanager
def collector_paused() -> Generator[None]:
    """Pauses the collector of the whole process for the block, which must be short and not wait for anything.

    A pause is never longer than one block: where another block has paused the collector already, around this
    one or in another thread, nothing is done here, and the collector is on again when that block ends. A
    collector that is off stays off.
    """
    if not gc.isenabled() or not _pause.acquire(blocking=False):
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
        _pause.release()
