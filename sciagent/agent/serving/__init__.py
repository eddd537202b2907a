"""Serves a model on this machine by vLLM, which runs in its own Python environment."""
