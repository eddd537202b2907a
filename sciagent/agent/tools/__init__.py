"""The tools that an agent may call, as typed functions with strict JSON schemas."""
