"""Token traces: what was sampled, kept and trained as the ids that were sampled, never as text read anew."""
