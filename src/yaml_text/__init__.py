"""Reads YAML 1.2 as plain values, and what is in them key by key, with the place of every problem."""

from .fields import (
    LIST,
    MAPPING,
    NUMBER,
    REQUIRED,
    TEXT,
    TRUTH,
    WHOLE,
    Fields,
    Findings,
    Hints,
    Kind,
    did_you_mean,
    kind_of,
)
from .problems import Path, Position, Problem, Severity, YamlError, key_path, sorted_problems
from .reading import Rules, Yaml, core_scalar, read

__all__ = [
    "LIST",
    "MAPPING",
    "NUMBER",
    "REQUIRED",
    "TEXT",
    "TRUTH",
    "WHOLE",
    "Fields",
    "Findings",
    "Hints",
    "Kind",
    "Path",
    "Position",
    "Problem",
    "Rules",
    "Severity",
    "Yaml",
    "YamlError",
    "core_scalar",
    "did_you_mean",
    "key_path",
    "kind_of",
    "read",
    "sorted_problems",
]
