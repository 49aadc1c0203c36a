"""Node knowledge: the nodes of KNIME and other workflow engines, with their ports and settings."""
