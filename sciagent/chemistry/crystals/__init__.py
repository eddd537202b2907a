"""Crystals as candidates: notations, files, prototypes, families, likeness, edits and drawings."""
