"""Reads YAML files as plain data with the place of every key, and explains mistakes in plain messages."""
