"""The campaign file: its keys, what is checked in it, and how two of them differ."""
