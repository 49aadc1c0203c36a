"""The audit workflow: recorded calls as a KNIME workflow that shows them and can make them again."""
