"""Proposers in a campaign: scripts, models, and the workbench they propose through."""
