"""Reports: they read the ledger, and nothing else."""
