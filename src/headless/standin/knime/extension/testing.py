"""Helpers for unit tests of nodes without KNIME: contexts, tables from pandas frames, value factories.

After its import, `Table.from_pandas` and port types can be used while no node executes. As in KNIME, it
supports only a few operations; all others raise a RuntimeError.
"""

# Signatures are KNIME's, so not every argument is used.
# ruff: noqa: ARG001, ARG002
# pandas is not installed when types are checked.
# pyright: basic, reportMissingImports=false, reportIncompatibleMethodOverride=false

import json
import sys
import xml.etree.ElementTree as ET
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NoReturn

from knime.api import _ktypes as k
from knime.api import table as knime_table
from knime.api import types as kt
from knime.api.schema import Column, Schema

from . import nodes
from .contexts import ConfigurationContext, ExecutionContext
from .ports import PortTypeRegistry

_POINT = "org.knime.python3.types.PythonValueFactory"
_SIMPLE = {"type": "simple", "traits": {}}
_NUMBERS = {"int32": k.int32(), "int64": k.int64(), "float64": k.double()}


def _refuse(*args: Any, **options: Any) -> NoReturn:
    raise RuntimeError("this is not available in unit tests, nor is it with KNIME")


class _FrameTable(knime_table.Table):
    """A table that wraps a frame, without RowIDs, selections and Arrow data."""

    def __init__(self, frame: Any) -> None:
        self._frame = frame.copy()

    num_batches = 1
    num_rows = property(lambda self: len(self._frame))
    num_columns = property(lambda self: len(self._frame.columns))
    column_names = property(lambda self: self._frame.columns)
    to_pyarrow = _select_columns = _select_rows = _append = _refuse

    def batches(self) -> Iterator[knime_table.Table]:
        return iter([_FrameTable(self._frame)])

    def to_pandas(self, sentinel: Any = None) -> Any:
        return self._frame

    @property
    def schema(self) -> Schema:
        return Schema.from_columns([Column(_type_of(self._frame[n]), n) for n in self._frame.columns])


def _type_of(column: Any) -> k.KnimeType:
    if column.dtype != object:
        return _NUMBERS.get(str(column.dtype)) or _refuse()
    present = column.dropna()
    kind = type(present.iloc[0])
    if kind.__name__ in ("datetime", "Timestamp") and all(value.tzinfo is None for value in present):
        _refuse()
    try:
        return k.string() if kind is str else k.logical(kind)
    except TypeError:
        _refuse()


class _Batches(knime_table.BatchOutputTable):
    """An output table that can also be used as an input."""

    def __init__(self) -> None:
        self._batches = []

    num_rows = property(lambda self: sum(batch.num_rows for batch in self._batches))
    num_columns = property(lambda self: len(self.column_names))
    column_names = property(lambda self: self._batches[0].column_names if self._batches else [])
    schema = property(lambda self: self.column_names if self._batches else Schema.from_columns([]))

    def append(self, batch: Any) -> None:
        if not isinstance(batch, knime_table.Table):
            batch = _FrameTable(batch) if knime_table.is_frame(batch) else _refuse()
        self._batches.append(batch)

    def batches(self) -> Iterator[knime_table.Table]:
        return iter(self._batches)

    def to_pandas(self, sentinel: Any = None) -> Any:
        import pandas as pd

        return pd.concat([batch.to_pandas() for batch in self._batches])


class _Backend(knime_table.Backend):
    def table_of_frame(self, data: Any, sentinel: Any, row_ids: str) -> knime_table.Table:
        return _FrameTable(data) if sentinel is None and row_ids == "auto" else _refuse()

    def batch_output_table(self, row_ids: str) -> knime_table.BatchOutputTable:
        return _Batches()

    table_of_arrow = _refuse


class _PortTypes(PortTypeRegistry):
    def register(self, *declared: Any) -> Any:
        """Does nothing, as tests use the classes directly."""

    of_id = of_spec = _refuse


class _TestingContext:
    def __init__(self) -> None:
        self._flow_variables: Any = {}

    get_credential_names = get_credentials = _refuse

    def set_warning(self, message: str) -> None:
        """Does nothing."""


class TestingConfigurationContext(_TestingContext, ConfigurationContext):
    """The context for configure() in tests."""


class TestingExecutionContext(_TestingContext, ExecutionContext):
    """The context for execute() in tests."""

    get_workflow_temp_dir = get_workflow_data_area_dir = get_knime_home_dir = _refuse

    def set_progress(self, progress: float, message: str | None = None) -> None:
        """Does nothing."""

    def is_canceled(self) -> bool:
        """Returns False."""
        return False


def register_extension(
    plugin_xml: str, value_factory_to_type_name_map: Mapping[str, str] | None = None
) -> None:
    """Registers the value factories of a plugin.xml, and makes their modules importable.

    Args:
        plugin_xml: the path of the file.
        value_factory_to_type_name_map: the names of the types, by the class of the Java value factory.
    """
    for extension in ET.parse(plugin_xml).findall("extension"):  # noqa: S314  # the extension's own file
        for module in extension.findall("Module") if extension.get("point") == _POINT else ():
            sys.path.append(str(Path(plugin_xml).parent / module.get("modulePath", "")))
            for factory in module.findall("PythonValueFactory"):
                java_class = factory.get("ValueFactory", "")
                names = value_factory_to_type_name_map
                traits = {"logical_type": k.value_factory_json(java_class)}
                kt.register_python_value_factory(
                    module.get("moduleName", ""),
                    factory.get("PythonClassName", ""),
                    names.get(java_class, "") if names else "MyDummyTypeName",
                    '{"type": "struct", "inner_types": ["string", "variable_width_binary"]}',
                    json.dumps({"type": "struct", "traits": traits, "inner": [_SIMPLE, _SIMPLE]}),
                    factory.get("ValueTypeName", ""),
                )


if knime_table._backend is None:
    knime_table._backend = _Backend(None)
if nodes.port_types is None:
    nodes.port_types = _PortTypes("")
