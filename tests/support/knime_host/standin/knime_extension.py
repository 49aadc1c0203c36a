"""The former name of ``knime.extension``, which extensions still import."""

from knime.extension import *  # noqa: F403
