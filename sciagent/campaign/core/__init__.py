"""The common parts of a campaign: built ladder, verdicts, budget, recording of results."""
