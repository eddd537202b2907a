"""Learning in the ledger: tool sets, policies, groups of rollouts, rewards."""
