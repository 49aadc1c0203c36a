"""Converters between KNIME's own port objects and Python's, which come with Java code.

A module that defines them can be imported here. They are never called: no port here has Java objects.
"""

# The names of methods are KNIME's.
# ruff: noqa: N802

from abc import ABC, abstractmethod
from typing import Any, Generic, TypeVar

OBJ = TypeVar("OBJ")
SPEC = TypeVar("SPEC")


class IntermediateRepresentation:
    """What Java and Python hand to each other."""


class PortObjectSpecIntermediateRepresentation(IntermediateRepresentation):
    """What stands for a spec."""


class PortObjectIntermediateRepresentation(IntermediateRepresentation):
    """What stands for a port object."""


class StringIntermediateRepresentation(
    PortObjectSpecIntermediateRepresentation, PortObjectIntermediateRepresentation
):
    """A text that stands for a spec or a port object."""

    def __init__(self, representation: str) -> None:
        self._representation = representation

    def getStringRepresentation(self) -> str:
        """The text."""
        return self._representation


class EmptyIntermediateRepresentation(PortObjectIntermediateRepresentation):
    """Stands for a port object that is known by its spec alone."""


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
    """Makes Python's specs and port objects of KNIME's."""

    @abstractmethod
    def decode_spec(self, intermediate_representation: SPEC_IR) -> SPEC:
        """The spec."""

    @abstractmethod
    def decode_object(self, intermediate_representation: OBJ_IR, spec: SPEC) -> OBJ:
        """The port object."""


class PortObjectEncoder(_Converter, ABC, Generic[OBJ, OBJ_IR, SPEC, SPEC_IR]):
    """Makes KNIME's specs and port objects of Python's."""

    @abstractmethod
    def encode_object(self, port_object: OBJ) -> OBJ_IR:
        """What stands for a port object."""

    @abstractmethod
    def encode_spec(self, spec: SPEC) -> SPEC_IR:
        """What stands for a spec."""


class PortObjectConverter(
    PortObjectDecoder[OBJ, OBJ_IR, SPEC, SPEC_IR], PortObjectEncoder[OBJ, OBJ_IR, SPEC, SPEC_IR]
):
    """Both ways."""
