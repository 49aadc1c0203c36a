"""The parts of the node *Tool Call Replayer*."""
