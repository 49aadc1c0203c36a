"""Graph documents: read from YAML, fitted to the model, and checked."""
