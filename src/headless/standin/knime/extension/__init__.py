"""A stand-in for ``knime.extension`` outside KNIME: the part of the API that this project's nodes use.

It never meets the real one: it is put at the end of ``sys.path``, and only where there is no other. What it
does not implement raises an error that says so.
"""

# Signatures are KNIME's, so not every argument is used.
# ruff: noqa: ARG002

from typing import Any, NoReturn

from knime.api.env import ProxySettings, get_proxy_settings
from knime.api.schema import (
    BinaryPortObjectSpec,
    Column,
    CredentialPortObjectSpec,
    ImagePortObjectSpec,
    KnimeType,
    ListType,
    LogicalType,
    PortObjectSpec,
    PrimitiveType,
    PrimitiveTypeId,
    Schema,
    StructType,
    blob,
    bool_,
    datetime,
    double,
    int32,
    int64,
    list_,
    logical,
    null,
    string,
    struct,
)
from knime.api.table import BatchOutputTable, Table
from knime.api.views import (
    view,
    view_html,
    view_ipy_repr,
    view_jpeg,
    view_matplotlib,
    view_plotly,
    view_png,
    view_seaborn,
    view_svg,
)

from .contexts import ConfigurationContext, DialogCreationContext, ExecutionContext
from .nodes import (
    InvalidParametersError,
    NodeType,
    PythonNode,
    WorkflowExecutionError,
    category,
    node,
    port_type,
)
from .parameter import (
    And,
    BoolParameter,
    ColumnParameter,
    Condition,
    Contains,
    DialogContextCondition,
    DoubleParameter,
    Effect,
    EnumParameter,
    EnumParameterOptions,
    EnumSetParameter,
    IntParameter,
    LayoutDirection,
    LocalPathParameter,
    MultiColumnParameter,
    MultilineStringParameter,
    OneOf,
    Or,
    ParameterArray,
    StringParameter,
    Version,
    parameter_group,
)
from .ports import (
    ConnectionPortObject,
    ImageFormat,
    Port,
    PortObject,
    PortType,
    ViewDeclaration,
    input_binary,
    input_binary_group,
    input_port,
    input_port_group,
    input_table,
    input_table_group,
    output_binary,
    output_binary_group,
    output_image,
    output_image_group,
    output_port,
    output_port_group,
    output_table,
    output_table_group,
    output_view,
)

supported_value_types = LogicalType.supported_value_types


def _missing(name: str) -> NoReturn:
    raise NotImplementedError(f"knime.extension.{name} is not part of the stand-in")


class ColumnFilterParameter:
    """Not part of the stand-in."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        _missing("ColumnFilterParameter")


class ColumnFilterConfig:
    """Not part of the stand-in."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        _missing("ColumnFilterConfig")


class DateTimeParameter:
    """Not part of the stand-in."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        _missing("DateTimeParameter")


class DictEncodingKeyType:
    """Not part of the stand-in."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        _missing("DictEncodingKeyType")


__all__ = [
    "And",
    "BatchOutputTable",
    "BinaryPortObjectSpec",
    "BoolParameter",
    "Column",
    "ColumnFilterConfig",
    "ColumnFilterParameter",
    "ColumnParameter",
    "Condition",
    "ConfigurationContext",
    "ConnectionPortObject",
    "Contains",
    "CredentialPortObjectSpec",
    "DateTimeParameter",
    "DialogContextCondition",
    "DialogCreationContext",
    "DictEncodingKeyType",
    "DoubleParameter",
    "Effect",
    "EnumParameter",
    "EnumParameterOptions",
    "EnumSetParameter",
    "ExecutionContext",
    "ImageFormat",
    "ImagePortObjectSpec",
    "IntParameter",
    "InvalidParametersError",
    "KnimeType",
    "LayoutDirection",
    "ListType",
    "LocalPathParameter",
    "LogicalType",
    "MultiColumnParameter",
    "MultilineStringParameter",
    "NodeType",
    "OneOf",
    "Or",
    "ParameterArray",
    "Port",
    "PortObject",
    "PortObjectSpec",
    "PortType",
    "PrimitiveType",
    "PrimitiveTypeId",
    "ProxySettings",
    "PythonNode",
    "Schema",
    "StringParameter",
    "StructType",
    "Table",
    "Version",
    "ViewDeclaration",
    "WorkflowExecutionError",
    "blob",
    "bool_",
    "category",
    "datetime",
    "double",
    "get_proxy_settings",
    "input_binary",
    "input_binary_group",
    "input_port",
    "input_port_group",
    "input_table",
    "input_table_group",
    "int32",
    "int64",
    "list_",
    "logical",
    "node",
    "null",
    "output_binary",
    "output_binary_group",
    "output_image",
    "output_image_group",
    "output_port",
    "output_port_group",
    "output_table",
    "output_table_group",
    "output_view",
    "parameter_group",
    "port_type",
    "string",
    "struct",
    "supported_value_types",
    "view",
    "view_html",
    "view_ipy_repr",
    "view_jpeg",
    "view_matplotlib",
    "view_plotly",
    "view_png",
    "view_seaborn",
    "view_svg",
]
