"""Candidates, evidence and laws."""
