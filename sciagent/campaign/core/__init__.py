"""What every part of a campaign builds on: the built ladder, verdicts, budgets, recording."""
