"""Converters between KNIME's own port objects and Python's. Extensions with Java code define them.

Modules with converters can be imported here, but converters are never called, as no port has Java objects.
"""

# The names of methods are KNIME's.
# ruff: noqa: N802

from abc import ABC, abstractmethod
from typing import Any, Generic, TypeVar

OBJ = TypeVar("OBJ")
SPEC = TypeVar("SPEC")


class IntermediateRepresentation:
    """A representation that Java and Python exchange."""


class PortObjectSpecIntermediateRepresentation(IntermediateRepresentation):
    """The representation of a spec."""


class PortObjectIntermediateRepresentation(IntermediateRepresentation):
    """The representation of a port object."""


class StringIntermediateRepresentation(
    PortObjectSpecIntermediateRepresentation, PortObjectIntermediateRepresentation
):
    """A representation of a spec or a port object by a text."""

    def __init__(self, representation: str) -> None:
        self._representation = representation

    def getStringRepresentation(self) -> str:
        """The text."""
        return self._representation


class EmptyIntermediateRepresentation(PortObjectIntermediateRepresentation):
    """The representation of a port object that has no data beside its spec."""


SPEC_IR = TypeVar("SPEC_IR", bound=PortObjectSpecIntermediateRepresentation)
OBJ_IR = TypeVar("OBJ_IR", bound=PortObjectIntermediateRepresentation)


class _Converter:
    def __init__(self, object_type: type | None = None, spec_type: type | None = None) -> None:
        self._object_type = object_type
        self._spec_type = spec_type

    @property
    def object_type(self) -> Any:
        """The class of the port objects."""
        return self._object_type

    @property
    def spec_type(self) -> Any:
        """The class of the specs."""
        return self._spec_type


class PortObjectDecoder(_Converter, ABC, Generic[OBJ, OBJ_IR, SPEC, SPEC_IR]):
    """Converts KNIME's specs and port objects to Python's."""

    @abstractmethod
    def decode_spec(self, intermediate_representation: SPEC_IR) -> SPEC:
        """The spec."""

    @abstractmethod
    def decode_object(self, intermediate_representation: OBJ_IR, spec: SPEC) -> OBJ:
        """The port object."""


class PortObjectEncoder(_Converter, ABC, Generic[OBJ, OBJ_IR, SPEC, SPEC_IR]):
    """Converts Python's specs and port objects to KNIME's."""

    @abstractmethod
    def encode_object(self, port_object: OBJ) -> OBJ_IR:
        """The representation of a port object."""

    @abstractmethod
    def encode_spec(self, spec: SPEC) -> SPEC_IR:
        """The representation of a spec."""


class PortObjectConverter(
    PortObjectDecoder[OBJ, OBJ_IR, SPEC, SPEC_IR], PortObjectEncoder[OBJ, OBJ_IR, SPEC, SPEC_IR]
):
    """A converter for both directions."""
