"""Training on the live ladder: groups of rollouts, their rewards, and the training step, one after the other."""
