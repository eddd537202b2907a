"""Recipes: training by stages, from demonstrations to an audited policy."""
