"""A value head: what the rest of an episode will earn, and the advantages that follow from it."""
