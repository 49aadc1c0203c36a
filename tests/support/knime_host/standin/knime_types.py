"""The former name of ``knime.api.types``, which extensions still import."""

from knime.api.types import *  # noqa: F403
