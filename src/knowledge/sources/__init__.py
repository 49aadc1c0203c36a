"""Catalogues built from KNIME plug-ins and Python extensions."""
