"""What catalogues are built from: KNIME's plug-ins, Python extensions and spec packs."""
