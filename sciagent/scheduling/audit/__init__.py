"""The audit: what the scheduler missed, found out on candidates that it dropped; and what follows from that."""
