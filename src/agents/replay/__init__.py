"""What the node *Tool Call Replayer* is made of."""
