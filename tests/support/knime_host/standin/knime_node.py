"""The former name of ``knime.extension.nodes``, which extensions still import."""

from knime.extension.nodes import *  # noqa: F403
