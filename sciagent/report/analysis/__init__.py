"""The analyses of a report: which rung was worth its cost, why candidates were rejected, proposers compared."""
