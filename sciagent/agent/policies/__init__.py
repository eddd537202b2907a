"""Clients for models, local and remote."""
