"""The file of a catalogue: its format, reading it, and where it lies."""
