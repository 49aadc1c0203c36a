"""Search over a catalogue."""
