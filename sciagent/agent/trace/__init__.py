"""Token traces. Training uses the sampled token ids as stored; texts are never tokenised again."""
