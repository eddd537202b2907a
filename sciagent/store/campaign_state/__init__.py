"""Campaigns, where their candidates stand, and what people decided."""
