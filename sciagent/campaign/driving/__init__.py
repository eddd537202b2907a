"""The driver: steps a campaign, starts jobs and settles their results."""
