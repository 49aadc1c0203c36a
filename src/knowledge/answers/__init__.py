"""The answers of the node knowledge's tools."""
