"""Verifiers whose answers come from people."""
