"""The contract of verifiers, their registry, and the host that runs them in separate processes."""
