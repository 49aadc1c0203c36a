"""The former name of ``knime.api.table``, which extensions still import."""

from knime.api.table import *  # noqa: F403
