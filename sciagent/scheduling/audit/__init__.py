"""The audit of dropped candidates: estimates how many hits the scheduler missed."""
