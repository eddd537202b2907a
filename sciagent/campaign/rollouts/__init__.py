"""Rollouts: groups of episodes that begin alike, see one frozen snapshot of the campaign, and advance in lock-step."""
