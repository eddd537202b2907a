"""A server of our own for a model on this machine: vLLM, in an interpreter that has it."""
