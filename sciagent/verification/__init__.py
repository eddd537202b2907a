"""Verification: the contract of verifiers, their registry, and the host that runs them in processes of their own."""
