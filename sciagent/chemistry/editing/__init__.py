"""Edits that turn a molecule into another one."""
