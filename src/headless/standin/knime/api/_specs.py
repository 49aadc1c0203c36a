"""The specs of ports that are not tables. A spec describes a port's content before it is computed."""

# Signatures are KNIME's, so not every argument is used.
# ruff: noqa: ARG003

import datetime as dt
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, cast

if TYPE_CHECKING:
    from enum import Enum

    from .schema import Schema


class PortObjectSpec(ABC):
    """The description of a port's content before it is computed."""

    @abstractmethod
    def serialize(self) -> dict[str, Any]:
        """The spec as a JSON document."""

    @classmethod
    @abstractmethod
    def deserialize(cls, data: dict[str, Any], java_callback: Any = None) -> "PortObjectSpec":
        """The spec from its document. KNIME also accepts implementations without the second argument."""


class BinaryPortObjectSpec(PortObjectSpec):
    """The spec of a binary port. Ports with the same id can be connected."""

    def __init__(self, id: str) -> None:  # noqa: A002  # KNIME's name
        self._id = id

    @property
    def id(self) -> str:
        """The id."""
        return self._id

    def serialize(self) -> dict[str, Any]:
        """See `PortObjectSpec`."""
        return {"id": self._id}

    @classmethod
    def deserialize(cls, data: dict[str, Any]) -> "BinaryPortObjectSpec":  # pyright: ignore[reportIncompatibleMethodOverride]
        """See `PortObjectSpec`."""
        return cls(data["id"])


class ImagePortObjectSpec(PortObjectSpec):
    """The spec of an image port, which has the format."""

    def __init__(self, format: "str | Enum") -> None:  # noqa: A002  # KNIME's name
        self._format = format if isinstance(format, str) else str(format.value)

    @property
    def format(self) -> str:
        """``png`` or ``svg``."""
        return self._format

    def serialize(self) -> dict[str, Any]:
        """See `PortObjectSpec`."""
        return {"format": self._format}

    @classmethod
    def deserialize(cls, data: dict[str, Any]) -> "ImagePortObjectSpec":  # pyright: ignore[reportIncompatibleMethodOverride]
        """See `PortObjectSpec`."""
        return cls(data["format"])


class CredentialPortObjectSpec(PortObjectSpec):
    """The spec of a credential port. The secrets stay with KNIME and are fetched when they are read.

    Reading a secret raises a ValueError if the upstream node has not been executed.
    """

    #: The object that has the secrets: KNIME's Java side, or here the node host.
    _java_callback: ClassVar[Any] = None

    def __init__(self, xml_data: str | None) -> None:
        self._xml_data = xml_data

    def _ask(self, what: str) -> Any:
        try:
            return getattr(self._java_callback, what)(self._xml_data)
        except LookupError:
            raise ValueError(
                "the credential is not there; maybe the upstream nodes have to be executed"
            ) from None

    @property
    def auth_schema(self) -> str:
        """``Bearer`` or ``Basic``."""
        return self._ask("get_auth_schema")

    @property
    def auth_parameters(self) -> str:
        """The token, which follows the schema in an Authorization header."""
        return self._ask("get_auth_parameters")

    @property
    def expires_after(self) -> dt.datetime | None:
        """The time when the token expires (UTC, without time zone), if it is known."""
        return self._ask("get_expires_after")

    def serialize(self) -> dict[str, Any]:
        """See `PortObjectSpec`."""
        return {"data": self._xml_data}

    @classmethod
    def deserialize(cls, data: dict[str, Any], java_callback: Any = None) -> "CredentialPortObjectSpec":
        """See `PortObjectSpec`."""
        return cls(data.get("data"))


class HubAuthenticationPortObjectSpec(CredentialPortObjectSpec):
    """The spec of a port with a login at a KNIME Hub."""

    def __init__(self, xml_data: str | None, hub_url: str) -> None:
        super().__init__(xml_data)
        self._hub_url = hub_url

    @property
    def hub_url(self) -> str:
        """The address of the Hub."""
        return self._hub_url

    def serialize(self) -> dict[str, Any]:
        """See `PortObjectSpec`."""
        return {**super().serialize(), "hub_url": self.hub_url}

    @classmethod
    def deserialize(cls, data: dict[str, Any]) -> "HubAuthenticationPortObjectSpec":  # pyright: ignore[reportIncompatibleMethodOverride]
        """See `PortObjectSpec`."""
        return cls(data.get("data"), cast("str", data.get("hub_url")))


@dataclass(frozen=True)
class WorkflowPortInfo:
    """A port of a workflow: the name and id of its type, and the schema if it is a table."""

    type_name: str
    type_id: str
    schema: "Schema | None"

    @classmethod
    def deserialize(cls, data: dict[str, Any]) -> "WorkflowPortInfo":
        """The port from its document."""
        from .schema import Schema

        schema = Schema.deserialize(data["table_spec"]) if "table_spec" in data else None
        return cls(data["type_name"], data["type_id"], schema)


class WorkflowPortObjectSpec(PortObjectSpec):
    """The spec of a workflow port: the workflow's name, and its ports by their ids."""

    def __init__(
        self, name: str, inputs: dict[str, WorkflowPortInfo], outputs: dict[str, WorkflowPortInfo]
    ) -> None:
        self.name = name
        self.inputs = inputs
        self.outputs = outputs

    def serialize(self) -> dict[str, Any]:
        """See `PortObjectSpec`."""
        return {"name": self.name, "inputs": self.inputs, "outputs": self.outputs}

    @classmethod
    def deserialize(cls, data: dict[str, Any], java_callback: Any = None) -> "WorkflowPortObjectSpec":
        """See `PortObjectSpec`."""
        inputs, outputs = (
            {key: WorkflowPortInfo.deserialize(port) for key, port in data[side].items()}
            for side in ("inputs", "outputs")
        )
        return cls(data["name"], inputs, outputs)
