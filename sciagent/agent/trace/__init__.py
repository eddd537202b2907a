"""Token traces: sampled token ids are stored and trained as they were sampled, never tokenised again."""
