"""Campaigns, the standings of their candidates, and people's directives."""
