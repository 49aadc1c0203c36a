"""A stand-in for ``knime.extension`` outside KNIME.

It is never mixed with KNIME's own package, as it is added to the end of ``sys.path`` and only if that package
is missing. Functions that are not implemented raise an error that says so.
"""

# Nodes import names of other modules from here, so not every import is used.
# ruff: noqa: F401
# pyright: reportUnusedImport=false

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
from knime.api.views import view, view_html, view_ipy_repr, view_jpeg, view_png, view_svg

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
