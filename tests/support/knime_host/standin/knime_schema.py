"""The former name of ``knime.api.schema``, which extensions still import."""

from knime.api.schema import *  # noqa: F403
