"""The learner turns training rows into a policy. It does not know where the rows come from."""
