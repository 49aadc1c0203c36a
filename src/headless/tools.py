"""Workflow tools on their way from a node to what runs them."""

from typing import Any

from knime.api import types as kt

from .value_types import TOOL_VALUE, java_type


def encoded_and_read(tool: Any) -> Any:
    """The tool as KNIME's Java side would read it from the one-row table in which a node hands it over.

    Raises:
        TypeError: no value factory is registered for the tool's class.
        RuntimeError: its cells are none that KNIME runs as tools.
    """
    bundle = kt.get_value_factory_bundle_for_python_type(tool.__class__)
    known = java_type(bundle.logical_type)
    if known is None or known.preferred != TOOL_VALUE:
        raise RuntimeError(f"KNIME does not run {type(tool).__name__} values as tools")
    import pyarrow as pa
    from knime._arrow import logical_type_of

    dtype = logical_type_of(bundle)
    cell = pa.ExtensionArray.from_storage(dtype, pa.array([dtype.encode(tool)], type=dtype.storage_type))
    return cell.to_pylist()[0]
