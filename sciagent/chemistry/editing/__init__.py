"""Edits that turn one molecule into another."""
