"""Proposers in a campaign: scripts, models, and the workbench that takes their proposals."""
