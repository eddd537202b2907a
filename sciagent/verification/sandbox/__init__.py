"""The sandbox: runs a verifier in a separate process, under limits."""
