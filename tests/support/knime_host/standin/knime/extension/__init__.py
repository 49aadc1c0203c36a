"""A stand-in for ``knime.extension`` outside KNIME: what our nodes use of it.

It is never mixed with KNIME's own package, as it is added to the end of ``sys.path`` and only if that package
is missing.
"""

# Nodes import names of other modules from here, so not every import is used.
# ruff: noqa: F401
# pyright: reportUnusedImport=false

from knime.api.schema import (
    Column,
    CredentialPortObjectSpec,
    LogicalType,
    PortObjectSpec,
    Schema,
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
from knime.api.views import view_html

from .contexts import ConfigurationContext, DialogCreationContext, ExecutionContext
from .nodes import InvalidParametersError, NodeType, category, node, port_type
from .parameter import (
    And,
    BoolParameter,
    ColumnParameter,
    Condition,
    DialogContextCondition,
    DoubleParameter,
    Effect,
    EnumParameter,
    EnumParameterOptions,
    IntParameter,
    LayoutDirection,
    MultilineStringParameter,
    OneOf,
    ParameterArray,
    StringParameter,
    Version,
    parameter_group,
)
from .ports import (
    Port,
    PortObject,
    PortType,
    ViewDeclaration,
    input_port,
    input_table,
    input_table_group,
    output_port,
    output_table,
    output_table_group,
    output_view,
)
