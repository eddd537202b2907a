"""A server for a model on this machine: vLLM, in a Python environment of its own."""
