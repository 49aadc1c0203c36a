"""The former name of ``knime.extension.parameter``, which extensions still import."""

from knime.extension.parameter import *  # noqa: F403
