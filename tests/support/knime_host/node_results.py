"""The result of a run with its output tables, and credential ports, which are inputs."""

import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from .column_types import factory_of

if TYPE_CHECKING:
    import pyarrow as pa

    from .host import ExtensionHost


class HostError(RuntimeError):
    """KNIME would refuse this, or the host was used wrongly. The message says what to change."""


@dataclass(frozen=True)
class CredentialPort:
    """The output of an Authenticator node, for a port of type credential.

    Attributes:
        schema: ``Bearer`` or ``Basic``.
        parameters: the token, which follows the schema in an Authorization header.
        expires_after: seconds since 1970, if the token expires.
        available: False if the upstream node is connected but has not been executed.
    """

    schema: str = "Bearer"
    parameters: str = field(default="", repr=False)
    expires_after: float | None = None
    available: bool = True
    key: str = field(default_factory=lambda: uuid.uuid4().hex, repr=False)


@dataclass(frozen=True)
class OutputTable:
    """An output table as KNIME would read it.

    Attributes:
        arrow: all columns with KNIME's types, the RowIDs first.
        problems: why KNIME refuses the table: duplicate names or RowIDs, unknown types, wrong storage.
    """

    arrow: "pa.Table"
    problems: Sequence[str]
    _host: "ExtensionHost" = field(repr=False)

    @property
    def column_names(self) -> list[str]:
        """The names of the columns, without the RowIDs."""
        return list(self.arrow.schema.names[1:])

    @property
    def row_ids(self) -> list[str]:
        return [row_id for chunk in self.arrow.column(0).chunks for row_id in chunk.storage.to_pylist()]

    @property
    def logical_types(self) -> dict[str, str]:
        """The Java value factory of each column, including the RowIDs."""
        return {field.name: factory_of(field.type) for field in self.arrow.schema}

    def column(self, name: str) -> Sequence[Any]:
        """The Python values of one column."""
        with self._host.tables_usable():
            return self.arrow.column(self.column_names.index(name) + 1).to_pylist()

    def to_pylist(self) -> list[dict[str, Any]]:
        """The rows as dictionaries of Python values.

        KNIME's Python side cannot read a missing workflow tool, so this fails for tables with such a cell;
        their other columns can be read with `column`.
        """
        with self._host.tables_usable():
            columns = [self.arrow.column(i + 1).to_pylist() for i in range(len(self.column_names))]
        if not columns:
            return [{} for _ in range(self.arrow.num_rows)]
        return [dict(zip(self.column_names, row, strict=True)) for row in zip(*columns, strict=True)]

    def as_input(self) -> Any:
        """The same table as input of another node."""
        return self._host.table(self.arrow, "keep")


@dataclass
class NodeResult:
    """The result of configuring and executing a node, which a run fills in.

    Attributes:
        failure: ``message``, ``details`` (traceback) and ``invalid_settings``, if something failed.
        outputs: per output port an `OutputTable`, or (spec, bytes) of a custom port.
        specs: the specs from configure(), as KNIME's JSON documents; None for a spec that is not known yet.
        warnings: all calls of set_warning; KNIME shows the last one.
        flow_variables: all flow variables after the run; None if configure() failed.
        progress: calls of set_progress, as (progress, message).
        logs: log records during the run, as (severity, text).
        view_html: the page of the node's view; None without a view.
        parameters: the settings after the run, which KNIME stores.
        problems: reasons why KNIME would refuse the outputs.
    """

    failure: dict[str, Any] | None = None
    outputs: list[Any] = field(default_factory=list[Any])
    specs: list[Any] = field(default_factory=list[Any])
    warnings: list[str] = field(default_factory=list[str])
    flow_variables: dict[str, Any] | None = None
    progress: list[tuple[float, str | None]] = field(default_factory=list[tuple[float, str | None]])
    logs: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    view_html: str | None = None
    parameters: dict[str, Any] = field(default_factory=dict[str, Any])
    problems: list[str] = field(default_factory=list[str])

    @property
    def ok(self) -> bool:
        """Whether nothing failed."""
        return self.failure is None
