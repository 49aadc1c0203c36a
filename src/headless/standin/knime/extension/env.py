"""The former name of ``knime.api.env``, which extensions still import."""

from knime.api.env import *  # noqa: F403
