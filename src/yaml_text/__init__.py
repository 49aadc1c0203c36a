"""Reads YAML 1.2 as plain values, and what is in them key by key, with the place of every problem."""

from .fields import LIST as LIST
from .fields import MAPPING as MAPPING
from .fields import NUMBER as NUMBER
from .fields import REQUIRED as REQUIRED
from .fields import TEXT as TEXT
from .fields import TRUTH as TRUTH
from .fields import WHOLE as WHOLE
from .fields import Fields as Fields
from .fields import Findings as Findings
from .fields import Hints as Hints
from .fields import Kind as Kind
from .fields import Path as Path
from .fields import Position as Position
from .fields import Problem as Problem
from .fields import Severity as Severity
from .fields import YamlError as YamlError
from .fields import as_list as as_list
from .fields import as_mapping as as_mapping
from .fields import did_you_mean as did_you_mean
from .fields import key_path as key_path
from .fields import kind_of as kind_of
from .fields import sorted_problems as sorted_problems
from .reading import Rules as Rules
from .reading import Yaml as Yaml
from .reading import core_scalar as core_scalar
from .reading import read as read
