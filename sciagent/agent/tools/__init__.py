"""Tools: what an agent may do, as typed functions that are served to the loop and as strict JSON schemas."""
