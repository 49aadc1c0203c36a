"""What catalogues are built from: KNIME's plug-ins, facts that come along, and spec packs."""
