"""Exports for SkyRL."""
