"""JSON Schemas of tools: compiled within bounds, and violations in words."""
