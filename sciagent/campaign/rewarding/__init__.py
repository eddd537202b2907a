"""Rewards from the ledger: what candidates were worth and cost at a watermark, published as versions."""
