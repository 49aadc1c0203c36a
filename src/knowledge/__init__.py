"""Node knowledge: which nodes exist, and how they are configured."""
