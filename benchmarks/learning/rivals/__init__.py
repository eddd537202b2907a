"""Cheap rivals of a trained policy, as proposers that a campaign names: `learning.table` and `learning.law`."""
