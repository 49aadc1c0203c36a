"""Tables of KNIME's Python API for tests: the real API's under KNIME_PYTHON_ROOT, else the stand-in's."""

import contextlib
import os
import tempfile
import uuid
from pathlib import Path

import pyarrow as pa

REAL = bool(os.environ.get("KNIME_PYTHON_ROOT"))

if REAL:
    from tests.support import real_knime as rig
else:
    from tests.support.knime_host import use_standin

    use_standin()
    from tests.support.knime_host import column_types as value_types

    value_types.register_all()


class FileStores:
    """The file stores of a run on the stand-in."""

    def __init__(self, folder):
        self.folder = Path(folder)

    def create_file_store(self):
        key = f"fs-{uuid.uuid4().hex}"
        return str(self.folder / key), key

    def file_store_key_to_absolute_path(self, key):
        return str(self.folder / key)


@contextlib.contextmanager
def executing():
    """The state of KNIME's API while a node executes; yields the file stores."""
    import knime.api.table as kt

    if REAL:
        with rig.tables_usable(rig.any_host()) as backend:
            yield backend.file_store_handler
        return
    before = kt._backend
    with tempfile.TemporaryDirectory() as folder:
        stores = FileStores(folder)
        kt._backend = kt.Backend(stores)
        try:
            yield stores
        finally:
            kt._backend = before


def add_file_store(key):
    """Makes a file store that a workflow tool can name."""
    if REAL:
        rig.any_host().add_file_store(key, b"a workflow")


def as_input(columns, row_ids=None):
    """The table as a node gets it; a dict of names and Arrow arrays."""
    import knime.api.table as kt

    count = len(next(iter(columns.values())))
    ids = pa.array(row_ids or [f"Row{i}" for i in range(count)], pa.string())
    table = pa.table({"<RowID>": ids, **columns})
    if REAL:
        return rig.table_from_pyarrow(table)
    with executing():
        return kt.Table.from_pyarrow(table)
