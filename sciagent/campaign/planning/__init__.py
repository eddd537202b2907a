"""Plans: the expected cost and hits of a campaign before it runs."""
