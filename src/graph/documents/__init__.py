"""Reads graph documents from YAML, turns them into the model, and checks them."""
