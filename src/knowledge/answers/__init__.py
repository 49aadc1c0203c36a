"""What the tools of the node knowledge answer."""
