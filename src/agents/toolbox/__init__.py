"""The tools of a run: what the model is told of them, and how its calls are answered."""
