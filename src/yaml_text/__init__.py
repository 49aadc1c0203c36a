"""Reads YAML 1.2 as plain values, with the line and column of every key for error messages."""

from .core_schema import core_scalar
from .mistakes import Mistake, YamlError
from .reading import Path, Rules, Yaml, read

__all__ = ["Mistake", "Path", "Rules", "Yaml", "YamlError", "core_scalar", "read"]
