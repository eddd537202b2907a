"""Exports for verl."""
