"""Rewards of episodes, as functions of what the ledger holds up to a watermark. No language model is asked."""
