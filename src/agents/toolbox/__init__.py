"""The tools of a run: their definitions for the model, and the replies to its calls."""
