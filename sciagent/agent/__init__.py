"""Proposers of candidates, which act only through the workbench: models in episodes, and scripts."""
