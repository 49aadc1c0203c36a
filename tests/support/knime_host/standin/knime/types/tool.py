"""KNIME's type for workflow tools, so that tables outside KNIME can have such columns."""

# Signatures are KNIME's, so not every argument is used.

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from knime.api.types import FileStorePythonValueFactory


@dataclass
class ToolPort:
    """An input or output port of a tool; ``type`` and ``spec`` have KNIME's content."""

    name: str
    description: str
    type: str
    spec: Any

    def _to_arrow_dict(self) -> dict[str, Any]:
        return {"0": self.name, "1": self.description, "2": self.type, "3": self.spec}

    @classmethod
    def _from_arrow_dict(cls, storage: dict[str, Any]) -> "ToolPort":
        return cls(storage["0"], storage["1"], storage["2"], storage["3"])


@dataclass
class WorkflowTool:
    """A workflow that can be run as a tool. The workflow itself is in the file stores of the cell."""

    name: str
    description: str
    parameter_schema: dict[str, Any]
    message_output_port_index: int
    input_ports: list[ToolPort] | None = None
    output_ports: list[ToolPort] | None = None
    _filestore_keys: str | None = None


class WorkflowToolValueFactory(FileStorePythonValueFactory):
    """KNIME's value factory, which keeps the keys of the file stores but does not open the files.

    As in KNIME, a missing cell cannot be decoded, and None cannot be encoded.
    """

    def __init__(self) -> None:
        super().__init__(WorkflowTool)

    def read(self, file_paths: list[str], table_data: Any) -> WorkflowTool:
        return WorkflowTool(
            name=table_data["0"],
            description=table_data["1"],
            parameter_schema=json.loads(table_data["2"]) if table_data["2"] else {},
            message_output_port_index=table_data["5"],
            input_ports=[ToolPort._from_arrow_dict(port) for port in table_data["3"]],  # pyright: ignore[reportPrivateUsage]
            output_ports=[ToolPort._from_arrow_dict(port) for port in table_data["4"]],  # pyright: ignore[reportPrivateUsage]
        )

    def decode(self, storage: Any) -> Any:
        tool = super().decode(storage)
        tool._filestore_keys = storage.get("0")
        return tool

    def write(self, file_store_creator: Callable[[], str], value: Any) -> Any:
        if value is None:
            return None
        return {
            "0": value.name,
            "1": value.description,
            "2": json.dumps(value.parameter_schema),
            "3": [port._to_arrow_dict() for port in value.input_ports],
            "4": [port._to_arrow_dict() for port in value.output_ports],
            "5": value.message_output_port_index,
        }

    def encode(self, value: Any) -> Any:
        encoded = super().encode(value)
        return {"0": value._filestore_keys, "1": encoded["1"]}
