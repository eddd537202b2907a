"""Reads YAML documents, input files and environment variables, and validates them."""
