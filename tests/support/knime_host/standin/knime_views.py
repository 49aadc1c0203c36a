"""The former name of ``knime.api.views``, which extensions still import."""

from knime.api.views import *  # noqa: F403
