"""Spec packs: nodes described in YAML."""
