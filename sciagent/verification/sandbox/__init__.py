"""Runs a verifier in a process of its own, under limits."""
